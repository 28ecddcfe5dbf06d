"""The command line, through the commands themselves; the model is a toy except where the mark says otherwise."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ctrlgen.cli import app

ROOT = Path(__file__).resolve().parent.parent
HELP_SECONDS = 0.5
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def run(*arguments: str, stdin: str | bytes = "") -> tuple[int, str, str]:
    """Exit status, stdout, stderr."""
    result = CliRunner().invoke(app, list(arguments), input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def refused(*arguments: str, stdin: str | bytes = "") -> str:
    """The message of a command that must end with an error: one paragraph, and nothing on stdout."""
    status, out, err = run(*arguments, stdin=stdin)
    assert (status, out) == (2, ""), err
    assert err.startswith("error: ")
    assert "Traceback" not in err
    return err


def rows(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def schema_file(tmp_path):
    path = tmp_path / "person.json"
    path.write_text(json.dumps(SCHEMA))
    return str(path)


@pytest.fixture
def toy(monkeypatch):
    """A toy model over bytes in place of the default one; counts how many batches it ran."""
    from ctrlgen.cli.walk import byte_vocabulary
    from ctrlgen.testing import ToyLM, ToyTokenizer

    vocabulary = byte_vocabulary()
    loaded = ToyLM(vocabulary, context=300), ToyTokenizer(vocabulary)
    monkeypatch.setattr("ctrlgen.models.load", lambda *_, **__: loaded)
    monkeypatch.setattr("ctrlgen.processor.vocabulary_of", lambda *_: vocabulary)
    return loaded


def test_generate_writes_a_page(toy, tmp_path):
    page = tmp_path / "out.html"
    status, out, _ = run("generate", "ab<c", "--choices", "red,blue", "--report", str(page), "--no-chat")
    assert status == 0
    written = page.read_text(encoding="utf-8")
    assert "ab&lt;c" in written
    assert rows(out)[0]["text"] in ("red", "blue")
    assert written.count("<section>") == 1
    assert "choose one" in refused("generate", "ab", "--report", str(page), "--resume", "--out", "x.jsonl")


# the program


def command(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ctrlgen.cli", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def processor_seconds() -> float:
    """Of this process's children so far; other work on the machine does not count."""
    times = os.times()
    return times.children_user + times.children_system


def test_help_comes_at_once():
    taken = []
    for _ in range(3):
        before = processor_seconds()
        done = command("--help")
        taken.append(processor_seconds() - before)
        assert done.returncode == 0
    assert all(name in done.stdout for name in ("generate", "check", "report", "fetch", "warmup"))
    assert min(taken) < HELP_SECONDS


@pytest.mark.parametrize("name", ["generate", "check", "report", "fetch", "warmup"])
def test_each_command_has_help(name):
    status, out, _ = run(name, "--help")
    assert status == 0
    assert out.startswith("Usage: ")


def test_version():
    status, out, _ = run("--version")
    assert status == 0
    assert out.startswith("ctrlgen")


def test_wrong_usage_ends_with_two():
    assert command("generate", "--beams", "0", "hi").returncode == 2
    assert command("nonsense").returncode == 2


def test_debug_shows_the_traceback():
    done = command("--debug", "check", "--regex", "(", "x")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "RegexError" in done.stderr


def test_a_reader_that_left_is_no_error():
    writer = subprocess.Popen(
        [sys.executable, "-m", "ctrlgen.cli", "fetch", "--list"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    writer.stdout.close()
    assert writer.stderr.read() == b""
    writer.stderr.close()
    assert writer.wait() == 1


# check


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--regex", "[a-c]+"], "abc"),
        (["--regex", "é?"], ""),
        (["--choices", "yes, no"], "no"),
    ],
)
def test_check_says_yes(options, text):
    assert run("check", *options, text) == (0, "yes\n", "")
    assert run("check", *options, stdin=text) == (0, "yes\n", "")


def test_check_shows_the_place_and_what_was_expected():
    status, out, err = run("check", "--choices", "yes,yeah,no", "yep")
    assert (status, err) == (1, "")
    assert out.splitlines() == [
        "no: line 1, column 3: 'p' cannot stand here",
        "  yep",
        "    ^",
        "expected one of: `ah`, `s`",
        "shortest text from here: yes",
    ]


