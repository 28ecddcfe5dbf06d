"""ctrlgen index build, info and query, through the commands themselves."""

import gzip
import json
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from ctrlgen.cli import app, item_files
from ctrlgen.index.storage import open_index, read_header

ITEMS = [[3, 1, 4], [3, 1, 5], [2], [2, 7]]
LINES = "3 1 4\n3,1,5\n2\n2 7\n"
WORDS = ["the cat", "the dog", "a cat", "the"]


def run(*arguments, stdin=""):
    """Exit status, stdout, stderr."""
    result = CliRunner().invoke(app, ["index", *map(str, arguments)], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def refused(*arguments, stdin=""):
    status, out, err = run(*arguments, stdin=stdin)
    assert (status, out) == (2, ""), err
    assert err.startswith("error: ")
    return err


def catalogue_of(path):
    """{id: tokens}."""
    index = open_index(path)
    places = range(index.layout.count)
    return {int(index.item_ids.at(np.array([i]))[0]): index.tokens_at(i).tolist() for i in places}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def words(folder):
    """The folder of a tokenizer that knows single letters and the blank."""
    from tokenizers import Tokenizer
    from tokenizers.decoders import ByteLevel as Bytes
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel

    letters = sorted(ByteLevel.alphabet())
    made = Tokenizer(BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    made.pre_tokenizer, made.decoder = ByteLevel(add_prefix_space=False, use_regex=False), Bytes()
    made.add_special_tokens(["<end>"])
    (folder / "letters").mkdir()
    made.save(str(folder / "letters" / "tokenizer.json"))
    (folder / "letters" / "tokenizer_config.json").write_text('{"eos_token": "<end>"}')
    return "letters"


# build


def written(folder, form):
    """A file that holds ITEMS."""
    path = folder / f"items.{form}"
    if form == "npy":
        np.save(path, np.array([[3, 1, 4], [3, 1, 5], [2, -1, -1], [2, 7, -1]]))
    elif form == "jsonl":
        path.write_text("".join(json.dumps(item) + "\n" for item in ITEMS))
    elif form.endswith(".gz"):
        path.write_bytes(gzip.compress(LINES.encode()))
    else:
        path.write_text(LINES)
    return path


@pytest.mark.parametrize("form", ["npy", "jsonl", "txt", "txt.gz"])
@pytest.mark.parametrize("size", [2, 3, 100])
def test_formats(folder, form, size, monkeypatch):
    chunks_of = item_files.chunks_of
    monkeypatch.setattr(item_files, "chunks_of", lambda *arguments: chunks_of(*arguments, size=size))
    more = ["--pad", -1] if form == "npy" else []
    status, out, err = run("build", written(folder, form), "out.index", "--eos", 0, *more)
    assert (status, err) == (0, "")
    assert out == f"out.index: 4 items, {(folder / 'out.index').stat().st_size} bytes\n"
    assert catalogue_of("out.index") == dict(enumerate(ITEMS))
    assert sorted(path.name for path in folder.iterdir()) == sorted([f"items.{form}", "out.index"])


def test_standard_input(folder):
    assert run("build", "-", "out.index", "--eos", "0", "--eos", "9", "--width", "12", stdin=LINES)[0] == 0
    index = open_index("out.index")
    assert (index.ends, index.width, len(index)) == ((0, 9), 12, 4)
    record = '{"tokens": [1, 2], "id": 7}\n{"id": 5, "tokens": [1, 3]}\n'
    assert run("build", "-", "out.index", "--format", "jsonl", stdin=record)[0] == 0
    assert catalogue_of("out.index") == {7: [1, 2], 5: [1, 3]}


def test_texts(folder, words):
    (folder / "words.txt").write_text("\n".join(WORDS))
    assert run("build", "words.txt", "words.index", "--tokenizer", words)[0] == 0
    (folder / "words.jsonl").write_text("".join(json.dumps({"text": w, "id": i}) + "\n" for i, w in enumerate(WORDS)))
    assert run("build", "words.jsonl", "again.index", "--tokenizer", words)[0] == 0
    assert catalogue_of("words.index") == catalogue_of("again.index")
    assert open_index("words.index").ends == (256,)
    assert [len(item) for _, item in sorted(catalogue_of("words.index").items())] == [7, 7, 5, 3]


def test_parquet(folder, words):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"id": [4, 3, 9, 1], "tokens": ITEMS, "more": WORDS}), "a.parquet")
    assert run("build", "a.parquet", "a.index", "--eos", 0)[0] == 0
    assert catalogue_of("a.index") == dict(zip([4, 3, 9, 1], ITEMS, strict=True))
    parquet.write_table(pyarrow.table({"text": WORDS}), "b.parquet")
    assert run("build", "b.parquet", "b.index", "--tokenizer", words)[0] == 0
    assert sorted(catalogue_of("b.index")) == [0, 1, 2, 3]
    parquet.write_table(pyarrow.table({"name": WORDS}), "c.parquet")
    assert "has the columns name; expected" in refused("build", "c.parquet", "c.index")


