import pytest
import torch

import ctrlgen as cg
from ctrlgen import resources
from ctrlgen.errors import InputError
from ctrlgen.hmm.library import names

LARGEST = 15_000_000


def test_ready_files_are_small_and_described():
    folder = resources.folder("hmm")
    assert names()
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) <= LARGEST
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in names())


def test_the_model_beats_the_bigram():
    hmm = cg.HMM.named("smollm2-135m")
    assert hmm.width == 49152 and hmm.eos == (0, 2)
    card = hmm.card
    assert card["held_out_perplexity"] < card["bigram_perplexity"] < card["unigram_perplexity"]
    for text in (hmm.start, hmm.transition.sum(1), hmm.emission.totals()):
        assert text.isfinite().all()


@pytest.mark.parametrize("kind", ["logistic", "factorised"])
def test_attributes_fit_the_model(kind):
    attribute = cg.Attribute.named(f"smollm2-135m.positive-review.{kind}")
    assert attribute.width == 49152 and (attribute.bias is None) == (kind == "factorised")
    assert attribute.card["held_out_auc"] > 0.6
    assert attribute.probability(torch.ones(1, 49152)).isfinite().all()


def test_unknown_names():
    with pytest.raises(InputError, match="did you mean smollm2-135m"):
        cg.HMM.named("smollm2-136m")