def test_check_counts_lines_and_characters():
    _, out, _ = run("check", "--regex", "é\né[0-9a-d_]+", stdin="é\néX\n")
    assert out.splitlines()[:4] == [
        "no: line 2, column 2: 'X' cannot stand here",
        "  éX",
        "   ^",
        "expected: a character of 0-9 _ a-d",
    ]


def test_check_points_at_whole_characters():
    _, out, _ = run("check", "--choices", "aé", "aè")
    assert out.splitlines()[0] == "no: line 1, column 2: 'è' cannot stand here"
    assert "expected: `é`" in out


def test_check_says_that_the_text_ends_too_early():
    _, out, _ = run("check", "--choices", "yes,no", "ye")
    assert out.splitlines()[0] == "no: line 1, column 3: the text ends too early"


def test_check_says_that_the_text_goes_on_too_long():
    _, out, _ = run("check", "--choices", "yes,no", "yess")
    assert "expected: the end\n" in out
    assert "shortest text from here: yes\n" in out


def test_check_says_how_far_the_end_is_when_it_is_far():
    _, out, _ = run("check", "--regex", "a{1000}", "aaaa")
    assert "to finish takes 996 more bytes" in out


def test_one_newline_ends_a_file(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"yes\n")
    assert run("check", "--choices", "yes,no", str(path))[0] == 0
    assert run("check", "--choices", "yes,no", "yes\n")[0] == 1, "not so in a text given as such"
    assert run("check", "--regex", "yes\n", str(path))[0] == 0, "a newline that is asked for"
    path.write_bytes(b"yes\n\n")
    assert run("check", "--choices", "yes,no", str(path))[0] == 1


def test_choices_from_a_file(tmp_path):
    path = tmp_path / "choices.txt"
    path.write_text("yes, surely\nno\n")
    assert run("check", "--choices", str(path), "yes, surely")[0] == 0


def test_bytes_that_are_no_text_are_refused_in_place():
    status, out, _ = run("check", "--regex", "ab", stdin=b"a\xff")
    assert status == 1
    assert "column 2" in out


def test_check_json(schema_file):
    status, out, _ = run("check", "--schema", schema_file, "{}")
    assert status == 1
    assert '"name"' in out
    complete = out.split("shortest text from here: ")[1].splitlines()[0]
    assert run("check", "--schema", schema_file, complete) == (0, "yes\n", "")


def test_check_says_when_only_the_spelling_is_other(schema_file):
    text = '{ "age" : 3, "name":\t"x" }'
    status, out, _ = run("check", "--schema", schema_file, text)
    assert status == 1
    assert "valid JSON for the schema" in out
    _, out, _ = run("check", "--schema", schema_file, text.replace("3", '"3"'))
    assert "valid JSON" not in out


