"""What steering does and costs: the bars of exactness on tiny models, effect and cost on SmolLM2.

    OMP_NUM_THREADS=1 python benchmarks/steering.py [--quick] [--json]

Each bar is [value, limit, met]. ``--quick`` leaves out what needs SmolLM2. The reward model is learnt here from
sentences that are made here, good and bad words in the same frames, and it is judged on words it has not seen.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time

import numpy as np
import torch
from scipy.optimize import minimize
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

import ctrlgen as cg
from ctrlgen.steering.following import selected
from ctrlgen.steering.maximin import maximin_weights
from ctrlgen.steering.protocol import Prompts
from ctrlgen.steering.reward_model import fit_reward
from ctrlgen.steering.simplex import best_of_k
from ctrlgen.steering.source import Reading
from ctrlgen.testing import ToyLM, toy_vocabulary

GOOD = ["wonderful", "great", "lovely", "happy", "brilliant", "delightful", "excellent", "charming", "kind", "bright"]
BAD = ["terrible", "awful", "sad", "boring", "dreadful", "horrible", "poor", "ugly", "cruel", "dull"]
FRAMES = (
    "The film was {}.", "I had a {} day.", "What a {} idea.", "My friend told me a {} story.",
    "It is {} to be here.", "The food at that place is {}.", "She gave a {} talk about the sea.",
    "They said the weather would be {} again.",
)  # fmt: skip
PROMPTS = ("My day at work was", "The film I saw yesterday was", "I think that this town is", "The food here is")
SEEN = 8
"""Words of each list for learning; the others are for judging."""


def tiny(kind: str, seed: int = 0):
    torch.manual_seed(seed)
    ends = {"bos_token_id": None, "eos_token_id": 0, "pad_token_id": 0, "initializer_range": 0.6}
    if kind == "gpt2":
        return GPT2LMHeadModel(GPT2Config(vocab_size=12, n_embd=16, n_layer=2, n_head=4, n_positions=64, **ends)).eval()
    size = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
    return LlamaForCausalLM(LlamaConfig(vocab_size=12, max_position_embeddings=64, **size, **ends)).eval()


def weights_of_slsqp() -> float:
    """The largest difference of RMOD's weights from scipy's."""
    rng, worst = np.random.default_rng(0), 0.0
    for strength, count in itertools.product((0.1, 1.0, 10.0), (2, 3, 5)):
        values, p = rng.normal(0, 1, (16, count)), rng.dirichlet(np.ones(16))

        def loss(w, values=values, p=p, strength=strength):
            x = strength * values @ w
            return float(np.log(np.sum(p * np.exp(x - x.max()))) + x.max()) / strength

        def slope(w, values=values, p=p, strength=strength):
            share = p * np.exp(strength * values @ w)
            return values.T @ (share / share.sum())

        found = minimize(
            loss, np.full(count, 1 / count), jac=slope, bounds=[(0, 1)] * count, method="SLSQP",
            constraints={"type": "eq", "fun": lambda w: w.sum() - 1}, options={"ftol": 1e-15, "maxiter": 1000},
        ).x  # fmt: skip
        ours = maximin_weights(torch.tensor(values)[None], strength, torch.tensor(p).log()[None])[0].numpy()
        worst = max(worst, float(np.abs(ours - found).max()))
    return worst


def best_of_k_against_slsqp() -> float:
    """How much better scipy's optimum is than ours, at most."""
    rng, worst = np.random.default_rng(1), -np.inf
    for _ in range(10):
        n, draws, near = int(rng.integers(2, 9)), int(rng.integers(1, 20)), float(rng.choice([0.1, 0.5]))
        p, s, c = rng.dirichlet(np.ones(n)), rng.normal(0, 0.1, n), rng.uniform(0, 0.2, n)

        def loss(q, p=p, s=s, c=c, near=near, draws=draws):
            q = np.clip(q, 1e-15, 1)
            return float(near * (q @ np.log(q / p)) - q @ s - c @ (1 - (1 - q) ** draws))

        found = minimize(
            loss, p, bounds=[(1e-14, 1)] * n, method="SLSQP",
            constraints={"type": "eq", "fun": lambda q: q.sum() - 1}, options={"ftol": 1e-16, "maxiter": 2000},
        )  # fmt: skip
        rows = (torch.tensor(x)[None] for x in (np.log(p), s))
        q = best_of_k(*rows, near, torch.tensor(c)[None], draws)[0].exp().numpy()
        worst = max(worst, loss(q) - found.fun)
    return worst


