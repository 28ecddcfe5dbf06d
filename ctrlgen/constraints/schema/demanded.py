"""Objects of which something is wanted that only known members can fulfil: one plan for each member that does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ctrlgen.errors import ComplexityError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlgen.constraints.schema.facts import Goal
    from ctrlgen.constraints.schema.plans import ObjectPlan, Slot

MAX_PLANS = 1_000
"""Most plans that one object becomes."""


def told_out(plan: ObjectPlan, shortest: Callable[[Goal], int]) -> list[ObjectPlan]:
    """The plans of an object in which every bit that is wanted can be fulfilled by members with other names.

    Args:
        plan: the object.
        shortest: bytes of a short text of a goal.

    Raises:
        ComplexityError: they are too many.
    """
    plans = [plan]
    for bit in _only_known(plan):
        plans = [one for several in plans for one in _by_member(several, bit, shortest)]
        if len(plans) > MAX_PLANS:
            raise ComplexityError(
                f"an object becomes more than {MAX_PLANS} alternatives (a fixed limit), by which members break what "
                "is negated; negate schemas with fewer properties"
            )
    return plans


def _only_known(plan: ObjectPlan) -> list[int]:
    """The bits that are wanted and that no class of other names fulfils."""
    wanted = plan.wanted
    for other in plan.others:
        for _, flags in other.ways:
            wanted &= ~flags
    return [1 << i for i in range(wanted.bit_length()) if wanted >> i & 1]


def _by_member(plan: ObjectPlan, bit: int, shortest: Callable[[Goal], int]) -> list[ObjectPlan]:
    """A plan for each slot that can fulfil ``bit``, in which it does; others may too."""
    found = []
    for i, slot in enumerate(plan.slots):
        ways = tuple([(goal, flags) for goal, flags in slot.ways if flags & bit])
        if not ways:
            continue
        needed = {i, *slot.implies}
        slots = [s._replace(required=s.required or j in needed) for j, s in enumerate(plan.slots)]
        slots[i] = slots[i]._replace(ways=ways)
        if any(s.required and not s.ways for s in slots):
            continue
        if plan.most is not None and sum(s.required for s in slots) > plan.most:
            continue
        added = sum(_cost(plan.slots[j], shortest) for j in needed) + max(shortest(goal) for goal, _ in ways)
        cleared = tuple([_without(s, bit) for s in slots])
        found.append(replace(plan, slots=cleared, wanted=plan.wanted & ~bit, cost=plan.cost + added))
    return found


def _without(slot: Slot, bit: int) -> Slot:
    return slot._replace(ways=tuple(dict.fromkeys([(goal, flags & ~bit) for goal, flags in slot.ways])))


def _cost(slot: Slot, shortest: Callable[[Goal], int]) -> int:
    return 6 * len(slot.name) + 4 + max([shortest(goal) for goal, _ in slot.ways], default=0)
