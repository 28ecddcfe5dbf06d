"""The operator's file."""

import pytest

import ctrlgen as cg
from ctrlgen.serving.registry import Limits, Registry


def test_reads_a_file(tmp_path):
    (tmp_path / "names.txt").write_text("numpy\nFlask\n")
    file = tmp_path / "serving.toml"
    file.write_text(
        'model = "model"\n[limits]\nbytes = 100\nseconds = 0.5\n'
        '[constraints.packages]\nnames = "names.txt"\nnormalise = "pep503"\n'
        '[guards.pypi]\nnames = "names.txt"\nimports = true\n'
        '[hmms]\nsmall = "smollm2-135m"\n[attributes]\ngood = "smollm2-135m.positive-review.factorised"\n'
    )
    (tmp_path / "model").mkdir()
    found = Registry.from_toml(file)
    assert found.limits == Limits(bytes=100, seconds=0.5)
    assert found.model == str(tmp_path / "model")
    assert list(found.constraints["packages"].names) == ["flask", "numpy"]
    assert found.guards["pypi"].check("pip install numpi")[0].text == "numpi"
    assert isinstance(found.attribute("good"), cg.Attribute)
    assert found.attribute("good") is found.attribute("good")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[limits]\nbites = 3", "limits"),
        ("[limits]\nbytes = 0", "limits.bytes"),
        ("[limit]\nbytes = 3", "limit: expected"),
        ('[guards]\npypi = "names.txt"', "guards.pypi"),
        ('[guards.pypi]\nnames = "no.txt"', "there is no file"),
        ('[guards.pypi]\nnames = "serving.toml"\nurl = "allow"', "guards.pypi"),
        ('[catalogues]\nbooks = "no.index"', "catalogues.books"),
        ('[hmms]\nsmall = "small"', "hmms.small"),
        ("model = 3", "model"),
        ("[", "serving.toml: "),
    ],
)
def test_refuses(tmp_path, content, reason):
    file = tmp_path / "serving.toml"
    file.write_text(content)
    with pytest.raises(cg.InputError, match=reason):
        Registry.from_toml(file)


def test_a_catalogue_in_a_file(tmp_path):
    from ctrlgen.index.storage import save_index

    vocabulary = cg.Vocabulary([b"a", b"b", b"c", None], eos=[3])
    save_index(cg.TokenIndex.from_items([[0, 1], [2]], vocabulary=vocabulary), tmp_path / "books.index")
    (tmp_path / "serving.toml").write_text('[catalogues]\nbooks = "books.index"\n')
    constraint = Registry.from_toml(tmp_path / "serving.toml").catalogues["books"].compile(vocabulary)
    assert constraint.mask(constraint.start).tolist() == [0b101]
