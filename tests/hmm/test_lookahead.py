import itertools

import numpy as np
import pytest
import torch

from ctrlgen.errors import InputError
from ctrlgen.hmm import answers, horizon, lookahead, terms
from ctrlgen.hmm.answers import Place
from ctrlgen.hmm.lifted import Lifted, anything
from ctrlgen.hmm.model import after_texts
from tests.hmm import enumerated
from tests.hmm.enumerated import close, expected, joint, logistic_of, product_of, random_hmm


def asked(hmm, wanted, lifted=None):
    return lookahead.ask(hmm, wanted, anything(hmm.width, hmm.eos) if lifted is None else lifted)


def values(question, before, after, past=None, state=0):
    """p(wanted, v) for each v after a text, none of whose tokens counted."""
    prior = after_texts(question.hmm, (before,))
    past = torch.zeros(1, question.shape[0], dtype=question.mass.dtype) if past is None else past
    tokens = torch.arange(question.hmm.width)[None]
    place = Place(prior, past, torch.tensor([state]), 0)
    found, likely = answers.value(answers.answers(question, horizon.Ahead(after, None)), place, tokens)
    given = joint(question.hmm, before)
    close(likely[0], [joint(question.hmm, (*before, v)) / given for v in range(question.hmm.width)])
    return found[0]


CASES = [(1, 3, ()), (2, 4, (3,)), (3, 3, (0,)), (2, 5, (1, 4))]


@pytest.mark.parametrize(("states", "width", "eos"), CASES)
@pytest.mark.parametrize("zeros", [0.0, 0.4])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_finite(states, width, eos, count, zeros):
    rng = np.random.default_rng(states + 10 * count)
    hmm = random_hmm(rng, states, width, eos=eos, zeros=zeros)
    weights = -rng.exponential(1.0, width)
    question = asked(hmm, terms.factorised(torch.from_numpy(weights)))
    ahead = horizon.Finite(count + 1).solve(question)
    before = (next(v for v in range(width) if joint(hmm, (v,)) > 0),)
    found = values(question, before, ahead.after(0))
    close(found, [expected(hmm, before, v, count, product_of(weights)) for v in range(width)])
    window = horizon.Window(count).solve(question)
    close(window.after(7), ahead.after(0))


def test_beyond_the_budget_the_last_table_stays():
    rng = np.random.default_rng(0)
    question = asked(random_hmm(rng, 2, 3), terms.factorised(torch.tensor([-1.0, 0.0, -2.0])))
    ahead = horizon.Finite(3).solve(question)
    assert torch.equal(ahead.after(2), ahead.after(50))
    close(ahead.after(2), np.ones((1, 1, 1, 2)))


@pytest.mark.parametrize("compose", ["and", "or", "not", "deep"])
def test_compositions(compose):
    rng = np.random.default_rng(5)
    hmm = random_hmm(rng, 2, 4, eos=(2,))
    a, b, c = (-rng.exponential(1.0, 4) for _ in range(3))
    f, g, h = (terms.factorised(torch.from_numpy(one)) for one in (a, b, c))
    p, q, r = (product_of(one) for one in (a, b, c))
    made, plain = {
        "and": (f & g, lambda t: p(t) * q(t)),
        "or": (f | g, lambda t: p(t) + q(t) - p(t) * q(t)),
        "not": (~f, lambda t: 1 - p(t)),
        "deep": (f & ~(g | h), lambda t: p(t) * (1 - q(t)) * (1 - r(t))),
    }[compose]
    question = asked(hmm, made)
    found = values(question, (0,), horizon.Finite(4).solve(question).after(0))
    close(found, [expected(hmm, (0,), v, 3, plain) for v in range(4)])


