"""PackageNames: lists and files of names, in their normal form or as they are, one or several in a text."""

import gzip
import pickle

import pytest

import ctrlgen as cg
from ctrlgen.errors import InputError, UnsatisfiableError
from ctrlgen.index.name_index import NameIndex
from ctrlgen.testing import Enumerated, ToyLM, ToyTokenizer, assert_same_language, check_laws, toy_vocabulary
from ctrlgen.vocabulary import Vocabulary

BYTES = Vocabulary([*(bytes([b]) for b in range(256)), b"pip ", b"numpy", b"py\n", b"-b", None], eos=260)
LIST = ["numpy", "NumPy", "a_B", "a.-b", "a"]


def test_names_as_they_are():
    constraint = cg.PackageNames(LIST).compile(BYTES)
    assert_same_language(constraint, Enumerated(BYTES, LIST))
    check_laws(constraint)


def test_names_in_their_normal_form():
    spec = cg.PackageNames(LIST, normalise="pep503", before="pip ", after="\n")
    assert list(spec.names) == ["a", "a-b", "numpy"]
    constraint = spec.compile(BYTES)
    assert_same_language(constraint, Enumerated(BYTES, ["pip a\n", "pip a-b\n", "pip numpy\n"]))
    assert spec.parse("pip a-b\n") == "a-b"


def test_several_names():
    spec = cg.PackageNames(LIST, before="pip ", separator=" ")
    check_laws(spec.compile(BYTES), max_states=40)
    assert spec.parse("pip a numpy a") == ["a", "numpy", "a"]
    inside = cg.PackageNames(["a-b", "c"], separator="-")
    assert inside.parse("a-b-c-a-b") == ["a-b", "c", "a-b"]


@pytest.mark.parametrize("text", ["a", "pip ", "pip a ", "pip  a", "pip flask", "pip a,a"])
def test_parse_refuses_other_texts(text):
    with pytest.raises(InputError, match="is not what"):
        cg.PackageNames(LIST, before="pip ", separator=" ").parse(text)


def test_files(tmp_path):
    (tmp_path / "names.gz").write_bytes(gzip.compress("\n".join(LIST).encode()))
    assert cg.PackageNames(tmp_path / "names.gz") == cg.PackageNames(LIST)
    cg.NameIndex.from_names(LIST, normalise="pep503").save(tmp_path / "names.index")
    opened = cg.PackageNames(str(tmp_path / "names.index"), normalise="pep503")
    assert opened == cg.PackageNames(LIST, normalise="pep503")
    assert opened == pickle.loads(pickle.dumps(opened))
    assert cg.PackageNames(NameIndex.from_names(LIST)) == cg.PackageNames(LIST)
    cg.NameIndex.from_names(LIST).save(tmp_path / "as_they_are.index")
    with pytest.raises(InputError, match="not built with"):
        cg.PackageNames(tmp_path / "as_they_are.index", normalise="pep503")


def test_is_a_value():
    one = cg.PackageNames(LIST, after="\n")
    assert one == cg.PackageNames(LIST[::-1], after="\n")
    assert hash(one) == hash(cg.PackageNames(LIST, after="\n"))
    assert one != cg.PackageNames(LIST)
    assert pickle.loads(pickle.dumps(one)) == one
    assert repr(one) == "PackageNames(5 names, after='\\n')"
    assert one.compile(BYTES) is cg.PackageNames(LIST, after="\n").compile(BYTES)


def test_generates():
    vocabulary = toy_vocabulary()
    model, tokenizer = ToyLM(vocabulary), ToyTokenizer(vocabulary)
    spec = cg.PackageNames(["abc", "cab"])
    result = cg.generate(model, tokenizer, "ab", spec, vocabulary=vocabulary, max_new_tokens=8)
    assert result.value in ("abc", "cab")


@pytest.mark.parametrize(
    ("names", "more", "error", "message"),
    [
        ([], {}, UnsatisfiableError, "no names"),
        (["a", ""], {}, InputError, "a name is empty"),
        (["a", "b c"], {}, InputError, "'b c' holds ' '"),
        (["a", "b\t"], {}, InputError, "holds '\\\\t'"),
        ("no/such/file", {}, InputError, "there is no file"),
        (["a"], {"normalise": "npm"}, InputError, "pep503"),
        (["a"], {"before": None}, InputError, "before must be a string"),
        (["a"], {"separator": 3}, InputError, "separator must be a string"),
    ],
)
def test_refuses(names, more, error, message):
    with pytest.raises(error, match=message):
        cg.PackageNames(names, **more)