@torch.no_grad()
def cached_against_uncached() -> float:
    """The largest difference of a Source's log p from reading whole rows anew, over rows that change places."""
    generator, worst = torch.Generator().manual_seed(0), 0.0
    soft = torch.randn(3, 16, generator=generator)
    for kind, options in itertools.product(("gpt2", "llama"), ({}, {"prompt": [5, 6]}, {"soft_prompt": soft})):
        model, prompts = tiny(kind), ((1, 2, 3, 4), (5,), (6, 7))
        sources = [cg.Source(model, use_cache=use, **options) for use in (True, False)]
        states = [one.init(Prompts(prompts, torch.device("cpu"))) for one in sources]
        for _ in range(8):
            order = torch.randint(3, (3,), generator=generator)
            tokens, alive = torch.randint(1, 12, (3,), generator=generator), torch.ones(3, dtype=torch.bool)
            rows = [Reading(*selected(one, order)) for one in states]  # as beams do
            states = [s.update(one, tokens, alive) for s, one in zip(sources, rows, strict=True)]
            logs = [one.output.log_softmax(1) for one in states]
            worst = max(worst, float((logs[0] - logs[1]).abs().max()))
    return worst


def neutral() -> float:
    """The largest change that any method makes at its neutral value."""
    model, vocabulary = tiny("llama"), toy_vocabulary()
    scores = torch.randn(3, 12, generator=torch.Generator().manual_seed(0)).mul(3).log_softmax(1)
    flat = lambda rows: [0.5] * len(rows)  # noqa: E731
    steerers = [
        cg.Anchored(model, per_token=1e6), cg.Contrastive(model, strength=0, plausibility=0),
        cg.ContextAware(model, strength=0), cg.ClassifierFree(model, scale=1), cg.PMI(model, strength=0),
        cg.DExperts(model, model, strength=0, top_p=1), cg.DoLa(model, strength=0, plausibility=0),
        cg.FocusTemperature(model, base=1.0, sigma=float("inf")), cg.ACD(None, model, strength=0),
        cg.RAD(flat, beta=0, k=None), cg.ARGS(flat, weight=0, k=None), cg.FUDGE(flat, strength=0, k=None),
        cg.GeDi(model, model, strength=0, keep=1), cg.MOD([model], [0.0]), cg.RMOD(flat, strength=0, k=None),
        cg.FSD(alpha=0, k=None), cg.Momentum(alpha=0, k=None), cg.BestOfK(weight=0, beta=0, support=None),
        cg.Bregman(sparsity=0), cg.AdaDec(model, uncertain=float("inf")),
    ]  # fmt: skip
    ids = torch.tensor([[1, 2], [3, 4], [3, 4]])
    each = [cg.ControlProcessor(None, vocabulary=vocabulary, steer=[one])(ids, scores) for one in steerers]
    return max(float((one - scores).abs().max()) for one in each)


def worst_path() -> float:
    """How far the dearest of all texts of four tokens goes beyond the budget of Anchored."""
    vocabulary = toy_vocabulary([None, b"a", b"b", b"c"])
    safe = ToyLM(vocabulary, lambda ids: np.random.default_rng([3, *ids]).normal(0, 1.5, 4).tolist())
    risky, worst = ToyLM(vocabulary), 0.0
    for text in itertools.product(range(1, 4), repeat=4):
        processor = cg.ControlProcessor(None, vocabulary=vocabulary, steer=[cg.Anchored(safe, per_token=0.15)])
        spent = 0.0
        for i in range(4):
            ids = (1, 2, *text[:i])
            scores = torch.tensor([risky.distribution(ids)], dtype=torch.float32)
            q = processor(torch.tensor([ids]), scores)[0].double().log_softmax(0)
            s = torch.tensor(safe.distribution(ids), dtype=torch.float64).log_softmax(0)
            spent += float((q.exp() * (q - s)).sum())
        worst = max(worst, spent - 0.6)
    return worst


