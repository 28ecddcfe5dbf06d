"""Deco-G and Ctrl-G: prefer tokens from which a constraint is likely to be met (arXiv 2510.03595, 2406.13892)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ctrlgen.constraint import Constraint
from ctrlgen.errors import InputError
from ctrlgen.hmm import guided
from ctrlgen.hmm.attribute import Wanted
from ctrlgen.hmm.guided import TOP, Followed, Guided
from ctrlgen.hmm.horizon import UntilEnd
from ctrlgen.hmm.lifted import Lifted, lift
from ctrlgen.hmm.model import HMM
from ctrlgen.hmm.pruning import Pruned, pruned
from ctrlgen.hmm.terms import constant
from ctrlgen.steering.sourced import number

if TYPE_CHECKING:
    from ctrlgen.constraint import Specification
    from ctrlgen.hmm.answers import Answers
    from ctrlgen.hmm.horizon import Horizon
    from ctrlgen.steering.protocol import Moment, Prompts
    from ctrlgen.vocabulary import Vocabulary

_LEAST = 1e-12  # beside the best token: the HMM never forbids one


class DecoG(Guided):
    """Prefer tokens from which a text that meets a constraint, and ends, is likely to follow.

    p(v) is in proportion to p_LM(v) e(v) ** a, e(v) the probability that the HMM gives to all texts which go on with v,
    meet the constraint and end (Ctrl-G, equation 3; Deco-G, equation 5), or, with an attribute, that these also have
    it, jointly and exactly. Pass the same constraint to ``generate`` as well: the mask guarantees it, this makes it
    come naturally. Without the mask the constraint is likely to be met, and no more.

    Args:
        hmm: of texts of the same tokens as the model's, with end tokens.
        constraint: one with few states, such as a Regex, Choice, Template or token trie; compiled or not.
        a: strength; 1 is what the papers do, 0 changes nothing.
        attribute: what is wanted beside.
        tokens: budget of the whole text, the end token included: what does not end in time counts as failed. The
            last 64 tokens of a budget have a table each, those before share the limit.
        horizon: instead of ``tokens``: see ``ctrlgen.hmm.horizon``.
        keep: share of the mass of futures that pruning of states must keep; 1 prunes none. ``report`` says what was
            kept.
        top: how many of the likeliest tokens are looked at one by one; others have the average of their class. None
            looks at all.

    Raises:
        InputError: arguments that do not fit together.
        ComplexityError: at the first prompt, where the constraint has too many states.
    """

    name = "DecoG"

    def __init__(
        self,
        hmm: HMM,
        constraint: Specification | Constraint,
        *,
        a: float = 1.0,
        attribute: Wanted | None = None,
        tokens: int | None = None,
        horizon: Horizon | None = None,
        keep: float = 1.0,
        top: int | None = TOP,
    ) -> None:
        if not isinstance(hmm, HMM):
            raise InputError(f"DecoG({hmm!r}, ...): expected an HMM")
        if not (isinstance(constraint, Constraint) or hasattr(constraint, "compile")):
            raise InputError(f"DecoG(..., {constraint!r}): expected a constraint")
        if tokens is not None and horizon is not None:
            raise InputError("tokens= is short for horizon=UntilEnd(tokens): give one of them")
        super().__init__(hmm, top)
        self.constraint = constraint
        self.a, self.keep = number("a", a, least=0), number("keep", keep, least=0, most=1)
        self.horizon: Horizon = UntilEnd(tokens) if horizon is None else horizon
        total = getattr(self.horizon, "total", None)
        nothing = constant(1.0, hmm.width)
        self._terms = nothing if attribute is None else attribute.terms(None if total is None else total + 1)
        self._lifted: Lifted | None = None
        self._vocabulary: Vocabulary | None = None
        self.report: Pruned | None = None
        """What pruning kept; None before the first prompt, or if there is no pruning."""
        if isinstance(constraint, Constraint):
            self._take(constraint)

    def init(self, prompts: Prompts) -> tuple[Any, ...]:
        """Where the prompts leave the HMM; at the first prompt the tables are made."""
        with self._lock:
            self._know(prompts.vocabulary)
        return tuple(guided.begin(self._guide(prompts.device), prompts))

    def delta(self, state: tuple[Any, ...], moment: Moment) -> torch.Tensor:
        """a log e(v); 0 for rows of which the constraint has refused a token."""
        rows = Followed(*state)
        expected = guided.expected(self._guide(moment.log_p.device), rows, moment, self.top)
        goes_on = (rows.state >= 0)[:, None]
        return expected.spread(lambda e: self.a * e.clamp(min=_LEAST).log() * goes_on)

    def _know(self, vocabulary: Vocabulary | None) -> None:
        """Compile for the first vocabulary there is."""
        if vocabulary is None:
            if self._lifted is None:
                raise InputError("DecoG does not know what the tokens mean: pass a tokenizer, or a compiled constraint")
            return
        if self._lifted is None:
            self._take(self.constraint.compile(vocabulary))  # type: ignore[union-attr]
        if self._vocabulary is None or self._vocabulary.fingerprint != vocabulary.fingerprint:
            raise InputError("this DecoG is for texts of another tokenizer: make one for each")

    def _take(self, constraint: Constraint) -> None:
        lifted, _ = lift(constraint, self.hmm.width)
        if set(constraint.vocabulary.eos) - set(self.hmm.eos):
            raise InputError(
                f"texts of the constraint end with {list(constraint.vocabulary.eos)}, those of the HMM with "
                f"{list(self.hmm.eos)}: fit it with these end tokens"
            )
        if self.keep < 1:
            lifted, self.report = pruned(self.hmm, lifted, self.keep)
        self._vocabulary, self._lifted = constraint.vocabulary, lifted

    def _made(self, hmm: HMM) -> Answers:
        assert self._lifted is not None
        return guided.guide(hmm, self._terms, self._lifted, self.horizon)
