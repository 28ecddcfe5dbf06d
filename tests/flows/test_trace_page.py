"""The page of a trace: what it holds, and what a real browser makes of it."""

import html
import json
import math
import re
import shutil
import subprocess

import pytest

from ctrlgen.errors import InputError
from ctrlgen.flows.generate import generate
from ctrlgen.flows.trace_page import write_page
from ctrlgen.testing import Enumerated, ToyLM, ToyTokenizer, toy_vocabulary
from tests.steering.recomputed import Noise

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NASTY = "</script><script>document.title='broken'</script><b>&amp;"
VOCABULARY = toy_vocabulary(
    [None, b"a", b"b", b"c", b"</script>", b"<b>", b"\n", b"&quot;", b"'", b'"', b"\xc3", b"\xa9"]
)


@pytest.fixture(scope="module")
def result():
    model = ToyLM(VOCABULARY)
    constraint = Enumerated(VOCABULARY, ["abc", "ab</script>", "<b>&quot;c", "\"'\né"])
    return generate(
        model, ToyTokenizer(VOCABULARY), "ab", constraint, vocabulary=VOCABULARY, steer=[Noise(12, 3.0)], likeliest=3,
        num_return_sequences=2, do_sample=True, seed=1,
    )  # fmt: skip


def embedded(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S).group(1))


def test_steps_hold_what_was_likely(result):
    for one in (result, *result.alternatives):
        for step in one.trace.steps:
            assert len(step.before) == len(step.after) == 3
            for shown in (step.before, step.after):
                p = [value for _, value in shown]
                assert p == sorted(p, reverse=True)
                assert 0 <= sum(p) <= 1 + 1e-5
            likely = dict(step.after)
            assert step.token not in likely or likely[step.token] > 0
            assert set(step.pieces if hasattr(step, "pieces") else ()) <= set(one.trace.pieces)
        assert one.trace.steerers == ("Noise",)
        assert "".join(one.trace.pieces[step.token] for step in one.trace.steps).startswith(one.text[:1])


def test_the_page_holds_the_trace(result, tmp_path):
    path = tmp_path / "trace.html"
    result.trace.to_html(path)
    (data,) = embedded(path.read_text(encoding="utf-8"))
    assert data["steerers"] == ["Noise"]
    for made, step in zip(data["steps"], result.trace.steps, strict=True):
        assert made["token"] == step.token
        assert made["removed"] == pytest.approx(1 - math.exp(step.log_mass))
        assert made["kl"] == pytest.approx(list(step.divergences))
        assert [p for _, p in made["before"]] == pytest.approx([p for _, p in step.before])


def test_texts_cannot_break_out(result, tmp_path):
    path = tmp_path / "trace.html"
    write_page(path, [result.trace, result.trace], [NASTY, "plain"])
    page = path.read_text(encoding="utf-8")
    assert page.count("<script") == page.count("</script>") == 2
    assert html.escape(NASTY) in page
    assert len(embedded(page)) == 2
    assert "http" not in page.replace("http-equiv", "")
    with pytest.raises(InputError, match="1 prompts for 2 traces"):
        write_page(path, [result.trace, result.trace], ["one"])


@pytest.mark.skipif(BROWSER is None, reason="no chromium is installed")
def test_a_browser_shows_it(result, tmp_path):
    path = tmp_path / "trace.html"
    write_page(path, [result.trace, result.trace], [NASTY, "plain"])
    # the mouse, by script: each token in turn, and what the page then says
    probe = (
        "<script>const told=[];document.querySelectorAll('section').forEach(s=>s.querySelectorAll('.text span')"
        ".forEach(x=>{x.dispatchEvent(new Event('mouseenter'));told.push([x.textContent,x.style.background,"
        "s.querySelector('.details').textContent,s.querySelectorAll('table').length])}));"
        "document.body.dataset.told=JSON.stringify(told);"
        "document.body.dataset.points=document.querySelector('polyline').getAttribute('points');</script></body>"
    )
    path.write_text(path.read_text(encoding="utf-8").replace("</body>", probe), encoding="utf-8")
    words = [
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--dump-dom",
        f"--user-data-dir={tmp_path}/profile",
    ]
    done = subprocess.run([*words, path.as_uri()], capture_output=True, timeout=120, check=True)
    page = done.stdout.decode("utf-8")
    assert 'data-ready="1"' in page
    assert "<title>ctrlgen trace</title>" in page  # the prompt did not run
    told = json.loads(html.unescape(re.search(r'data-told="(.*?)"', page).group(1)))
    steps = result.trace.steps
    assert len(told) == 2 * len(steps)
    for (piece, colour, details, tables), step in zip(told, steps * 2, strict=True):
        assert piece == (result.trace.pieces[step.token] or "□")
        assert f"token {step.token}" in details
        assert "KL of Noise" in details
        assert tables == 2
        removed = 1 - math.exp(step.log_mass)
        alpha = re.search(r"rgba?\(220, 60, 30(?:, ([0-9.]+))?\)", colour)
        assert float(alpha.group(1) or 1) == pytest.approx(0.75 * removed, abs=0.01)
    assert len(re.search(r'data-points="(.*?)"', page).group(1).split()) == len(steps)


def test_what_is_refused():
    model, tokenizer = ToyLM(VOCABULARY), ToyTokenizer(VOCABULARY)
    with pytest.raises(InputError, match="likeliest is -1"):
        generate(model, tokenizer, "ab", vocabulary=VOCABULARY, likeliest=-1)