def test_check_a_pydantic_model(tmp_path, monkeypatch):
    (tmp_path / "pets_of_a_test.py").write_text(
        "from pydantic import BaseModel\nclass Pet(BaseModel):\n    name: str\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    status, out, _ = run("check", "--pydantic", "pets_of_a_test:Pet", "{'name': 1}")
    assert status == 1
    assert '"name"' in out
    assert "no Pydantic model Cat" in refused("check", "--pydantic", "pets_of_a_test:Cat", "x")


def test_check_follows_only_so_many_ways():
    begun = time.process_time()
    _, out, _ = run("check", "--regex", "(x|y){40}z", "xq")
    assert "expected one of: `xxx`, `xxy`, `xyx`," in out
    assert time.process_time() - begun < 10


# check with a grammar


GRAMMAR = 'root: item ("," item)*\nitem: "x" | "(" root ")"\n'


def test_check_a_ready_grammar():
    assert run("check", "--grammar", "json", '{"a": [1, 2]}') == (0, "yes\n", "")
    status, out, _ = run("check", "--grammar", "arithmetic", "1 + * 2")
    assert status == 1
    assert "line 1, column 5: '*' cannot stand here" in out


def test_check_a_grammar_from_a_file(tmp_path):
    lark = tmp_path / "items.lark"
    lark.write_text(GRAMMAR)
    assert run("check", "--grammar", str(lark), "--start", "root", "x,(x,x)")[0] == 0
    assert run("check", "--grammar", str(lark), "--start", "root", "x,(x")[0] == 1
    assert "there are root, item: name one with start=" in refused("check", "--grammar", str(lark), "x")
    gbnf = tmp_path / "items.gbnf"
    gbnf.write_text('root ::= [a-c]+ "."')
    assert run("check", "--grammar", str(gbnf), "abc.")[0] == 0
    text = tmp_path / "items.txt"
    text.write_text(gbnf.read_text())
    assert run("check", "--grammar", str(text), "--syntax", "gbnf", "abc.")[0] == 0


def test_check_with_a_lexer(tmp_path):
    path = tmp_path / "words.lark"
    path.write_text('start: "select" NAME\nNAME: /[a-z]+/\n%ignore " "\n')
    assert run("check", "--grammar", str(path), "selectx")[0] == 0
    assert run("check", "--grammar", str(path), "--lexer", "basic", "selectx")[0] == 1


def test_errors_of_grammars(tmp_path):
    assert "did you mean sql?" in refused("check", "--grammar", "sqll", "x")
    assert "there is no file" in refused("check", "--grammar", str(tmp_path / "none.lark"), "x")
    assert "syntax must be 'lark' or 'gbnf'" in refused("check", "--grammar", "sql", "--syntax", "bnf", "x")
    assert "lexer must be" in refused("check", "--grammar", "sql", "--lexer", "fast", "x")
    assert "--lexer says more about --grammar" in refused("check", "--lexer", "basic", "x")
    assert "--regex and --grammar" in refused("check", "--regex", "a", "--grammar", "sql", "x")
    path = tmp_path / "wrong.lark"
    path.write_text('start: "a')
    message = refused("check", "--grammar", str(path), "x")
    assert "line 1, column 8" in message
    assert message.endswith("^\n")


# errors


def test_one_constraint_at_most():
    assert "--regex and --choices" in refused("check", "--regex", "a", "--choices", "b", "x")
    assert "nothing to hold the text to" in refused("check", "x")


def test_bad_patterns_show_a_caret():
    assert refused("check", "--regex", "a(b", "x").splitlines()[1:] == ["  a(b", "   ^"]


def test_bad_json_shows_a_caret(tmp_path):
    path = tmp_path / "bad.json"
    path.write_text('{\n  "type": object\n}')
    message = refused("check", "--schema", str(path), "x")
    assert "bad.json is not JSON: line 2, column 11" in message
    assert message.splitlines()[1:] == ['    "type": object', "            ^"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not JSON: line 1, column 1"),
        (b'{"a": 1, "a": 2}', "'a' twice"),
        (b'\n"\xff"', "line 2: byte 0xff is not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_bad_schema_files(tmp_path, content, reason):
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    assert reason in refused("check", "--schema", str(path), "x")


def test_files_that_are_not_there(tmp_path):
    assert "there is no file" in refused("check", "--schema", str(tmp_path / "none"), "x")
    assert "is a folder" in refused("check", "--schema", str(tmp_path), "x")
    assert "there is no file" in refused("generate", "--prompts", str(tmp_path / "none"))
    assert "there is no folder" in refused("generate", "hi", "--model", str(tmp_path / "none"))
    assert "no config.json" in refused("generate", "hi", "--model", str(tmp_path))


@pytest.mark.parametrize("value", ["x", "x:", ":X", "no_such_module:X", "json:JSONDecoder", "json:None_"])
def test_bad_pydantic_names(value):
    assert "--pydantic" in refused("check", "--pydantic", value, "x")


@pytest.mark.parametrize(
    ("arguments", "stdin", "reason"),
    [
        (["hi", "--prompts", "-"], "", "choose one"),
        ([], "", "has no prompts"),
        ([""], "", "the prompt is empty"),
        (["hi", "--resume"], "", "--resume needs --out"),
        (["--schema", "-"], "{}", "cannot both come from standard input"),
        (["--prompts", "-"], '{"prompt": "a"}\n{"text": "b"}', "line 2: expected an object"),
        (["--prompts", "-"], '{"prompt": "a"}\n\n{"prompt": b}', "line 3, column 12"),
        (["--prompts", "-"], '{"prompt": ""}', "line 1: the prompt is empty"),
        (["--prompts", "-"], '{"prompt": "\\ud800"}', "half of a surrogate pair"),
        (["hi", "--out", "/no/such/folder/out"], "", "there is no folder /no/such/folder"),
        (["hi", "--out", "/"], "", "it is a folder"),
    ],
)
def test_generate_refuses(arguments, stdin, reason):
    assert reason in refused("generate", *arguments, stdin=stdin)


# generate, with a toy model


def test_rows(toy):
    status, out, err = run("generate", "hi", "--choices", "yes,no")
    assert (status, err) == (0, "")
    (row,) = rows(out)
    assert list(row) == ["prompt", "text", "value", "finished", "complete", "tokens", "mask_share"]
    assert row["prompt"] == "hi"
    assert row["text"] == row["value"]
    assert row["text"] in ("yes", "no")
    assert row["finished"] is True
    assert row["tokens"] == len(row["text"]) + 1
    assert 0 < row["mask_share"] <= 1


@pytest.mark.parametrize("lines", ["a b\n\nc\r\n", '{"prompt": "a b"}\n{"prompt": "c", "id": 7}\n'])
def test_prompts_from_lines(toy, lines, tmp_path):
    path = tmp_path / "prompts"
    path.write_text(lines, newline="")
    _, out, _ = run("generate", "--prompts", str(path), "--choices", "yes,no")
    assert [row["prompt"] for row in rows(out)] == ["a b", "c"]
    assert run("generate", "--choices", "yes,no", stdin=lines)[1].count("\n") == 2


def test_a_seed_repeats_itself(toy):
    arguments = ["generate", "--regex", "[a-z]{8}", "--temperature", "1"]
    texts = [[row["text"] for row in rows(run(*arguments, "--seed", s, stdin="a\nb")[1])] for s in "112"]
    assert texts[0] == texts[1] != texts[2]


def test_unfinished_texts_say_so(toy):
    (row,) = rows(run("generate", "hi", "--max-new-tokens", "3")[1])
    assert (row["finished"], row["tokens"], row["value"]) == (False, 3, None) or row["finished"]


def test_too_long_and_too_short(toy):
    assert "prompt 2 ('bbb" in refused("generate", "--max-new-tokens", "290", stdin="a\n" + "b" * 11)
    assert "raise max_new_tokens to at least 10" in refused(
        "generate", "hi", "--regex", "a{9}", "--max-new-tokens", "3"
    )


def test_out_is_whole_or_not_there(toy, tmp_path):
    out = tmp_path / "rows.jsonl"
    assert run("generate", "--choices", "yes,no", "--out", str(out), stdin="a\nb\nc") == (0, "", "")
    assert len(rows(out.read_text())) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


def test_nothing_is_left_of_a_run_that_never_began(toy, tmp_path):
    out = tmp_path / "rows.jsonl"
    refused("generate", "hi", "--regex", "a{9}", "--max-new-tokens", "3", "--out", str(out))
    assert list(tmp_path.iterdir()) == []


def test_resume_goes_on_where_it_stopped(toy, tmp_path):
    out, part = tmp_path / "rows.jsonl", tmp_path / "rows.jsonl.part"
    arguments = ["generate", "--regex", "[a-z]{4}", "--temperature", "1", "--batch-size", "2", "--out", str(out)]
    prompts = "\n".join("abcde")
    run(*arguments, stdin=prompts)
    whole = [(row["prompt"], row["text"]) for row in rows(out.read_text())]
    lines = out.read_text().splitlines(keepends=True)
    out.unlink()
    part.write_text("".join(lines[:2]) + lines[2][:9])
    assert "go on with --resume" in refused(*arguments, stdin=prompts)
    assert "of another prompt" in refused(*arguments, "--resume", stdin="x\ny\nz")
    assert run(*arguments, "--resume", stdin=prompts) == (0, "", "")
    assert [(row["prompt"], row["text"]) for row in rows(out.read_text())] == whole
    assert out.read_text().startswith("".join(lines[:2])), "the rows that were there are kept"
    assert not part.exists()


def test_resume_of_a_finished_run_does_nothing(toy, tmp_path, monkeypatch):
    out = tmp_path / "rows.jsonl"
    arguments = ["generate", "--choices", "yes,no", "--out", str(out), "--resume"]
    assert run(*arguments, stdin="a\nb")[0] == 0
    before = out.read_text()
    monkeypatch.delattr("ctrlgen.models.load")
    assert run(*arguments, stdin="a\nb")[0] == 0
    assert out.read_text() == before


# fetch and warmup


def test_fetch_lists_and_refuses():
    status, out, _ = run("fetch", "--list")
    assert status == 0
    assert "smollm2" in out
    assert "nothing called gpt9" in refused("fetch", "gpt9")
    assert "choose one" in refused("fetch", "llama3", "--all")


def test_warmup():
    status, _, err = run("warmup")
    assert status == 0
    assert "ready after" in err


# report


def test_report_says_what_is_enforced(schema_file):
    status, out, err = run("report", "--schema", schema_file)
    assert (status, err) == (0, "")
    assert out.count("enforced") == 6
    assert "shortest output, bytes" in out


def test_report_shows_all_that_is_refused_at_once(tmp_path):
    path = tmp_path / "loose.json"
    inner = {"d": {"type": "array", "uniqueItems": True}, "e": {"type": "string", "format": "idn-hostname"}}
    path.write_text(json.dumps({**SCHEMA, "properties": {**SCHEMA["properties"], **inner}, "title": "t"}))
    status, out, _ = run("report", "--schema", str(path), "--json")
    report = json.loads(out)
    assert status == 1
    assert report["cost"] is None
    found = {(entry["keyword"], entry["status"]) for entry in report["entries"]}
    assert found >= {
        *(("uniqueItems", "refused"), ("format", "refused")),
        *(("title", "annotation"), ("required", "enforced")),
    }
    assert all(entry["note"] for entry in report["entries"] if entry["status"] == "refused")
    assert run("report", "--schema", str(path))[0] == 1


def test_report_costs(schema_file):
    _, out, _ = run("report", "--schema", schema_file, "--json")
    cost = json.loads(out)["cost"]
    assert cost["shortest_bytes"] == len('{"name":"","age":0}')
    assert cost["shortest_tokens"] is None
    assert cost["nodes"] > 10
    assert cost["compile_seconds"] < 10


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "give one schema"),
        (["--schema", "x", "--pydantic", "y:z"], "give one schema"),
        (["--schema", "-"], "no JSON Schema: expected an object"),
        (["--schema", "-", "--tokenizer", "gpt9"], "known by name are llama3"),
    ],
)
def test_report_refuses(arguments, reason):
    assert reason in refused("report", *arguments, stdin="{}" if "gpt9" in arguments else "3")


