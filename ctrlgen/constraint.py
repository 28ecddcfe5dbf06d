"""The one abstraction: a constraint is an automaton over tokens whose states are small ints.

The laws (``ctrlgen.testing.check_laws`` checks them on any constraint):

1. mask(s) = {t : advance(s, t) != DEAD};
2. an EOS id is in mask(s) exactly if accepts(s);
3. a reachable state never has an empty mask;
4. advance is a pure function: the same arguments give the same state, for ever;
5. a token is allowed exactly if its bytes are, however the tokenizer cuts them; control tokens are not their text;
   ids without bytes or past the tokenizer's end are forbidden;
6. while distance(s) <= n, some allowed t has 1 + distance(advance(s, t)) <= n; or s is in free text that waits for the
   end token, and distance(leave(s)) <= n (``ctrlgen.constraints.free``).

After an EOS id a constraint is in a state that allows the EOS ids and nothing else. One with ``may_be_cut = True``
watches free text: its texts are whole wherever they may end, also without an end token (``ctrlgen.closing``).
Since a state is an int, rollback, beams, n samples, drafts and reuse need no code of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ctrlgen.vocabulary import Vocabulary

DEAD = -1
"""The state after a refused token."""


@runtime_checkable
class Constraint(Protocol):
    """A compiled constraint: what may come next, for any state."""

    vocabulary: Vocabulary
    start: int

    def advance(self, state: int, token: int) -> int:
        """The state after ``token``, or DEAD when it is refused."""
        ...

    def mask(self, state: int) -> NDArray[np.uint32]:
        """uint32[ceil(V / 32)], read-only; bit t % 32 of word t // 32 is set if token t is allowed."""
        ...

    def accepts(self, state: int) -> bool:
        """Whether the text may end here."""
        ...

    def distance(self, state: int) -> int:
        """Number of tokens, EOS included, that is certain to suffice to end legally from here."""
        ...


@runtime_checkable
class Specification(Protocol):
    """What a user writes: a small, immutable, picklable value that compiles to a Constraint."""

    def compile(self, vocabulary: Vocabulary) -> Constraint:
        """The constraint over ``vocabulary``; cached by (specification, vocabulary fingerprint)."""
        ...

    def parse(self, text: str) -> object:
        """The value of a text that satisfies the constraint (the text itself, a JSON value, a model ...)."""
        ...
