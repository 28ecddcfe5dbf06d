"""Check a built wheel: what is in it, and that it works in an environment of its own, away from the source tree.

    python .ci/check_wheel.py dist

The environment takes its dependencies from the one that runs this (a .pth line), so it costs seconds.
"""

import subprocess
import sys
import sysconfig
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("constraints", "grammars", "hmm")

TRY = """
import importlib, pathlib, pkgutil, sys
from importlib.metadata import entry_points, version
import ctrlgen
from ctrlgen import resources

home = pathlib.Path(ctrlgen.__file__).parent
assert home.is_relative_to(sys.prefix), f"{home} is not the installed package"
for name in resources.FOLDERS:
    assert resources.folder(name) == home / "data" / name, resources.folder(name)
names = [m.name for m in pkgutil.walk_packages(ctrlgen.__path__, "ctrlgen.") if not m.name.endswith("__main__")]
for name in names:
    importlib.import_module(name)
for entry in entry_points(group="console_scripts", name="ctrlgen"):
    assert callable(entry.load())
print(f"ctrlgen {version('ctrlgen')}: {len(names)} modules import from {home}")
"""


def main() -> None:
    """Check the one wheel in the folder given."""
    (wheel,) = Path(sys.argv[1]).resolve().glob("*.whl")
    check_content(wheel)
    with tempfile.TemporaryDirectory() as scratch:
        python = install(wheel, Path(scratch) / "venv")
        for arguments in (["-c", TRY], ["-m", "ctrlgen.models", "--list"]):
            if subprocess.run([python, *arguments], check=False, cwd=scratch).returncode:
                sys.exit(f"{wheel.name} does not work in an environment of its own; see above")
    print(f"{wheel.name} is good ({wheel.stat().st_size / 1e6:.1f} MB)")


def check_content(wheel: Path) -> None:
    """The package and its dist-info, nothing else; every file of the source tree that belongs in it."""
    names = set(zipfile.ZipFile(wheel).namelist())
    tops = {name.split("/")[0] for name in names}
    strange = {top for top in tops if top != "ctrlgen" and not top.endswith(".dist-info")}
    wanted = {f"ctrlgen/data/{name}" for folder in FOLDERS for name in tracked(folder)} | tracked("ctrlgen")
    if strange or "ctrlgen" not in tops:
        sys.exit(f"{wheel.name}: at its top level there should be ctrlgen and its dist-info, found {sorted(tops)}")
    if missing := sorted(wanted - names):
        sys.exit(f"{wheel.name} lacks {', '.join(missing[:10])} ({len(missing)} files)")


def tracked(folder: str) -> set[str]:
    """Files below ``folder`` that git knows, by their path from the root."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--", folder]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {name for name in listed.split("\0") if name and (ROOT / name).is_file()}


def install(wheel: Path, folder: Path) -> str:
    """Install the wheel in a new environment; returns its python."""
    venv.create(folder, with_pip=False)
    python = str(folder / ("Scripts" if sys.platform == "win32" else "bin") / "python")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)], check=True)
    ask = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = subprocess.run(ask, check=True, capture_output=True, text=True).stdout.strip()
    # a path named in a .pth file comes last, and .pth files in it are not read: the source tree stays out of sight
    (Path(site) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


if __name__ == "__main__":
    main()