@pytest.mark.model
def test_report_counts_tokens(tokenizer_folder, schema_file):
    folder = str(tokenizer_folder("llama3"))
    by_folder = json.loads(run("report", "--schema", schema_file, "--json", "--tokenizer", folder)[1])["cost"]
    assert 0 < by_folder["shortest_tokens"] < by_folder["shortest_bytes"]


# the documentation


def examples() -> list[tuple[str, str]]:
    """Command and output of each example in docs/cli.md that takes no model and no time."""
    found = re.findall(r"^```console\n\$ (.*?)\n(.*?)^```", (ROOT / "docs" / "cli.md").read_text(), re.M | re.S)
    return [(line, out) for line, out in found if line.split()[1] in ("check",) or line.split()[0] == "cat"]


def test_the_documentation_shows_what_happens(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for line, out in examples():
        program, *arguments = shlex.split(line)
        if program == "cat":
            Path(arguments[0]).write_text(out)
        else:
            assert run(*arguments)[1] == out, line
    assert len(examples()) > 5


# the real model


@pytest.mark.model
def test_a_real_model_answers_within_a_schema(smollm2_folder, schema_file):
    done = command("generate", "--schema", schema_file, "--model", str(smollm2_folder), "Write JSON: Ann is 31.")
    assert (done.returncode, done.stderr) == (0, "")
    (row,) = rows(done.stdout)
    assert row["finished"]
    assert row["value"] == json.loads(row["text"])
    assert set(row["value"]) == {"name", "age"}


@pytest.mark.model
def test_after_ctrl_c_the_rows_are_readable_and_resume_goes_on(smollm2_folder, tmp_path):
    out, part = tmp_path / "rows.jsonl", tmp_path / "rows.jsonl.part"
    prompts = [f"Is {n} a prime number?" for n in range(400)]
    (tmp_path / "prompts").write_text("\n".join(prompts))
    arguments = ["--prompts", str(tmp_path / "prompts"), "--regex", "(yes|no), [a-z ]{30}", "--batch-size", "1"]
    stopped = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "ctrlgen.cli",
            "generate",
            *arguments,
            "--model",
            str(smollm2_folder),
            "--out",
            str(out),
        ],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        # a test run in the background ignores SIGINT, and its children would
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    until = time.monotonic() + 200
    while (not part.exists() or part.stat().st_size == 0) and stopped.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    stopped.send_signal(signal.SIGINT)
    _, err = stopped.communicate(timeout=100)
    assert stopped.returncode == 130, err
    assert err.splitlines() == [f"what is done is in {part}; --resume goes on from there", "interrupted"]
    done = [row["prompt"] for row in rows(part.read_text())]
    assert done == prompts[: len(done)] != []
    assert not out.exists()
    (tmp_path / "prompts").write_text("\n".join(prompts[: len(done) + 2]))
    assert (
        command("generate", *arguments, "--model", str(smollm2_folder), "--out", str(out), "--resume").returncode == 0
    )
    assert [row["prompt"] for row in rows(out.read_text())] == prompts[: len(done) + 2]


