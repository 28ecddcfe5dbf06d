"""The guard on texts, on tokens, and inside generation, against an independent reading by shlex."""

import itertools
import json
import random

import numpy as np
import pytest

import ctrlgen as cg
from ctrlgen.constraint import DEAD
from ctrlgen.testing import ToyLM, ToyTokenizer, allowed, check_laws
from ctrlgen.vocabulary import Vocabulary
from tests.bytewise import check_rows, state_after
from tests.oracles.installs import installed, normal

NAMES = ["numpy", "requests", "requests-html", "flask-sqlalchemy", "uvicorn", "zope.interface", "a", "ab", "it"]
NPM = ["react", "@types/node", "lodash.merge", "left-pad", "Base64"]
GUARD, NPM_GUARD = cg.PackageGuard(NAMES), cg.PackageGuard(NPM, "npm")

FINE = [
    "pip install numpy",
    "pip3.12 install -U requests==2.0 Flask_SQLAlchemy>=1,<2 # the rest",
    "python -m pip install \\\n    numpy \\\n    requests\n",
    "!pip install -q numpy\n%pip install ab",
    "pip install 'uvicorn[standard]>=0.1; python_version<\"3\"' numpy",
    "pip install -r requirements.txt -c limits.txt",
    "pip install . ./here ~/there/x.whl -e ../that",
    "Use `pip install requests`. It works.",
    "Just pip install requests. Then go on: nothing else.",
    "**pip install numpy** or <code>uv add ab</code>",
    '{"run": "pip install numpy\\nimport numpy", "then": 1}',
    "pip install numpy && cd there; poetry add --group dev requests | cat",
    "pip install <package> numpy",
    "pipx run ab whatever that is",
    "conda install -c conda-forge -n work numpy",
    "xpip install nothing, the pipeline installs, and pip installs",
    "pip install",
    "pip install numpy > log.txt",
]
WRONG = {
    "pip install nunpy": ["nunpy"],
    "PIP  INSTALL\tBad": ["Bad"],
    "pip --quiet install bad1 numpy bad2": ["bad1", "bad2"],
    "pip install numpy-": ["numpy-"],
    "pip install numpyy": ["numpyy"],
    "pip install 'bad' \"worse\"": ["bad", "worse"],
    "pip install bad. Then": ["bad"],
    "pip install bad... ok": ["bad"],
    "pip install numpy, bad, it": ["bad"],
    "pip install -U bad[extra]>=1": ["bad"],
    "uv pip install bad\nuv add bad2; pipx install bad3": ["bad", "bad2", "bad3"],
    "pip install n\u00fcmpy": ["n\u00fcmpy"],
    "pip install \u0440equests": ["\u0440equests"],
    "pip install git+https://x.y/z": ["git"],
    "pip install $NAME": ["$"],
    "pip install --index-url https://x.y numpy": [" "],
    "pipx run bad then": ["bad"],
    "pip \\\n install bad": ["bad"],
    "pip install numpy\\\nbad": ["\n"],
    "pip install numpy \u2013 then": ["\u2013"],
    "pip install numpy* then": [" "],
    "pip install a[- bad": ["-"],
    "pip install a ==== bad": ["b"],
    "pip install _bad": ["_"],
    "pip install a\rbad": ["bad"],
    "pip install a = 'bad'": ["b"],
    "pip install <your bad>": ["bad"],
    "pip install numpy <file bad numpy worse>": ["bad", "worse"],
}
NPM_FINE = [
    "npm install react@18 @types/node@latest left-pad",
    "npm i -D lodash.merge.",
    "yarn global add Base64",
    "npm install\nnpm run build",
    "npx left-pad --anything goes here",
    "npm install ./folder",
]
NPM_WRONG = {
    "npm i reactt": ["reactt"],
    "npm install user/repo": ["user/repo"],
    "npm i @types/nod": ["@types/nod"],
    "npm i base64": ["base64"],
    "bun add x\npnpm add y": ["x", "y"],
    "npx create-bad now": ["create-bad"],
    "npm install https://x.y": ["https"],
}


@pytest.mark.parametrize(("guard", "text"), [(GUARD, t) for t in FINE] + [(NPM_GUARD, t) for t in NPM_FINE])
def test_what_installs_listed_packages_passes(guard, text):
    assert guard.check(text) == []


@pytest.mark.parametrize(
    ("guard", "text", "wanted"), [(GUARD, *w) for w in WRONG.items()] + [(NPM_GUARD, *w) for w in NPM_WRONG.items()]
)
def test_what_does_not_is_found_with_its_place(guard, text, wanted):
    found = guard.check(text)
    assert [one.text for one in found] == wanted
    for one in found:
        assert text[one.start :].startswith(one.text)
        line = text.split("\n")[one.line - 1]
        assert line[one.column - 1 :].startswith(one.text.rstrip("\n"))


