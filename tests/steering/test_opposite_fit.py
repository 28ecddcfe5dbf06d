"""Opposite prompts learnt on a tiny model: the losses as plain sums, what they do, and the command."""

import json
import math

import pytest
import torch
from typer.testing import CliRunner

from ctrlgen.cli import app
from ctrlgen.errors import InputError
from ctrlgen.steering.opposite import OppositePrompts
from ctrlgen.steering.opposite_fit import Anchor, _batch, _loss, fit_opposite
from ctrlgen.testing import ToyTokenizer, toy_vocabulary

from .models import logits_after, tiny

ANCHORS = [
    Anchor((1, 2), (5, 6, 0), (7, 8, 9, 0)),
    Anchor((1, 3, 3), (5, 6, 0), (7, 8, 0)),
    Anchor((4, 2), (9, 9, 0)),
]


def log_p_of(model, soft, prompt, answer):
    """Plainly, of each token of the answer."""
    found = []
    for i, token in enumerate(answer):
        found.append(float(logits_after(model, [*prompt, *answer[:i]], soft).log_softmax(0)[token]))
    return found


@pytest.mark.parametrize("family", ["gpt2", "llama"])
@pytest.mark.parametrize("adverse", [False, True])
def test_the_loss_is_the_mean_over_the_tokens_of_each_answer(family, adverse):
    model, soft = tiny(family), torch.randn(3, 16)
    losses = []
    for prompt, refused, complied in ANCHORS:
        for answer, wanted in ((refused, not (adverse and complied)), (complied, adverse)):
            if answer:
                log_p = log_p_of(model, soft, prompt, answer)
                each = [-x if wanted else -math.log1p(-math.exp(x)) for x in log_p]
                losses.append(sum(each) / len(each))
    found = _loss(model, soft, _batch(ANCHORS, adverse=adverse, device="cpu"))
    assert float(found.detach()) == pytest.approx(sum(losses) / len(losses), abs=1e-4)


def test_learning():
    """The safe prompt comes to refuse, the adverse one to comply; the model is as it was."""
    model = tiny("llama", initializer_range=0.3)
    before = {name: one.clone() for name, one in model.named_parameters()}
    seen = []
    made = fit_opposite(
        model, ANCHORS, safe=[3, 4], adverse=[3, 5, 6], steps=60, batch=3, rate=0.05, on_step=lambda *x: seen.append(x)
    )
    assert made.safe.shape == (2, 16)
    assert made.adverse.shape == (3, 16)
    assert [x[0] for x in seen] == list(range(60))
    for soft, wanted, unwanted in ((made.safe, 1, 2), (made.adverse, 2, 1)):
        for anchor in ANCHORS[:2]:
            good, bad = (sum(log_p_of(model, soft, anchor.prompt, anchor[i])) for i in (wanted, unwanted))
            assert good > bad + 1
    assert all(torch.equal(one, before[name]) and one.grad is None for name, one in model.named_parameters())
    again = fit_opposite(model, ANCHORS, safe=[3, 4], adverse=[3, 5, 6], steps=60, batch=3, rate=0.05)
    assert torch.equal(again.safe, made.safe)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"anchors": ANCHORS[2:]}, "no anchor shows what is not wanted"),
        ({"anchors": [Anchor((), (1,), (2,))]}, "anchor 0 has an empty prompt"),
        ({"safe": []}, "a prompt to begin with is empty"),
        ({"steps": 0}, "steps is 0"),
        ({"rate": -1.0}, "rate is -1"),
    ],
)
def test_what_is_refused(change, message):
    arguments = {"anchors": ANCHORS, "safe": [1], "adverse": [2], **change}
    with pytest.raises(InputError, match=message):
        fit_opposite(tiny("llama"), arguments.pop("anchors"), **arguments)


@pytest.fixture
def toy(monkeypatch):
    tokenizer = ToyTokenizer(toy_vocabulary())
    monkeypatch.setattr("ctrlgen.cli.acd.load", lambda *_: (tiny("llama"), tokenizer))


def test_the_command(toy, tmp_path):
    path, out = tmp_path / "anchors.jsonl", tmp_path / "prompts.safetensors"
    rows = [{"prompt": "ab", "refused": "c", "complied": "a"}, {"prompt": "b", "answer": "ca"}]
    path.write_text("\n".join(map(json.dumps, rows)))
    words = ["acd", "fit", str(path), str(out), "--steps", "2", "--safe", "ab", "--adverse", "cab"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "step 1 of 2" in result.stderr
    made = OppositePrompts.load(out)
    assert made.safe.shape[1] == 16
    path.write_text(json.dumps({"prompt": "ab"}))
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert "anchor 1" in result.stderr