@pytest.mark.parametrize(("sines", "error"), [(16, 1e-5), (40, 1e-10)])
def test_logistic(sines, error):
    rng = np.random.default_rng(6)
    hmm = random_hmm(rng, 3, 4, eos=(1,))
    weights, other = rng.normal(0, 1.5, 4), -rng.exponential(1, 4)
    reach = float(abs(weights).max() * 4 + 0.7)
    attribute = terms.logistic(torch.from_numpy(weights), 0.7, reach=reach, sines=sines)
    assert terms.largest_error(reach, sines) < error
    plain = logistic_of(weights, 0.7)
    cases = [
        (attribute, plain),
        (~attribute & terms.factorised(torch.from_numpy(other)), lambda t: (1 - plain(t)) * product_of(other)(t)),
    ]
    if sines < 20:  # pairs of sines are many
        cases.append((attribute & attribute, lambda t: plain(t) ** 2))
    for wanted, p in cases:
        question = asked(hmm, wanted)
        found = values(question, (0,), horizon.Finite(4).solve(question).after(0))
        reference = [expected(hmm, (0,), v, 3, p) for v in range(4)]
        np.testing.assert_allclose(found, reference, atol=3 * error)


def test_past_counts():
    rng = np.random.default_rng(7)
    hmm = random_hmm(rng, 2, 3)
    weights = -rng.exponential(1.0, 3)
    question = asked(hmm, terms.factorised(torch.from_numpy(weights)))
    after = horizon.Finite(3).solve(question).after(1)
    found = values(question, (2,), after, past=torch.tensor([[weights[2]]]))
    close(found, [expected(hmm, (2,), v, 1, product_of(weights)) * np.exp(weights[2]) for v in range(3)])


def test_limits_are_those_of_long_horizons():
    rng = np.random.default_rng(8)
    hmm = random_hmm(rng, 3, 4, eos=(3,))
    wanted = terms.factorised(torch.from_numpy(-rng.exponential(1.0, 4)))
    for one in (wanted, ~wanted):
        question = asked(hmm, one)
        close(horizon.UntilEnd().solve(question).after(0), lookahead.finite(question, 400, must_end=True)[-1:])
    # a mixture over lengths
    question = asked(hmm, wanted)
    tables, mean = lookahead.finite(question, 300, must_end=False), 3.0
    shares = torch.tensor([(1 - 1 / mean) ** n / mean for n in range(301)], dtype=torch.float64)
    mixed = (shares[:, None, None, None] * tables).sum(0)
    close(horizon.Geometric(mean).solve(question).after(0)[0], mixed)


def test_stationary_is_the_ratio_in_the_long_run():
    rng = np.random.default_rng(9)
    question = asked(random_hmm(rng, 3, 4), terms.factorised(torch.from_numpy(-rng.exponential(1.0, 4))))
    long = lookahead.finite(question, 200, must_end=False)[-1, 0, 0]
    found = horizon.Stationary().solve(question).after(0)[0, 0, 0]
    close(found / found[0], long / long[0])


def test_no_limit_without_ends():
    question = asked(random_hmm(np.random.default_rng(1), 2, 3), terms.constant(1.0, 3))
    with pytest.raises(InputError, match="never end"):
        horizon.UntilEnd().solve(question)
    with pytest.raises(InputError, match="one factorised"):
        opposite = ~terms.factorised(torch.tensor([-1.0, 0.0, 0.0]))
        horizon.Stationary().solve(asked(question.hmm, opposite))


def random_lifted(rng, states, width, eos):
    """An automaton over single tokens, classes joined where columns agree by chance."""
    table = rng.integers(-1, states, (states, width))
    table[:, list(eos)] = -1
    final = rng.random(states) < 0.6
    final[-1] = True
    classes = np.arange(width)
    classes[list(eos)] = eos[0]
    return Lifted(torch.from_numpy(classes), torch.from_numpy(table), torch.from_numpy(final), eos[0])


def accepted(lifted, hmm, state, text):
    for token in text[:-1]:
        state = -1 if state < 0 else int(lifted.moves[state, lifted.classes[token]])
    return state >= 0 and text[-1] in hmm.eos and bool(lifted.final[state])


@pytest.fixture(params=[0, 32], ids=["one by one", "grouped"])
def grouped(request, monkeypatch):
    """Both ways to multiply with the rows of several edges."""
    monkeypatch.setattr(answers, "GROUPED", request.param)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("count", [0, 2, 4])