def test_a_file_of_requirements():
    text = "# these\nnumpy==1.0\nbad>=2 ; python_version < '3'\n-r more.txt\n\nFlask-SQLAlchemy[x]~=1.0\n"
    assert [one.text for one in GUARD.check(text, requirements=True)] == ["bad"]


def test_urls_and_paths_by_policy():
    free = cg.PackageGuard(NAMES, urls="allow")
    for text in ("pip install git+https://x.y/z", "pip install https://x.y/z.whl numpy", "pip install -i https://x a"):
        assert free.check(text) == []
    assert [one.text for one in free.check("pip install https bad")] == ["https", "bad"]
    strict = cg.PackageGuard(NAMES, paths="refuse")
    for text in ("pip install .", "pip install -e ../x", "pip install /tmp/x"):
        assert strict.check(text)


BYTES = Vocabulary([*(bytes([byte]) for byte in range(256)), None, None], eos=[256], special={"<ctl>": 257})
PIECES = [
    b"pip",
    b"pip ",
    b" install",
    b"pip install",
    b" num",
    b"numpy",
    b"py\n",
    b"requests",
    b"-html",
    b".",
    b" a",
    b"b ",
    b"`",
]
MERGED = Vocabulary([*(bytes([byte]) for byte in range(256)), None, None, *PIECES], eos=[256], special={"<ctl>": 257})


@pytest.mark.parametrize(("guard", "text"), [(GUARD, t) for t in FINE] + [(NPM_GUARD, t) for t in NPM_FINE])
def test_the_mask_lets_through_what_passes(guard, text):
    constraint = guard.compile(BYTES)
    state = state_after(constraint, text.encode())
    assert state != DEAD
    assert constraint.accepts(state)


@pytest.mark.parametrize(("guard", "text"), [(GUARD, t) for t in WRONG] + [(NPM_GUARD, t) for t in NPM_WRONG])
def test_and_nothing_else(guard, text):
    constraint = guard.compile(BYTES)
    state = state_after(constraint, text.encode())
    assert state == DEAD or not constraint.accepts(state)


def test_laws():
    constraint = GUARD.compile(MERGED)
    texts = [b"pip install numpy\n", b"pip install requests-html ab", b"a `pip install numpy`. b"]
    check_laws(constraint, texts=texts, controls=[257], max_states=150)
    for text in (b"pip install ", b"pip install nu", b"pip install requests", b"pip install Flask_"):
        state = state_after(constraint, text)
        for token in allowed(constraint, state):
            assert constraint.advance(state, token) != DEAD
        for token in set(range(len(MERGED.tokens))) - set(allowed(constraint, state)):
            assert constraint.advance(state, token) == DEAD


def test_a_row_is_what_its_bytes_allow():
    constraint, plain = GUARD.compile(MERGED), GUARD.compile(BYTES)
    rng = random.Random(1)
    heads = [
        b"",
        b"pip",
        b"pip install",
        b"pip install ",
        b"pip install num",
        b"x pip install -U requests",
        b"pip install a.",
    ]
    more = [h + bytes(rng.choices(b"ab .-\n'", k=2)) for h in heads for _ in range(4)]
    check_rows(constraint, plain, heads + more)


def test_random_generation_names_only_what_there_is():
    words = [
        "pip",
        " ",
        "install",
        "nump",
        "numpy",
        "y",
        "requests",
        "bad",
        "-",
        ".",
        "\n",
        "`",
        "'",
        ",",
        "==1",
        " a",
        "ab",
    ]
    vocabulary = Vocabulary([*(bytes([b]) for b in range(256)), None, *(w.encode() for w in words)], eos=[256])
    favoured = np.full(vocabulary.width, -6.0)
    favoured[257:] = 0.0
    listed, unguarded = {normal(name) for name in NAMES}, 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        noise = {}

        def after(ids, rng=rng, noise=noise):
            if ids not in noise:
                noise[ids] = (favoured + rng.standard_normal(vocabulary.width)).tolist()
            return noise[ids]

        model = ToyLM(vocabulary, after)
        options = {"vocabulary": vocabulary, "max_new_tokens": 24, "do_sample": True, "seed": seed, "trace": False}
        for guard in (GUARD.following("pip install "), None):
            results = cg.generate(model, ToyTokenizer(vocabulary), ["pip install "] * 4, guard, **options)
            for result in results:
                text = "pip install " + result.text
                bad = [name for name in installed(text) if normal(name) not in listed]
                if guard is None:
                    unguarded += len(bad)
                else:  # a text that was cut off may end within a name
                    cut = not result.complete and text.rstrip("-_.").endswith(bad[-1].rstrip("-_.") if bad else "")
                    assert not bad or (cut and len(bad) == 1), text
    assert unguarded > 0


