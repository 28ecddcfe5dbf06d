"""What an import costs. The wheel itself is checked by .ci/check_wheel.py."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IMPORT_SECONDS = 0.3
HEAVY = ("torch", "transformers", "numba")

SCRIPT = f"""
import sys, time
begun = time.perf_counter()
import ctrlgen
print(time.perf_counter() - begun, *[name for name in {HEAVY} if name in sys.modules])
"""


def fresh_import() -> tuple[float, list[str]]:
    """Seconds that `import ctrlgen` takes in a new process, and the heavy packages it brings."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], check=True, cwd=ROOT, capture_output=True, text=True)
    seconds, *heavy = done.stdout.split()
    return float(seconds), heavy


def test_import_is_light():
    runs = [fresh_import() for _ in range(3)]
    assert [heavy for _, heavy in runs] == [[], [], []]
    assert min(seconds for seconds, _ in runs) <= IMPORT_SECONDS


def test_marked_as_typed():
    assert (ROOT / "ctrlgen" / "py.typed").is_file()
