"""Files of requirements that a text shows: in finished texts, in masks, and while a model writes."""

import random

import numpy as np
import pytest

import ctrlgen as cg
from ctrlgen.constraint import DEAD
from ctrlgen.testing import ToyLM, ToyTokenizer, check_laws
from ctrlgen.vocabulary import Vocabulary
from tests.bytewise import check_rows, state_after
from tests.oracles.installs import normal
from tests.oracles.required import required

NAMES = ["numpy", "requests", "flask-sqlalchemy", "a", "ab", "eofx", "end"]
GUARD = cg.PackageGuard(NAMES)
FENCE = "```"

SHOWN = {
    f"Put this in `requirements.txt`:\n\n{FENCE}\nnumpy==1.0\nbad\n{FENCE}\nbad prose\n": ["bad"],
    f"requirements-dev.txt:\n{FENCE}text\n# all\nbad>=2 ; python_version < '3'\n-r base.txt\n{FENCE}": ["bad"],
    f"{FENCE}requirements.txt\nFlask_SQLAlchemy[x]~=1.0\nbad1\nbad2": ["bad1", "bad2"],
    f"{FENCE} Requirements\nbad\n{FENCE}\n": ["bad"],
    f'{FENCE}text title="requirements.txt"\nbad\n{FENCE}\n': ["bad"],
    f"{FENCE}\n# requirements.txt\nbad\n{FENCE}\nbad": ["bad"],
    f"{FENCE}bash\ncat > requirements.txt <<EOF\nnumpy\nbad\nEOF\nls bad\n{FENCE}\nbad": ["bad"],
    f"{FENCE}sh\ncat << 'EOF' >> dev-requirements.txt\nab\nbad\nEOF\n": ["bad"],
    f"  requirements/base.txt\n  {FENCE}\n  bad\n  {FENCE}\n": ["bad"],
    f"requirements.txt:\n{FENCE}\n$x\nbad\n[e]\nworse\n{FENCE}\n": ["$", "bad", "[", "worse"],
    f"requirements.txt:\n{FENCE}\nnumpy)\nbad\n{FENCE}\n": [")", "bad"],
}
NOT_SHOWN = [
    f"requirements.txt\nholds names.\n{FENCE}\nbad\n{FENCE}\n",
    f"touch requirements.txt\n{FENCE}python\nimport bad\n{FENCE}\n",
    f"{FENCE}bash\ntouch requirements.txt\n{FENCE}\nThis is prose (bad).\n",
    f"{FENCE}bash\npip install -r requirements.txt\n{FENCE}\n\nThen:\n{FENCE}text\nInstalled bad\n{FENCE}",
    f"Run `pip install -r requirements.txt`:\n{FENCE}\nbad, bad\n{FENCE}",
    f"{FENCE}python\nx = 1\n# requirements.txt\nbad()\n{FENCE}",
    f"{FENCE}bash\ncat > other.txt <<EOF\nbad\nEOF\n{FENCE}",
    f"myrequirements.txt:\n{FENCE}\nbad (bad)\n{FENCE}",
    f"requirements.txt:\n{FENCE}\nnumpy # $bad\na, ab\n\n{FENCE}\nbad (bad)",
]


@pytest.mark.parametrize("text", SHOWN)
def test_names_of_a_file_that_is_shown(text):
    found = [one.text for one in GUARD.check(text)]
    assert found == SHOWN[text]
    if found[0] not in "$)":
        assert [name for name in required(text) if normal(name) not in NAMES] == found


@pytest.mark.parametrize("text", NOT_SHOWN)
def test_what_shows_no_such_file_is_text(text):
    assert GUARD.check(text) == []
    if "pip install" not in text:
        assert [name for name in required(text) if normal(name) not in NAMES] == []


def test_npm_has_no_such_files():
    assert cg.PackageGuard(NAMES, "npm").check(f"{FENCE}requirements.txt\nbad\n") == []


PIECES = [
    b"num",
    b"numpy",
    b"py\n",
    b"requests\n",
    b"==1",
    b"bad",
    b"```",
    b"```\n",
    b"\n```\n",
    b"EOF\n",
    b"EO",
    b"END\n",
    b"requirements",
    b".txt",
    b"```text\n",
    b":\n\n",
    b"cat > requirements.txt <<EOF\n",
    b"```requirements.txt\n",
    b"# ",
    b"; x",
    b" a",
]
BYTES = Vocabulary([*(bytes([byte]) for byte in range(256)), None, None], eos=[256], special={"<ctl>": 257})
MERGED = Vocabulary([*(bytes([byte]) for byte in range(256)), None, None, *PIECES], eos=[256], special={"<ctl>": 257})


@pytest.mark.parametrize("text", [*SHOWN, *NOT_SHOWN])
def test_masks_hold_to_the_same(text):
    constraint = GUARD.compile(BYTES)
    state = state_after(constraint, text.encode())
    assert (state == DEAD) == bool(GUARD.check(text))


def test_rows_and_laws():
    constraint, plain = GUARD.compile(MERGED), GUARD.compile(BYTES)
    heads = [text[:n].encode() for text in (*SHOWN, *NOT_SHOWN[:3]) for n in range(3, len(text), 23)]
    check_rows(constraint, plain, heads)
    for context in (f"requirements.txt\n{FENCE}\n", f"{FENCE}\ncat > requirements.txt <<EOF\n", f"{FENCE}requ"):
        check_laws(GUARD.following(context).compile(MERGED), controls=[257], max_states=60)


@pytest.mark.parametrize("urls", ["refuse", "allow"])
def test_what_is_no_name_can_be_finished(urls):
    constraint = cg.PackageGuard(["numpy"], urls=urls).compile(BYTES)
    begun = [f"{FENCE}\ncat > requirements.txt <<EOF\n{mark}" for mark in ("E", "EO", "EOF")]
    begun += [f"pip install {url}" for url in ("h", "htt", "git", "sv")] if urls == "allow" else []
    for text in begun:
        state = state_after(constraint, text.encode())
        assert not constraint.accepts(state)
        rest = constraint.rest(state)
        assert constraint.distance(state) == 1 + len(rest)
        assert constraint.accepts(state_after(constraint, rest, state))
        assert constraint.advance(state, rest[0]) != DEAD


@pytest.mark.parametrize(
    "context", ["", f"requirements.txt:\n\n{FENCE}\n", f"{FENCE}bash\ncat > requirements.txt <<EOF\n"]
)
def test_a_model_names_only_what_is_listed(context):
    favoured = np.full(MERGED.width, -5.0)
    favoured[258:] = 0.0
    wrong = {True: 0, False: 0}
    for seed in range(25):
        rng, noise = random.Random(seed), {}

        def after(ids, rng=rng, noise=noise):
            if ids not in noise:
                noise[ids] = [one + rng.gauss(0, 1) for one in favoured]
            return noise[ids]

        options = {"vocabulary": MERGED, "max_new_tokens": 8 + seed, "do_sample": True, "seed": seed, "trace": False}
        for guarded in (True, False):
            spec = GUARD.following(context) if guarded else None
            for one in cg.generate(ToyLM(MERGED, after), ToyTokenizer(MERGED), ["x", "yz"], spec, **options):
                assert one.complete
                bad = [name for name in required(context + one.text) if normal(name) not in NAMES]
                wrong[guarded] += len(bad)
                assert not guarded or not bad, (context + one.text, bad)
                assert not guarded or GUARD.check(context + one.text) == []
    assert wrong[False] > 0
