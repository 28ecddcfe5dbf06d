"""What an HMM says, by adding up every path and every text: slow and plain, the reference for everything fast."""

import itertools
import math

import numpy as np

from ctrlgen.hmm.model import from_tables


def random_hmm(rng, states, width, *, eos=(), zeros=0.0):
    """An HMM in float64; a share of its numbers is 0."""

    def rows(*shape):
        values = rng.random(shape) * (rng.random(shape) >= zeros) + 1e-300
        values[..., 0] += 1e-3
        values[values < 1e-200] = 0.0
        return values / values.sum(-1, keepdims=True)

    return from_tables(rows(states), rows(states, states), rows(states, width), eos=eos)


def arrays(hmm):
    return hmm.start.numpy(), hmm.transition.numpy(), hmm.emission.dense().numpy().T


def joint(hmm, text, start=None):
    """p(text), every path of states on its own; ``start`` instead of the HMM's."""
    first, transition, emission = arrays(hmm)
    first = first if start is None else start
    total = 0.0
    for path in itertools.product(range(hmm.states), repeat=len(text)):
        p = first[path[0]] if path else 1.0
        for i, (state, token) in enumerate(zip(path, text, strict=True)):
            p *= emission[state, token] * (transition[path[i - 1], state] if i else 1.0)
        total += p
    return total


def futures(hmm, count):
    """Every continuation of ``count`` tokens, or of fewer if it ends by an end token."""
    for length in range(1, count + 1):
        for text in itertools.product(range(hmm.width), repeat=length):
            if any(token in hmm.eos for token in text[:-1]):
                continue
            if length == count or text[-1] in hmm.eos:
                yield text
    if count == 0:
        yield ()


def expected(hmm, before, token, count, wanted):
    """E[wanted(token and all after it); x_t = token | before], ``count`` tokens to come after it."""
    given = joint(hmm, before)
    if token in hmm.eos:
        return joint(hmm, (*before, token)) / given * wanted((token,))
    return sum(
        joint(hmm, (*before, token, *future)) * wanted((token, *future)) for future in futures(hmm, count)
    ) / given  # fmt: skip


def product_of(weights):
    return lambda text: math.exp(sum(weights[token] for token in text))


def logistic_of(weights, bias):
    return lambda text: 1 / (1 + math.exp(-bias - sum(weights[token] for token in text)))


def close(value, reference):
    np.testing.assert_allclose(np.asarray(value), np.asarray(reference), rtol=1e-9, atol=1e-12)