@pytest.mark.usefixtures("grouped")
def test_automaton(seed, count):
    rng = np.random.default_rng(seed)
    eos = (4,) if seed % 2 else (0, 3)
    hmm, lifted = random_hmm(rng, 2, 5, eos=eos, zeros=0.2), random_lifted(rng, 3, 5, eos)
    weights = -rng.exponential(1.0, 5)
    wanted = terms.constant(1.0, 5) if seed < 3 else terms.factorised(torch.from_numpy(weights))
    plain = (lambda t: 1.0) if seed < 3 else product_of(weights)
    question = asked(hmm, wanted, lifted)
    tables = horizon.Finite(count + 1, must_end=True).solve(question)
    start = next(v for v in range(5) if v not in eos and joint(hmm, (v,)) > 0)
    for state in range(3):
        found = values(question, (start,), tables.after(0), state=state)

        def both(text, state=state):
            return plain(text) * accepted(lifted, hmm, state, text)

        close(found, [expected(hmm, (start,), v, count, both) for v in range(5)])


@pytest.mark.parametrize("seed", range(6))
def test_automaton_without_bound(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    hmm, lifted = random_hmm(rng, 3, 5, eos=(4,)), random_lifted(rng, 4, 5, (4,))
    wanted = terms.constant(1.0, 5) if seed % 2 else ~terms.factorised(torch.from_numpy(-rng.exponential(1.0, 5)))
    question = asked(hmm, wanted, lifted)
    reference = lookahead.finite(question, 600, must_end=True)[-1:]
    close(horizon.UntilEnd().solve(question).after(0), reference)
    monkeypatch.setattr(horizon, "BLOCK", 1)
    np.testing.assert_allclose(horizon.UntilEnd().solve(question).after(0), reference, rtol=1e-9, atol=1e-12)
    budget = horizon.UntilEnd(total=5, near=9).solve(question)
    close(budget.after(2), lookahead.finite(question, 2, must_end=True)[-1:])
    budget = horizon.UntilEnd(total=50, near=3).solve(question)
    close(budget.after(2), reference)
    close(budget.after(46), lookahead.finite(question, 3, must_end=True)[-1:])


@pytest.mark.parametrize("sines", [0, 5])
@pytest.mark.usefixtures("grouped")
def test_average_over_a_class(sines):
    rng = np.random.default_rng(3)
    hmm = random_hmm(rng, 2, 5, eos=(4,))
    lifted = Lifted(
        torch.tensor([0, 0, 1, 1, 2]), torch.tensor([[0, 1, -1], [1, -1, -1]]), torch.tensor([False, True]), 2
    )
    weights = torch.from_numpy(-rng.exponential(1.0, 5))
    wanted = terms.logistic(weights, 0.5, reach=6.0, sines=sines) if sines else terms.factorised(weights)
    question = asked(hmm, wanted, lifted)
    after = horizon.Finite(4, must_end=True).solve(question).after(0)
    prior = after_texts(hmm, ((0,), (1, 2)))
    past = torch.zeros(2, question.shape[0], dtype=question.mass.dtype)
    state = torch.tensor([0, 1])
    ready, place = answers.answers(question, horizon.Ahead(after, None)), Place(prior, past, state, 0)
    found, likely = answers.value(ready, place, torch.arange(5).expand(2, -1))
    ratios = answers.average(ready, place)
    for k in range(3):
        members = (lifted.classes == k).nonzero()[:, 0]
        close(ratios[:, k], found[:, members].sum(1) / likely[:, members].sum(1))


def test_rows_of_a_batch_and_padding_change_nothing():
    rng = np.random.default_rng(4)
    hmm = random_hmm(rng, 3, 4)
    texts = ((), (1,), (3, 2, 0, 1, 1), (2, 2))
    together = after_texts(hmm, texts)
    for row, text in zip(together, texts, strict=True):
        close(row, after_texts(hmm, (text,))[0])
        first, transition, emission = enumerated.arrays(hmm)
        reference = np.zeros(3)
        for path in itertools.product(range(3), repeat=len(text) + 1):
            p = first[path[0]]
            for i, state in enumerate(path[:-1]):
                p *= emission[state, text[i]] * transition[state, path[i + 1]]
            reference[path[-1]] += p
        close(row, reference / reference.sum())
