import pytest

from ctrlgen import resources
from ctrlgen.errors import CtrlgenError, InputError


@pytest.mark.parametrize("name", resources.FOLDERS)
def test_source_tree(name):
    assert resources.folder(name).is_dir()


def test_installed_wheel(tmp_path, monkeypatch):
    package = tmp_path / "site-packages" / "ctrlgen"
    (package / "data" / "grammars").mkdir(parents=True)
    (package.parent / "grammars").mkdir()  # another package's: not ours
    monkeypatch.setattr(resources, "_PACKAGE", package)
    assert resources.folder("grammars") == package / "data" / "grammars"
    with pytest.raises(CtrlgenError, match="incomplete"):
        resources.folder("hmm")


def test_unknown():
    with pytest.raises(InputError, match="'models'; there are constraints, grammars, hmm"):
        resources.folder("models")
