"""Batches that change every step, and masks applied in place."""

import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import ctrlgen as cg
from ctrlgen.serving.batch import Batch, Member, forbid
from ctrlgen.serving.row import Row
from ctrlgen.serving.slots import Slots
from tests.served import END, OTHER, VOCABULARY, allowed, compiler

VALUES = [{"choices": ["ab", "abc", "b"]}, {"regex": "[a-c]{2,5}"}, {"json_schema": {"type": "boolean"}}, None]


def member(made, value, ids):
    return None if value is None else Member(Row(made, made.begin(value), ends={END, OTHER}), ids)


def expected_row(value, ids):
    """What may come, from a constraint of its own; None for anything."""
    if value is None:
        return None
    from ctrlgen.serving.specification import read_request

    constraint = read_request(value, compiler().registry).constraint.compile(VOCABULARY)
    state = constraint.start
    for token in ids:
        state = constraint.advance(state, token)
    return allowed(constraint.mask(state))


def test_rows_stay_with_their_requests_through_any_changes():
    """Against a batch that keeps requests in a dictionary of its own; both kinds of moves."""
    draw, made = random.Random(1), compiler()
    batch, model = Batch(), {}
    for _ in range(150):
        removed = [n for n in model if draw.random() < 0.15]
        for number in removed:
            del model[number]
        added = []
        for number in range(6):
            if draw.random() < 0.25:  # a new request may replace one without its being removed
                value, ids = draw.choice(VALUES), []
                model[number] = (value, ids)
                added.append((number, member(made, value, ids)))
        moved = []
        for _ in range(draw.choice([0, 0, 1, 2])):
            first, second = draw.sample(range(6), 2)
            swap = draw.random() < 0.5
            if not swap and first not in model:
                continue
            moved.append((first, second, swap))
            one, other = model.pop(first, None), model.pop(second, None)
            model.update({second: one} if one else {})
            model.update({first: other} if swap and other else {})
        batch.update(removed, added, moved)
        logits = torch.randn(6, VOCABULARY.width)
        before = logits.clone()
        batch.apply(logits)
        for number in range(6):
            value, ids = model.get(number, (None, []))
            kept = expected_row(value, ids)
            if kept is None:
                assert torch.equal(logits[number], before[number])
                continue
            mask = torch.tensor([token in kept for token in range(VOCABULARY.width)])
            assert torch.equal(logits[number], before[number].masked_fill(~mask, -torch.inf))
            ids.append(draw.choice(sorted(kept)))
            if ids[-1] in (END, OTHER):
                del model[number]
                batch.update([number], [], [])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_forbid_writes_in_place_whatever_the_layout(dtype):
    rows = np.random.default_rng(0).integers(0, 2**32, (3, 5), np.uint32)
    for width in (150, 160, 170):
        whole = torch.randn(4, 2 * width, dtype=dtype)
        for logits in (whole[:, :width], whole[:, ::2]):
            before = logits.clone()
            forbid(logits, [(2, rows[0]), (0, rows[1])])
            for number, row in ((2, rows[0]), (0, rows[1])):
                bits = np.unpackbits(row.view(np.uint8), bitorder="little")[:width]
                mask = torch.zeros(width, dtype=torch.bool)
                mask[: len(bits)] = torch.from_numpy(bits).bool()
                assert torch.equal(logits[number], before[number].masked_fill(~mask, -torch.inf))
            assert torch.equal(logits[[1, 3]], before[[1, 3]])


def test_a_row_that_others_left_nothing_ends_and_no_other_notices(caplog):
    made, batch = compiler(), Batch()
    batch.update([], [(n, member(made, {"choices": ["ab"]}, [])) for n in range(2)], [])
    logits = torch.zeros(2, VOCABULARY.width)
    logits[0, [97, 256]] = -torch.inf
    batch.apply(logits)
    assert torch.isfinite(logits[0]).nonzero()[:, 0].tolist() == [END, OTHER]
    assert torch.isfinite(logits[1]).nonzero()[:, 0].tolist() == [97, 256]
    assert isinstance(batch.members[0].row.fault, cg.InputError)