def sentiment() -> dict[str, object]:
    """RAD with a reward model learnt here: accuracy, effect on words not seen, perplexity, cost of a step."""
    from ctrlgen import models

    model, tokenizer = models.load()
    train = [(f.format(w), 1.0) for f in FRAMES for w in GOOD[:SEEN]]
    train += [(f.format(w), 0.0) for f in FRAMES for w in BAD[:SEEN]]
    begun = time.perf_counter()
    scorer = fit_reward(
        model,
        [tokenizer(t)["input_ids"] for t, _ in train],
        [[y] for _, y in train],
        layers=16,
        tuned=4,
        epochs=6,
        rate=2e-4,
    )
    seconds = time.perf_counter() - begun
    held = [(f.format(w), 1.0) for f in FRAMES for w in GOOD[SEEN:]] + [
        (f.format(w), 0.0) for f in FRAMES for w in BAD[SEEN:]
    ]
    with torch.no_grad():
        values = [float(scorer(torch.tensor([tokenizer(t)["input_ids"]])).logits[0, -1, 0]) for t, _ in held]
    right = statistics.mean((v > 0.5) == (y > 0.5) for v, (_, y) in zip(values, held, strict=True))
    rows = {}
    for beta in (None, 5.0, 20.0):
        steer = None if beta is None else [cg.RAD(scorer, beta=beta)]
        begun = time.perf_counter()
        results = cg.generate(
            model, tokenizer, list(PROMPTS), steer=steer, do_sample=True, top_k=20, num_return_sequences=2,
            max_new_tokens=12, seed=0,
        )  # fmt: skip
        spent = time.perf_counter() - begun
        texts = [(p, one) for p, r in zip(PROMPTS, results, strict=True) for one in (r, *r.alternatives)]
        rows["none" if beta is None else f"beta {beta:g}"] = {
            "reward": _reward(scorer, tokenizer, texts),
            "good words less bad words": statistics.mean(
                sum(w in one.text for w in GOOD) - sum(w in one.text for w in BAD) for _, one in texts
            ),
            "perplexity": _perplexity(model, tokenizer, texts),
            "seconds a step": spent / 12,
        }
    ratio = rows["beta 5"]["seconds a step"] / rows["none"]["seconds a step"]
    gain = rows["beta 20"]["reward"] - rows["none"]["reward"]
    bars = {"reward model right on unseen words": _bar(right, 0.75, least=True), "gain of RAD": _bar(gain, 0.1, True)}
    return {"seconds to learn": seconds, "cost of RAD, times the base": ratio, "rows": rows, "bars": bars}


@torch.no_grad()
def _reward(scorer, tokenizer, texts) -> float:
    rows = [tokenizer(p + one.text)["input_ids"] for p, one in texts]
    return statistics.mean(float(scorer(torch.tensor([row])).logits[0, -1, 0].clamp(0, 1)) for row in rows)


@torch.no_grad()
def _perplexity(model, tokenizer, texts) -> float:
    """Of the texts under the model itself."""
    logs = []
    for prompt, one in texts:
        begin, row = tokenizer(prompt)["input_ids"], one.token_ids
        log_p = model(torch.tensor([[*begin, *row]])).logits[0, len(begin) - 1 : -1].float().log_softmax(1)
        logs += log_p.gather(1, torch.tensor(row)[:, None])[:, 0].tolist()
    return float(np.exp(-np.mean(logs)))


def _bar(value: float, limit: float, least: bool = False) -> list[object]:
    return [value, limit, bool(value >= limit if least else value <= limit)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    bars = {
        "neutral values change": _bar(neutral(), 1e-4),
        "cached differs from uncached": _bar(cached_against_uncached(), 1e-4),
        "anchored: worst path beyond its budget": _bar(worst_path(), 1e-6),
        "RMOD weights differ from SLSQP": _bar(weights_of_slsqp(), 1e-4),
        "best-of-K worse than SLSQP": _bar(best_of_k_against_slsqp(), 1e-7),
    }
    report: dict[str, object] = {"bars": bars}
    if not given.quick:
        found = sentiment()
        bars |= found.pop("bars")
        report["RAD"] = found
    if given.json:
        print(json.dumps(report, indent=1))
        return
    for name, (value, limit, met) in bars.items():
        print(f"{name:42} {value:10.3g}  limit {limit:g}  {'met' if met else 'MISSED'}")
    for name, row in (report.get("RAD") or {}).get("rows", {}).items():
        print(f"RAD {name:8} " + ", ".join(f"{what} {value:.3f}" for what, value in row.items()))


if __name__ == "__main__":
    main()
