import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from ctrlgen.errors import InputError
from ctrlgen.hmm.attribute import Attribute
from ctrlgen.hmm.classifier import area, examples, fit_attribute, fit_each, pieces


def drawn(kind, count=4000, width=6, seed=0):
    """Texts, labels drawn with the probabilities of known weights, and these."""
    rng = np.random.default_rng(seed)
    weights = -rng.exponential(0.3, width) if kind == "factorised" else rng.normal(0, 0.7, width)
    texts = [rng.integers(0, width, rng.integers(1, 6)).tolist() for _ in range(count)]
    sums = np.array([weights[text].sum() for text in texts])
    chances = np.exp(sums) if kind == "factorised" else expit(sums + 0.4)
    return texts, rng.random(count) < chances, weights


@pytest.mark.parametrize("kind", ["logistic", "factorised"])
def test_finds_the_weights(kind):
    texts, labels, weights = drawn(kind, 12_000)
    made = fit_attribute(examples(texts, 6), labels, kind=kind, penalty=0.01, largest=5.0)
    np.testing.assert_allclose(made.weights, weights, atol=0.12)
    assert (made.bias is None) == (kind == "factorised")
    assert made.bias is None or made.bias == pytest.approx(0.4, abs=0.12)
    assert made.card["texts"] == 10_800 and made.card["held_out_auc"] > 0.6


@pytest.mark.parametrize("kind", ["logistic", "factorised"])
def test_no_direction_is_better(kind):
    texts, labels, _ = drawn(kind, 300)
    known = examples(texts, 6)
    none = np.zeros(300, bool)
    made = fit_attribute(known, labels, kind=kind, penalty=2.0, largest=0.4, held_out=none)
    point = made.weights.double().numpy()

    def loss(weights, bias):
        sums = known.counts @ weights
        if kind == "factorised":
            sums = sums - 1e-4
            return -sums[labels].sum() - np.log(-np.expm1(sums[~labels])).sum() - 2.0 * weights.sum()
        chances = expit(sums + bias)
        return -np.log(np.where(labels, chances, 1 - chances)).sum() + weights @ weights

    bias, rng = made.bias or 0.0, np.random.default_rng(0)
    best = loss(point, bias)
    for _ in range(200):
        step = rng.normal(0, 0.05, 6)
        other = np.clip(point + step, None, 0.0) if kind == "factorised" else np.clip(point + step, -0.4, 0.4)
        assert loss(other, bias) >= best - 1e-5
    assert kind == "factorised" or abs(point).max() <= 0.4 + 1e-6


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=1, max_size=12))
@settings(deadline=None)
def test_area(pairs):
    scores, truth = np.array([float(s) for s, _ in pairs]), np.array([t for _, t in pairs])
    found = area(scores, truth)
    ones, zeros = scores[truth], scores[~truth]
    if not len(ones) or not len(zeros):
        assert found is None
        return
    wins = [(a > b) + (a == b) / 2 for a in ones for b in zeros]
    assert found == pytest.approx(np.mean(wins))


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 9))
def test_pieces(ids, length):
    cut = pieces(ids, length)
    flat = [token for piece in cut for token in piece]
    assert flat == ids[: len(flat)] and len(ids) - len(flat) < length / 2
    assert all(len(piece) <= length for piece in cut) and bool(cut) == bool(ids)


def test_refuses():
    texts, labels, _ = drawn("logistic", 40)
    known = examples(texts, 6)
    with pytest.raises(InputError, match="expected 0 to 4"):
        examples([[5]], 5)
    with pytest.raises(InputError, match="40 texts and labels of shape"):
        fit_attribute(known, labels[:3])
    with pytest.raises(InputError, match="one label"):
        fit_attribute(known, [True] * 40)
    with pytest.raises(InputError, match="kind is 'tree'"):
        fit_attribute(known, labels, kind="tree")


@pytest.mark.model
def test_command(tmp_path, capsys):
    from ctrlgen import models
    from ctrlgen.cli import app

    models.default_model(fetch=False)
    words = ("good", "great", "bad", "awful", "film", "plot")
    rng, rows = np.random.default_rng(0), []
    for _ in range(200):
        text = rng.choice(words, 4).tolist()
        good = sum(word in words[:2] for word in text) - sum(word in words[2:4] for word in text)
        rows.append((" ".join(text), "pos" if rng.random() < 1 / (1 + math.exp(-3 * good)) else "neg"))
    (tmp_path / "data.csv").write_text("text,label\n" + "".join(f"{a},{b}\n" for a, b in rows))
    line = ["hmm", "attribute", "fit", str(tmp_path / "data.csv"), "--out", str(tmp_path / "good"), "--positive", "pos"]
    app(line, standalone_mode=False)
    facts = json.loads(capsys.readouterr().out)
    assert facts["held_out_auc"] > 0.8 and facts["positive"] == "pos"
    assert Attribute.load(tmp_path / "good").width == 49152
    app([*line[:-1], "maybe"], standalone_mode=False)
    assert "the label 'maybe'" in capsys.readouterr().err


def test_an_attribute_for_each_mark():
    texts, labels, _ = drawn("logistic", 200)
    known = examples(texts, 6)
    marks = ["yes" if label else "no" for label in labels]
    marks[0] = "once"
    made = fit_each(known, marks, kind="factorised")
    assert sorted(made) == ["no", "yes"]
    alone = fit_attribute(known, np.array(marks) == "yes", kind="factorised")
    assert torch.equal(made["yes"].weights, alone.weights) and made["yes"].card["mark"] == "yes"
    with pytest.raises(InputError, match="200 texts and 3 marks"):
        fit_each(known, marks[:3])
    with pytest.raises(InputError, match="no mark has 300 texts"):
        fit_each(known, marks, least=300)


@pytest.mark.model
def test_command_for_each_label(tmp_path, capsys):
    from ctrlgen import models
    from ctrlgen.cli import app

    models.default_model(fetch=False)
    rows = [(f"the {word} {word} film", word) for word in ("good", "bad", "odd") for _ in range(30)]
    (tmp_path / "data.csv").write_text("text,who\n" + "".join(f"{a},{b}\n" for a, b in rows))
    line = ["hmm", "attribute", "each", str(tmp_path / "data.csv"), "--out", str(tmp_path / "all"), "--label", "who"]
    app([*line, "--least", "5"], standalone_mode=False)
    facts = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert {one["label"] for one in facts} == {"good", "bad", "odd"}
    assert all(Attribute.load(tmp_path / "all" / one["file"]).card["mark"] == one["label"] for one in facts)