def test_an_unexpected_error_in_one_row_leaves_the_others_alone(caplog):
    class Broken:
        def compile(self, vocabulary):
            raise ZeroDivisionError

        def parse(self, text):
            return text

    made, batch = compiler(constraints={"broken": Broken()}), Batch()
    values = [{"constraint": "broken"}, {"choices": ["ab"]}]
    batch.update([], [(n, member(made, value, [])) for n, value in enumerate(values)], [])
    logits = torch.zeros(2, VOCABULARY.width)
    batch.apply(logits)
    assert torch.isfinite(logits[0]).nonzero()[:, 0].tolist() == [END, OTHER]
    assert torch.isfinite(logits[1]).nonzero()[:, 0].tolist() == [97, 256]


class States:
    """Slots as the V2 runner has them."""

    def __init__(self, slots, length):
        self.all_token_ids = SimpleNamespace(gpu=torch.zeros(slots, length, dtype=torch.int32))
        self.total_len = SimpleNamespace(gpu=torch.zeros(slots, dtype=torch.int32))
        self.prompt_len = SimpleNamespace(np=np.zeros(slots, np.int32))

    def put(self, slot, prompt, ids):
        self.prompt_len.np[slot] = len(prompt)
        self.total_len.gpu[slot] = len(prompt) + len(ids)
        self.all_token_ids.gpu[slot, : len(prompt) + len(ids)] = torch.tensor([*prompt, *ids], dtype=torch.int32)


def context(slots, expanded=None, places=None, tokens=None):
    return SimpleNamespace(
        idx_mapping_np=np.array(slots, np.int32),
        expanded_idx_mapping=torch.tensor(expanded or slots),
        expanded_local_pos=torch.tensor(places or [0] * len(slots)),
        input_ids=torch.tensor(tokens or [0] * len(slots)),
    )


def test_slots_are_followed_in_any_order_and_used_again():
    draw, made, states = random.Random(2), compiler(), States(5, 40)
    slots, model = Slots(states), {}
    for _ in range(200):
        for slot in range(5):
            if slot not in model or draw.random() < 0.05:
                value = draw.choice(VALUES)
                ids = []
                if value and draw.random() < 0.3:  # resumed after preemption, with what it had
                    ids = [draw.choice(sorted(expected_row(value, []) - {END, OTHER}))]
                model[slot] = (value, [65] * draw.choice([1, 3]), ids)
                states.put(slot, *model[slot][1:])
                row = None if value is None else Row(made, made.begin(value), ends={END, OTHER})
                assert slots.add(slot, row) is (value is not None)
        order = draw.sample(range(5), draw.choice([3, 5]))
        logits = torch.zeros(len(order), VOCABULARY.width)
        slots.apply(logits, context(order))
        for number, slot in enumerate(order):
            value, prompt, ids = model[slot]
            kept = expected_row(value, ids) or set(range(VOCABULARY.width))
            assert set(torch.isfinite(logits[number]).nonzero()[:, 0].tolist()) == kept
            if value is not None:
                ids.append(draw.choice(sorted(kept)))
                states.put(slot, prompt, ids)
            if value is not None and ids[-1] in (END, OTHER):
                del model[slot]


def test_drafts_have_a_row_each_and_may_be_rejected():
    made, states = compiler(), States(2, 40)
    slots = Slots(states)
    value = {"regex": "(ab)+c"}
    states.put(1, [65], [])
    states.put(0, [65, 66], [])
    slots.add(1, Row(made, made.begin(value), ends={END}))
    slots.add(0, None)

    def step(drafts):
        logits = torch.zeros(2 + len(drafts), VOCABULARY.width)
        last = 0
        count = len(drafts) + 1
        slots.apply(logits, context([1, 0], [1] * count + [0], [*range(count), 0], [last, *drafts, 0]))
        assert bool(torch.isfinite(logits[-1]).all())
        return [set(torch.isfinite(row).nonzero()[:, 0].tolist()) for row in logits[:-1]]

    assert step([97, 98]) == [{97, 256}, {98}, {97, 99, 256}]
    states.put(1, [65], [97, 98, 99])  # both drafts taken, and one more
    assert step([END]) == [{END}, {END}]
    states.put(1, [65], [256])  # as if all were taken back
    assert step([120, 97]) == [{97, 99, 256}, {END}, {END}]
    states.put(1, [65], [256, 97])
    assert step([]) == [{98}]
