"""Deco-G beside what else leads to a format: distance from rejection sampling, and a labelled task.

Rejection sampling draws from p(text | the format is met), which is what Deco-G is after. With texts x drawn so, and a
way q,

    KL(p* || q) = E[log p*(x) - log q(x)],   TV(p*, q) = E[max(0, 1 - q(x) / p*(x))]

are means over x, and log p*(x) = log p(x) - log P(met), all of which can be computed for each text.
"""

from __future__ import annotations

import json
import re
import time
from functools import partial

import numpy as np
import torch
from steered import beginnings, drawn, reviews

import ctrlgen as cg

LETTERS, BUDGET = "[A-Za-z ,'\\-]+", 12
DRAWS, LEAST = 64, 4
"""Texts drawn freely for a prompt, and how many must meet the format to say anything of it."""

ASKED = (
    "Say in one short sentence what the review thinks of the film. Then end with 'Verdict: positive.' or "
    "'Verdict: negative.'\n\nReview: {}"
)
VERDICT = re.compile(r"Verdict: (positive|negative)\.")


# distance from rejection sampling


@torch.inference_mode()
def distances(given, model, tokenizer):
    """A sentence that comes to its full stop within 12 tokens, from prompts of test reviews.

    Returns:
        For each way, KL and TV of each prompt; and the share of accepted texts.
    """
    path, count = given.work / "rejection.json", 4 if given.quick else 16
    rows = json.loads(path.read_text()) if path.exists() else []
    if len(rows) < count:
        ways = _scorers(model, tokenizer)
        for number, prompt in enumerate(beginnings(given.reviews, tokenizer, 9, count)[len(rows) :], len(rows)):
            rows.append(_distance(model, tokenizer, ways, prompt, number))
            path.write_text(json.dumps(rows))
            print(number, {name: round(value, 3) for name, value in rows[-1].items()}, flush=True)
    return {name: [row[name] for row in rows[:count] if name in row] for name in rows[0]}


def _scorers(model, tokenizer):
    """Ways of decoding, and the token that ends their texts."""
    stop = tokenizer.encode(".")[0]
    vocabulary = cg.Vocabulary.from_tokenizer(tokenizer, eos=[stop], width=model.config.vocab_size)
    constraint = cg.Regex(LETTERS).compile(vocabulary)
    known = cg.HMM.named("smollm2-135m")
    hmm = cg.HMM(known.start, known.transition, known.emission, (stop,), known.card)
    steers = {"mask only": None, "Deco-G": [cg.DecoG(hmm, constraint, tokens=BUDGET)]}
    return {name: partial(_scored, model, vocabulary, constraint, steer) for name, steer in steers.items()}, stop


def _distance(model, tokenizer, ways, prompt, seed):
    scorers, stop = ways
    texts, log_p = _accepted(model, tokenizer, prompt, stop, seed)
    row = {"accepted": len(texts) / DRAWS}
    if len(texts) >= LEAST:
        for name, scored in scorers.items():
            apart = log_p - np.log(len(texts) / DRAWS) - scored(prompt, texts, stop)
            row[f"KL {name}"] = float(apart.mean())
            row[f"TV {name}"] = float(np.maximum(0, -np.expm1(-apart)).mean())
    return row


def _accepted(model, tokenizer, prompt, stop, seed):
    """Texts that meet the format, of so many drawn freely, and log p of each."""
    generator, ids = torch.Generator().manual_seed(seed), torch.tensor([prompt]).expand(DRAWS, -1)
    cache, new, texts, logs = None, ids, [], []
    for _ in range(BUDGET):
        out = model(new, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache, log_p = out.past_key_values, out.logits[:, -1].float().log_softmax(1)
        new = drawn(log_p, generator)
        texts.append(new)
        logs.append(log_p.gather(1, new))
    good, likely = [], []
    for row, log in zip(torch.cat(texts, 1).tolist(), torch.cat(logs, 1).tolist(), strict=True):
        end = row.index(stop) if stop in row else 0
        if end and re.fullmatch(LETTERS, tokenizer.decode(row[:end])):
            good.append(row[: end + 1])
            likely.append(sum(log[: end + 1]))
    return good, np.array(likely)


def _scored(model, vocabulary, constraint, steer, prompt, texts, stop):
    """log q of each text, step by step as it would be generated."""
    control = cg.ControlProcessor(constraint, vocabulary=vocabulary, steer=steer, max_new_tokens=BUDGET)
    ids, cache, total = torch.tensor([prompt] * len(texts)), None, torch.zeros(len(texts))
    new, lengths = ids, torch.tensor([len(one) for one in texts])
    for step in range(int(lengths.max())):
        out = model(new, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache, scores = out.past_key_values, control(ids, out.logits[:, -1].float())
        new = torch.tensor([[one[step] if step < len(one) else stop] for one in texts])
        total += torch.where(step < lengths, scores.log_softmax(1).gather(1, new)[:, 0], 0.0)
        ids = torch.cat([ids, new], 1)
    return total.double().numpy()


# a labelled task


def labels(given, model, tokenizer):
    """Right labels, labels at all, and seconds of four ways to a sentence and a verdict."""
    path = given.work / "verdicts.json"
    rows = json.loads(path.read_text()) if path.exists() else []
    some = [(text, label) for text, label in reviews(given.reviews, [9]) if len(text) < 250]
    some = some[: 16 if given.quick else 96]
    hmm, spec = cg.HMM.named("smollm2-135m"), cg.Regex(LETTERS + r" Verdict: (positive|negative)\.")
    deco = cg.DecoG(hmm, spec, tokens=40)
    for first in range(len(rows), len(some), 16):
        batch = some[first : first + 16]
        prompts = [ASKED.format(text) for text, _ in batch]
        found = {}
        for name, way in _ways(model, tokenizer, spec, deco).items():
            begun = time.perf_counter()
            found[name] = (way(prompts), (time.perf_counter() - begun) / len(batch))
        for i, (_, label) in enumerate(batch):
            rows.append([label, {name: [texts[i], seconds] for name, (texts, seconds) in found.items()}])
        path.write_text(json.dumps(rows))
    return rows[: len(some)]


def _ways(model, tokenizer, spec, deco):
    def run(prompts, constraint=None, tokens=40, steer=None):
        results = cg.generate(
            model, tokenizer, prompts, constraint, chat=True, max_new_tokens=tokens, steer=steer, trace=False
        )
        return [one.text for one in results]

    def reformatted(prompts):
        free = run([one.replace(" Then end with 'Verdict: positive.' or 'Verdict: negative.'", "") for one in prompts])
        question = "Is this said of a film that is good or bad? {}\nAnswer 'Verdict: positive.' or 'Verdict: negative.'"
        asked = [question.format(one) for one in free]
        return run(asked, cg.Choice(["Verdict: positive.", "Verdict: negative."]), 10)

    return {
        "format in the prompt": run,
        "mask only": lambda prompts: run(prompts, spec),
        "Deco-G": lambda prompts: run(prompts, spec, steer=[deco]),
        "free text, then reformat": reformatted,
    }


def verdicts(rows):
    """(right, with a verdict, seconds a text) of each way."""
    table = {}
    for name in rows[0][1]:
        marks = [(label, VERDICT.search(ways[name][0]), ways[name][1]) for label, ways in rows]
        right = np.array([found is not None and (found[1] == "positive") == label for label, found, _ in marks])
        table[name] = (
            float(right.mean()), float(np.mean([found is not None for _, found, _ in marks])),
            float(np.mean([seconds for *_, seconds in marks])),
        )  # fmt: skip
    return table
