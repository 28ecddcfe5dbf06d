"""What a specification costs over a vocabulary, before anything is generated."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ctrlgen.constraint import Constraint, Specification
    from ctrlgen.vocabulary import Vocabulary

MAX_BUILT = 100_000


class Cost(NamedTuple):
    """Sizes known without generating; ``None`` where a kind of constraint has no such thing."""

    nodes: int | None
    """Nodes of the network, parts that a text meets only later included, up to ``MAX_BUILT`` of them; for a grammar
    the states of its parser."""
    states: int | None
    """States of the automata that read bytes. Constraints over one vocabulary share theirs, and all are counted."""
    bytes: int | None
    """Memory of the network and its automata, before any text; rows come on top, within one bound for a vocabulary."""
    needed: int
    """``max_new_tokens`` that certainly suffices, the end token included: what a BudgetError asks for."""


def cost_of(specification: Specification, vocabulary: Vocabulary) -> Cost:
    """The cost of a specification, which is compiled for it.

    Raises:
        CtrlgenError: as ``compile``.
    """
    constraint = specification.compile(vocabulary)
    inner = getattr(constraint, "inner", constraint)  # of a vocabulary that lacks bytes, or with free text
    return Cost(*_sizes(inner), constraint.distance(constraint.start))


def _sizes(constraint: Constraint) -> tuple[int | None, int | None, int | None]:
    from ctrlgen.engine.cfg.machine import GrammarMachine
    from ctrlgen.engine.machine import Machine

    if isinstance(constraint, Machine):
        network = constraint.network
        with constraint.lock:
            network.build_all(MAX_BUILT)
            held = sum(array.nbytes for array in network.arrays) + network.lexicon.automata_bytes
            return network.size, len(network.lexicon.shortest), held
    if isinstance(constraint, GrammarMachine):
        store, automata = constraint.store, constraint.language.automata
        states = sum(len(automaton) for automaton in automata)
        return len(constraint.tables.accepts), states, store.nbytes
    return None, None, None
