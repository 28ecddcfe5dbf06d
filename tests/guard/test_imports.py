"""Import statements under the guard, against an independent reading by lines and words."""

import random
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ctrlgen as cg
from ctrlgen.constraint import DEAD
from ctrlgen.testing import ToyLM, ToyTokenizer, check_laws
from ctrlgen.vocabulary import Vocabulary
from tests.bytewise import check_rows, state_after
from tests.oracles.imported import imported
from tests.oracles.installs import normal

NAMES = ["numpy", "flask-sqlalchemy", "pyyaml", "ab", "uvx", "as"]
GUARD = cg.PackageGuard(NAMES, imports={"yaml": "PyYAML", "cv2": "opencv-python"})
KNOWN = {normal(name) for name in (*NAMES, "yaml", *sys.stdlib_module_names)}
BYTES = Vocabulary([*(bytes([byte]) for byte in range(256)), None, None], eos=[256], special={"<ctl>": 257})
PIECES = [
    b"```python\n", b"```py\n", b"```\n", b"import ", b"from ", b"import numpy", b" as np", b", ", b"numpy", b"num",
    b"yaml", b"yam", b"flask_", b"sqlalchemy", b"\n", b"__", b"__future__", b"os", b".path", b"bad", b"\\\n", b"; ",
    b"# x", b"    ", b"pip install ", b"easy_install", b"uvx ", b"as ", b" import x",
]  # fmt: skip
MERGED = Vocabulary([*(bytes([b]) for b in range(256)), None, None, *PIECES], eos=[256], special={"<ctl>": 257})

FINE = [
    "import bad",
    "```bash\nimport bad\n```",
    "```\nimport bad\n```",
    "```pythonic\nimport bad\n```",
    "```python\nimport numpy\n```\nimport bad",
    "```python\nimport numpy as np, yaml, os.path\nfrom flask_sqlalchemy import bad\n```",
    "```py\nfrom __future__ import annotations\nimport _thread\n  import Flask_SQLAlchemy\n```",
    "```python3 title=x\nfrom . import bad\nfrom .bad import x\nimported = 1\nfrom_ = 2\nx = 'import bad'\n```",
    "```python\nfrom numpy \\\n  import bad\n```",
    "```python\nimport numpy # , bad\n```",
    "````python\nimport ab; import yaml\n````",
]
WRONG = {
    "```python\nimport bad\n```": ["bad"],
    "x\n  ```python\n  import bad, numpy, worse as np, ab": ["bad", "worse"],
    "```py\nfrom bad.numpy import x\nimport numpyy": ["bad", "numpyy"],
    "```Python\nimport num": ["num"],
    "```python\nimport cv2": ["cv2"],
    "```python\nimport \\\n bad": ["bad"],
    "```python\nimport numpy.x as y , bad": ["bad"],
    "```python\rimport numpy; import bad": ["bad"],
    "```python\nimport n\u00fcmpy": ["n\u00fcmpy"],
    "```python\nimport numpy \\\n, bad": ["bad"],
    "```python\nimport numpy\n```\n```python\nimport bad": ["bad"],
}


@pytest.mark.parametrize("text", FINE)
def test_what_imports_known_modules_passes(text):
    assert GUARD.check(text) == []
    constraint = GUARD.compile(BYTES)
    state = state_after(constraint, text.encode())
    assert state != DEAD
    assert constraint.accepts(state)
    assert not [name for name in imported(text) if normal(name) not in KNOWN]


@pytest.mark.parametrize(("text", "wanted"), WRONG.items())
def test_what_does_not_is_found(text, wanted):
    found = GUARD.check(text)
    assert [one.text for one in found] == wanted
    assert all(text[one.start :].startswith(one.text) for one in found)
    constraint = GUARD.compile(BYTES)
    state = state_after(constraint, text.encode())
    assert state == DEAD or not constraint.accepts(state)
    assert [name for name in imported(text) if normal(name) not in KNOWN] == wanted
    assert cg.PackageGuard(NAMES).check(text) == []


CODE = st.lists(st.sampled_from([*(piece.decode() for piece in PIECES), " ", "x", ",", ".", "\r", "_"]), max_size=12)


@given(CODE)
@settings(max_examples=400, deadline=None)
def test_what_passes_imports_only_known_modules(pieces):
    text = "```python\nimport " + "".join(pieces)
    wrong = [name for name in imported(text) if normal(name) not in KNOWN]
    found = [one for one in GUARD.check(text) if one.text not in ("\n",)]
    assert not (wrong and not found), (wrong, text)
    constraint = GUARD.compile(BYTES)
    state = state_after(constraint, text.encode())
    if wrong:
        assert state == DEAD or not constraint.accepts(state)


def test_laws():
    texts = [b"```python\nimport numpy\n", b"```py\nfrom yaml import x\n```\npip install ab", b"a\n```\nimport bad\n"]
    constraint = GUARD.compile(MERGED)
    check_laws(constraint, texts=texts, controls=[257], max_states=150)
    plain = GUARD.compile(BYTES)
    heads = [b"```python\nimport ", b"```py\nfrom nu", b"```py\nimport flask_", b"```py\nimport ab as easy_install , "]
    rng = random.Random(2)
    more = [h + bytes(rng.choices(b"ab ,.\n_", k=2)) for h in heads for _ in range(4)]
    check_rows(constraint, plain, heads + more)


@pytest.mark.parametrize(
    "context", ["", "```python\nimport ", "```python\nfrom fl", "```py\nimport ab.easy_install as "]
)
def test_random_texts_end_in_time_and_import_only_known_modules(context):
    guard = GUARD.following(context)
    bias = [-6.0] * 258 + [0.0] * len(PIECES)
    for budget in range(12, 30):
        rng = random.Random(budget)
        model = ToyLM(MERGED, lambda ids, rng=rng: [one + rng.gauss(0, 1) for one in bias])
        options = {"vocabulary": MERGED, "max_new_tokens": budget, "do_sample": True, "seed": budget, "trace": False}
        for result in cg.generate(model, ToyTokenizer(MERGED), ["x", "yz"], guard, **options):
            assert result.complete
            assert not [name for name in imported(context + result.text) if normal(name) not in KNOWN]
            assert not [one for one in guard.check(context + result.text) if one.reason == "not on the list"]


def test_a_state_in_a_name_can_be_finished():
    constraint = GUARD.compile(MERGED)
    for head in ("```py\nimport f", "```py\nimport __fu", "```py\nimport ab, _th", "```py\npip install nu"):
        state = state_after(constraint, head.encode())
        rest = constraint.rest(state)
        assert rest
        assert constraint.distance(state) == 1 + len(MERGED.encode_greedy(rest))
        for token in MERGED.encode_greedy(rest):
            state = constraint.advance(state, token)
        assert constraint.accepts(state)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(cg.InputError, match="pypi"):
        cg.PackageGuard(["react"], "npm", imports=True)
    for imports in (3, {"a": 1}, ["a"], {"": "a"}):
        with pytest.raises(cg.InputError, match="imports"):
            cg.PackageGuard(NAMES, imports=imports)
