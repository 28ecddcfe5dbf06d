"""Every method of docs/steering.md on SmolLM2, beside what the model says without it.

python examples/steering.py              # all of them
python examples/steering.py rad dola     # some
"""

from __future__ import annotations

import sys

import torch

import ctrlgen as cg
from ctrlgen import models

PROMPT = "Write one sentence about the sea."
NEW = 24
CONTEXT = "The sea near Oslo is called the fjord of Oslo. "


def words(wanted):
    """A reward: how many of some words are in the text, at most 1."""
    return lambda texts: [min(1.0, sum(text.lower().count(one) for one in wanted) / 2) for text in texts]


def reward(vocabulary, *wanted):
    return cg.RewardFunction(words(wanted), vocabulary)


def methods(model, tokenizer, vocabulary):
    """Name: steerers and other arguments of generate."""
    chat = [{"role": "user", "content": PROMPT}]
    plain = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
    sad = tokenizer("Everything is dull, and nothing is worth a word. " + PROMPT)["input_ids"]
    glad = tokenizer("What a wonderful, happy day! " + PROMPT)["input_ids"]
    soft = model.get_input_embeddings()(torch.tensor(tokenizer("Be rude and dull.")["input_ids"])).detach()
    sampled = {"do_sample": True, "seed": 0}
    return {
        "anchored": ([cg.Anchored(cg.Source(model, prompt=plain), per_token=0.2)], {"seed": 0}),
        "contrastive": ([cg.Contrastive(model, strength=0.3)], {}),
        "context": ([cg.ContextAware(cg.Source(model, prompt=plain), strength=0.5)], {}),
        "guidance": ([cg.ClassifierFree(cg.Source(model, prompt=sad), scale=1.5)], {}),
        "pmi": ([cg.PMI(model, strength=0.2, uncertain=2.0)], {}),
        "dexperts": ([cg.DExperts(cg.Source(model, prompt=glad), cg.Source(model, prompt=sad), strength=1.0)], {}),
        "dola": ([cg.DoLa(model, layers="high")], {}),
        "focus": ([cg.FocusTemperature(model, sigma=4.0)], sampled),
        "acd": ([cg.ACD(None, cg.Source(model, soft_prompt=soft), strength=0.4)], {}),
        "rad": ([cg.RAD(reward(vocabulary, "blue", "calm"), beta=10, k=20)], {}),
        "args": ([cg.ARGS(reward(vocabulary, "blue", "calm"), weight=5)], {}),
        "fudge": ([cg.FUDGE(lambda rows: [4.0 * (len(set(row)) / len(row)) for row in rows], k=50)], {}),
        "gedi": ([cg.GeDi(cg.Source(model, prompt=glad), cg.Source(model, prompt=sad), strength=10)], {}),
        "mod": ([cg.MOD([cg.Source(model, prompt=glad)], [0.5])], {}),
        "rmod": ([cg.RMOD(reward(vocabulary, "blue"), reward(vocabulary, "wave"), strength=8)], {}),
        "fsd": ([cg.FSD(alpha=0.4)], {}),
        "momentum": ([cg.Momentum()], {}),
        "best_of_k": ([cg.BestOfK(draws=8)], sampled),
        "bregman": ([cg.Bregman(sparsity=0.02)], sampled),
        "adadec": ([cg.AdaDec(model, uncertain=1.5)], {}),
        "arithmetic": ([], {"do_sample": True, "num_return_sequences": 3, "custom_generate": cg.arithmetic(0)}),
    }


def flows(model, tokenizer):
    """What is more than one step: name and how to get a text."""

    def exact():
        ratios = cg.MPG([cg.Source(model, prompt=tokenizer("What a wonderful day!")["input_ids"])], [0.1])
        made = cg.sample_exactly(
            model, tokenizer, PROMPT, ratios, chat=True, max_new_tokens=10, seed=0, parallel=8, chunk=2
        )
        return f"{made.samples[0].text}   ({made.attempts} texts begun)"

    def blocks():
        several = [words(("blue", "calm")), words(("wave", "salt"))]
        return cg.best_of_blocks(
            model, tokenizer, PROMPT, several, chat=True, block=8, candidates=6, max_new_tokens=NEW, seed=0
        ).text

    return {"exact": exact, "blocks": blocks}


def main() -> None:
    torch.set_num_threads(1)
    model, tokenizer = models.load()
    vocabulary = cg.Vocabulary.from_tokenizer(tokenizer, model=model)
    steered, more = methods(model, tokenizer, vocabulary), flows(model, tokenizer)
    wanted = sys.argv[1:] or [*steered, *more]
    if unknown := set(wanted) - set(steered) - set(more):
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join([*steered, *more])}")
    base = cg.generate(model, tokenizer, PROMPT, chat=True, max_new_tokens=NEW)
    print(f"{'none':12} {base.text!r}")
    for name in wanted:
        if name in more:
            print(f"{name:12} {more[name]()!r}")
            continue
        steer, options = steered[name]
        given = CONTEXT + PROMPT if name == "context" else PROMPT
        result = cg.generate(model, tokenizer, given, chat=True, max_new_tokens=NEW, steer=steer, **options)
        apart = sum(sum(step.divergences) for step in result.trace.steps)
        print(f"{name:12} {result.text!r}   (KL {apart:.2f} nats)")
        for other in result.alternatives:
            print(f"{'':12} {other.text!r}")


if __name__ == "__main__":
    main()
