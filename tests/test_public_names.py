import ctrlgen


def test_sorted():
    assert list(ctrlgen.__all__) == sorted(ctrlgen.__all__)


def test_every_name_resolves():
    missing = []
    for name in ctrlgen.__all__:
        try:
            getattr(ctrlgen, name)
        except (AttributeError, ImportError) as error:
            missing.append(f"{name}: {error}")
    assert missing == []


def test_dir_shows_them():
    assert set(ctrlgen.__all__) <= set(dir(ctrlgen))