def test_parquet_without_pyarrow(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (folder / "a.parquet").write_bytes(b"PAR1")
    assert "pip install pyarrow" in refused("build", "a.parquet", "a.index")
    assert not (folder / "a.index").exists()


@pytest.mark.parametrize(
    ("name", "content", "more", "message"),
    [
        ("a.txt", "1 2\nx 3\n", [], "a.txt, line 2: 'x 3' is not a list of token ids"),
        ("a.txt", "1 2\n\n3\n", [], "a.txt, line 2 is empty"),
        ("a.txt", b"1\n\xff\n", [], "a.txt, line 2: byte 0xff is not UTF-8"),
        ("a.txt", "", [], "the catalogue is empty"),
        ("a.txt", "1\n1 2\n", [], "pass eos="),
        ("a.txt", "1 2\n", ["--eos", 2], "holds the token 2, which is an end id"),
        ("a.txt", "1 2\n", ["--width", 2], "lies outside of 0..1"),
        ("a.txt", "1\n", ["--tokenizer", "nowhere"], "there is no such folder"),
        ("a.txt", "1\n", ["--format", "xml"], "expected npy, jsonl, text or parquet"),
        ("a.jsonl", '[1]\n{"x": 1}\n', [], 'a.jsonl, line 2: expected "tokens" or "text"'),
        ("a.jsonl", "[1]\n[1.5]\n", [], "a.jsonl, line 2: [1.5] is no item"),
        ("a.jsonl", "[1]\n[\n", [], "a.jsonl, line 2 is not JSON"),
        ("a.jsonl", '{"tokens": [1], "id": -1}\n', [], "a.jsonl, line 1: the id is -1"),
        ("a.jsonl", '{"tokens": [1], "id": 1}\n[2]\n', [], "a.jsonl, line 2: the id is None"),
        ("a.npy", b"nothing", [], "cannot be read as an array"),
        ("a.txt.gz", b"1 2\n", [], "cannot be unpacked"),
        ("a.xyz", "1\n", [], "does not tell what it holds"),
    ],
)
def test_refused_sources(folder, name, content, more, message):
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert message in refused("build", name, "out.index", *more)
    assert [path.name for path in folder.iterdir()] == [name]


def test_refused_targets(folder):
    (folder / "a.txt").write_text(LINES)
    assert "there and no index" in refused("build", "a.txt", "a.txt", "--eos", 0)
    assert (folder / "a.txt").read_text() == LINES
    assert "it is a folder" in refused("build", "a.txt", ".")
    assert "there is no folder" in refused("build", "a.txt", "away/out.index")
    assert "there is no file" in refused("build", "b.txt", "out.index")
    assert "standard input" in refused("build", "-", "out.index", "--format", "npy")
    np.save("flat.npy", np.arange(3))
    assert "must hold integers [items, tokens]" in refused("build", "flat.npy", "out.index")


def test_a_failed_build_leaves_the_old_index(folder):
    (folder / "a.txt").write_text(LINES)
    assert run("build", "a.txt", "out.index", "--eos", 0)[0] == 0
    before = (folder / "out.index").read_bytes()
    (folder / "a.txt").write_text("1\n?\n")
    refused("build", "a.txt", "out.index")
    assert (folder / "out.index").read_bytes() == before


def test_the_progress_bar(folder, monkeypatch, capsys):
    from ctrlgen.cli import index

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with index._bar() as progress:
        progress("sort", 5, 0)
        progress("merge", 5, 10)
        progress("merge", 10, 10)


# info and query


@pytest.fixture
def built(folder):
    assert run("build", "-", "out.index", "--eos", 0, "--width", 10, stdin=LINES)[0] == 0
    return folder / "out.index"


def test_info(built):
    status, out, _ = run("info", built)
    assert status == 0
    shown = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert (shown["items"], shown["longest"], shown["width"], shown["eos"]) == ("4", "3", "10", "0")
    assert (shown["same_length"], shown["vocabulary"]) == ("no", "none")
    facts = json.loads(run("info", built, "--json", "--verify")[1])
    assert (facts["items"], facts["eos"], facts["verified"]) == (4, [0], True)


def test_verify_finds_a_changed_byte(built):
    content = bytearray(built.read_bytes())
    content[read_header(built).arrays["tokens"]["place"]] ^= 1
    built.write_bytes(content)
    assert run("info", built)[0] == 0
    assert "not as it was written" in refused("info", built, "--verify")
    built.write_bytes(content[:-1])
    assert "cut off" in refused("info", built)
    assert "is not an index" in refused("info", __file__)
    assert "No such file" in refused("info", "nowhere.index")


@pytest.mark.parametrize(
    ("prefix", "ids"), [([], [2, 3, 0, 1]), (["2"], [2, 3]), (["3", "1"], [0, 1]), (["3,1", "5"], [1]), (["2 7"], [3])]
)
def test_query(built, prefix, ids):
    status, out, err = run("query", built, *prefix)
    assert (status, err) == (0, "")
    assert out == "".join(f"{i}\t{' '.join(map(str, ITEMS[i]))}\n" for i in ids)
    rows = [json.loads(line) for line in run("query", built, *prefix, "--json")[1].splitlines()]
    assert rows == [{"id": i, "tokens": ITEMS[i]} for i in ids]


def test_query_of_nothing(built):
    for prefix in (["4"], ["2", "7", "7"], ["0"], ["2", "0"], ["99"]):
        status, out, err = run("query", built, *prefix)
        assert (status, out) == (1, "")
        assert "no item begins with" in err
    assert "give --tokenizer" in refused("query", built, "abc")


def test_the_limit(built):
    _, out, err = run("query", built, "--limit", "3")
    assert out.count("\n") == 3
    assert err == "... 1 more; --limit shows more of them\n"


def test_query_of_texts(folder, words):
    assert run("build", "-", "words.index", "--tokenizer", words, stdin="\n".join(WORDS))[0] == 0
    assert run("query", "words.index", "the", "--tokenizer", words)[1] == "3\tthe\n0\tthe cat\n1\tthe dog\n"
    assert run("query", "words.index", "the", "d", "--tokenizer", words)[1] == "1\tthe dog\n"
    (row,) = run("query", "words.index", "a", "--tokenizer", words, "--json")[1].splitlines()
    assert json.loads(row)["text"] == "a cat"