def test_a_text_that_the_model_class_refuses_says_why():
    from ctrlgen.cli.generate import _row
    from ctrlgen.flows.results import Result

    refused = _row("p", Result("{}", None, True, (1,), True, problem="no"))
    assert refused["problem"] == "no"
    assert "problem" not in _row("p", Result("x", "x", True, (1,), True))


def test_guard_checks_a_finished_text(tmp_path):
    names = tmp_path / "names.txt"
    names.write_text("numpy\nrequests\n")
    status, out, _ = run("guard", "--names", str(names), "--check", "-", stdin="Run\n`pip install numpy reqests`\n")
    assert status == 1
    assert out == "-:2:20: 'reqests' is not on the list\n"
    file = tmp_path / "requirements.txt"
    file.write_text("numpy==1\nbad\n")
    status, out, _ = run("guard", "--names", str(names), "--check", str(file), "--json")
    assert status == 1
    assert json.loads(out)["text"] == "bad"
    file.write_text("numpy==1\n")
    assert run("guard", "--names", str(names), "--check", str(file))[0] == 0


def test_guard_checks_import_statements(tmp_path):
    names = tmp_path / "names.txt"
    names.write_text("pyyaml\nnumpy\n")
    options = ["guard", "--names", str(names), "--check", "-"]
    text = "```python\nimport yaml, numpy, bad\n```\n"
    assert run(*options, stdin=text)[0] == 0
    status, out, _ = run(*options, "--imports", "--module", "yaml=pyyaml", stdin=text)
    assert status == 1
    assert out == "-:2:21: 'bad' is not on the list\n"
    for wrong in (["--module", "yaml=pyyaml"], ["--imports", "--module", "yaml"]):
        status, _, error = run(*options, *wrong, stdin=text)
        assert status == 2
        assert "MODULE=PACKAGE" in error


def test_guard_needs_names_and_a_text(tmp_path):
    status, _, error = run("guard", "--check", "-", stdin="x")
    assert status == 2
    assert "--names FILE" in error
    names = tmp_path / "names.txt"
    names.write_text("numpy\n")
    assert "PROMPT" in run("guard", "--names", str(names))[2]