def test_levels_are_what_tokens_leave():
    constraint = GUARD.compile(MERGED)
    for head in (
        b"",
        b"pip",
        b"pip install ",
        b"pip install nu",
        b"pip install requests-",
        b"pip install -U fl",
        b"pip install a.",
    ):
        state = state_after(constraint, head)
        levels, found = constraint.levels(state), {}
        for group, distances in levels.groups:
            found |= {token: int(distances[number]) for token, number in enumerate(group.tolist()) if number}
        found |= dict(zip(levels.tokens.tolist(), levels.distances.tolist(), strict=True))
        text = {token for token in allowed(constraint, state) if token not in (256, 257)}
        assert set(found) == text
        exact = {token: constraint.distance(constraint.advance(state, token)) for token in text}
        assert all(exact[token] <= found[token] for token in text)
        if not constraint.accepts(state):
            assert min(found.values()) < constraint.distance(state)
        assert max([constraint.distance(state), *exact.values()]) <= constraint.farthest(state)


@pytest.mark.parametrize("context", ["", "pip install ", "pip install n", "uv add flask_"])
def test_texts_end_in_time(context):
    guard, needed = GUARD.following(context), 1
    if not guard.compile(MERGED).accepts(guard.compile(MERGED).start):
        with pytest.raises(cg.BudgetError) as refused:
            cg.generate(ToyLM(MERGED), ToyTokenizer(MERGED), "x", guard, vocabulary=MERGED, max_new_tokens=1)
        needed = refused.value.needed
    for budget in range(needed, needed + 12):
        model = ToyLM(MERGED, scale=4.0 + budget)
        options = {"vocabulary": MERGED, "max_new_tokens": budget, "do_sample": True, "seed": budget, "trace": False}
        for result in cg.generate(model, ToyTokenizer(MERGED), ["x", "yz"], guard, **options):
            assert result.complete
            assert len(result.token_ids) <= budget
            assert not [one for one in guard.check(context + result.text) if one.reason == "not on the list"]


def test_text_without_commands_is_untouched():
    constraint = GUARD.compile(BYTES)
    everything = set(range(258))
    for text in (b"", b"The pip of an apple.\n", b"pip is a tool; to install", b"npm install bad"):
        assert set(allowed(constraint, state_after(constraint, text))) == everything


def test_lists_that_change_are_read_anew(tmp_path):
    file = tmp_path / "names.txt"
    file.write_text("numpy\n")
    guard = cg.PackageGuard(file)
    first = guard.compile(BYTES)
    assert state_after(first, b"pip install torch") == DEAD
    file.write_text("numpy\ntorch\n")
    assert state_after(guard.compile(BYTES), b"pip install torch") != DEAD
    assert guard.check("pip install torch") == []


def test_lists_of_a_simple_index(tmp_path, monkeypatch):
    from ctrlgen.guard.names import pip_index

    file = tmp_path / "simple.json"
    file.write_text(json.dumps({"meta": {}, "projects": [{"name": "Foo.Bar"}, {"name": "x"}]}))
    assert list(cg.PackageGuard(file).names) == ["foo-bar", "x"]
    file.write_text('{"projects": 3}')
    with pytest.raises(cg.InputError, match="simple index"):
        cg.PackageGuard(file)
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example/simple")
    assert pip_index() == "https://index.example/simple"


def test_what_makes_no_sense_is_refused():
    for arguments in ({"ecosystem": "cargo"}, {"urls": "maybe"}, {"paths": True}):
        with pytest.raises(cg.InputError):
            cg.PackageGuard(NAMES, **arguments)
    with pytest.raises(cg.InputError, match="no file"):
        cg.PackageGuard("/nowhere/names.txt")
    with pytest.raises(cg.VocabularyError, match="single byte"):
        GUARD.compile(Vocabulary([b"a", None], eos=[1]))


def test_hostile_texts_take_linear_time():
    for text in ("pip install " * 20_000, "pip install a" + "." * 200_000, "pip -" * 50_000, "'" * 100_000):
        assert len(GUARD.check(text[:200_000])) < 100_000


def test_every_prefix_can_be_finished():
    constraint = GUARD.compile(MERGED)
    for text in itertools.chain(FINE, WRONG):
        state = constraint.start
        for byte in text.encode():
            after = constraint.advance(state, byte)
            if after == DEAD:
                break
            state, left = after, constraint.distance(after)
            here = state
            for piece in MERGED.encode_greedy(constraint.rest(here)):
                here = constraint.advance(here, piece)
            assert constraint.accepts(here)
            assert left == 1 + len(MERGED.encode_greedy(constraint.rest(state)))
