"""The cache of compiled requests."""

import threading

import pytest

import ctrlgen as cg
from ctrlgen.serving.registry import Limits
from tests.served import compiler


def test_equal_requests_share_one_constraint_and_the_cache_is_bounded():
    made = compiler(limits=Limits(compiled=3, seconds=120))
    values = [{"choices": [f"x{i}"]} for i in range(6)]
    first = [made.finish(made.begin(value), 120) for value in values]
    assert len(made) == 3
    assert made.finish(made.begin(values[5]), 120) is first[5]
    assert made.begin(values[0]) is not first[0]
    assert made.finish(made.begin('{"choices": ["x5"]}'), 120).constraint is first[5].constraint


def test_many_threads_at_once_get_the_same():
    made, found = compiler(), []
    threads = [
        threading.Thread(target=lambda: found.append(made.finish(made.begin({"regex": "[a-f]{1,9}"}), 30)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len({id(one) for one in found}) == 1


def test_errors_are_kept_too():
    made = compiler()
    begun = made.begin({"regex": "("})
    for _ in range(2):
        with pytest.raises(cg.RequestError, match="never closed"):
            made.finish(made.begin({"regex": "("}), 120)
    assert made.begin({"regex": "("}) is begun


def test_goes_on_where_the_model_would_end_is_refused():
    made = compiler(constraints={"eos": cg.Free(cg.EOS) >> cg.Choice(["a"])})
    with pytest.raises(cg.RequestError, match="no server asks"):
        made.finish(made.begin({"constraint": "eos"}), 120)


BOMBS = [
    {"json_schema": {"$defs": {f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 9} for i in range(12)}
                     | {"d12": {"type": "null"}}, "$ref": "#/$defs/d0"}},
    {"json_schema": {"allOf": [{"anyOf": [{"required": [f"a{i}b{j}"]} for j in range(6)]} for i in range(12)]}},
    {"json_schema": {"type": "string", "pattern": "^(a|b)*a(a|b){40}$"}},
    {"regex": "(((a{1,99}){1,99}){1,99}){1,99}"},
    {"regex": "(.*a){30}.*(b.*){30}"},
    {"repeat": {"repeat": {"regex": "a"}, "least": 1 << 30}, "least": 1 << 30},
    {"grammar": "start: " + " ".join(["a?"] * 200) + '\na: "x"'},
    {"both": [{"regex": "(a|b)*a(a|b){15}"}, {"regex": "(a|b)*b(a|b){15}"}]},
]  # fmt: skip


@pytest.mark.parametrize("value", BOMBS, ids=[str(i) for i in range(len(BOMBS))])
def test_a_bomb_is_made_or_refused_but_never_hangs(value):
    made = compiler(limits=Limits(seconds=30))
    try:
        assert made.finish(made.begin(value), 30).constraint is not None
    except cg.CtrlgenError as error:
        assert "limits.seconds" not in str(error)
