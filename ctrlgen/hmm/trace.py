"""TRACE: more of an attribute, by what a hidden Markov model expects of all that may follow (arXiv 2504.18535)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ctrlgen.errors import InputError
from ctrlgen.hmm import guided
from ctrlgen.hmm.attribute import Wanted
from ctrlgen.hmm.guided import TOP, Followed, Guided
from ctrlgen.hmm.horizon import Finite, Stationary, UntilEnd, Window
from ctrlgen.hmm.lifted import anything
from ctrlgen.hmm.model import HMM
from ctrlgen.steering.sourced import number

if TYPE_CHECKING:
    from ctrlgen.hmm.answers import Answers
    from ctrlgen.hmm.horizon import Horizon
    from ctrlgen.steering.protocol import Moment, Prompts

AHEAD = 20
"""Tokens to come that are looked at, if nothing is said."""

_LEAST = 1e-12  # beside what all tokens share, nothing is taken for less likely: the HMM never forbids a token


class Trace(Guided):
    """Prefer tokens after which the text is likely to have an attribute.

    p(v) is in proportion to p_LM(v) e(v) ** a, with e(v) the probability of the attribute, expected over all futures of
    the HMM, if v comes next. TRACE has sigmoid(a logit e(v)) instead (``form="logit"``; the same for a = 1), which for
    large a is about 1 for every token as soon as e is above a half, so that nothing is steered any more. The tokens of
    the prompt say where the HMM is, and are not part of the text that is judged.

    Args:
        hmm: of texts of the same tokens as the model's.
        attribute: an Attribute, or several composed by ``&``, ``|`` and ``~``.
        a: strength; 0 changes nothing.
        form: "power" or "logit".
        tokens: of the whole text; short for ``horizon=Finite(tokens)``.
        horizon: how much is to come: see ``ctrlgen.hmm.horizon``. By default the next 20 tokens, always.
        top: how many of the likeliest tokens are looked at one by one; the others have the average of all. None looks
            at all.
        endless: look ahead as if end tokens ended nothing. A factorised attribute speaks against tokens only, so the
            less there is of a text the better it looks, and large ``a`` make texts short; this takes that away.

    Raises:
        InputError: arguments that do not fit together; a logistic attribute without a length or a reach.
    """

    name = "Trace"

    def __init__(
        self,
        hmm: HMM,
        attribute: Wanted,
        *,
        a: float = 1.0,
        form: str = "power",
        tokens: int | None = None,
        horizon: Horizon | None = None,
        top: int | None = TOP,
        endless: bool = False,
    ) -> None:
        if not isinstance(hmm, HMM) or not isinstance(attribute, Wanted):
            raise InputError(f"Trace({hmm!r}, {attribute!r}): expected an HMM and an Attribute")
        if tokens is not None and horizon is not None:
            raise InputError("tokens= is short for horizon=Finite(tokens): give one of them")
        if form not in ("power", "logit") or (form == "logit" and isinstance(horizon, Stationary)):
            raise InputError(
                f"form is {form!r}; expected 'power' or, but for the stationary horizon, which knows no probabilities, "
                "'logit'"
            )
        if endless and isinstance(horizon, UntilEnd):
            raise InputError("endless=True takes texts for going on: give a length or a window, not UntilEnd")
        super().__init__(HMM(hmm.start, hmm.transition, hmm.emission, (), hmm.card) if endless else hmm, top)
        self.attribute, self.form = attribute, form
        self.a = number("a", a, least=0)
        if horizon is None:
            horizon = Window(AHEAD) if tokens is None else Finite(tokens)
        self.horizon: Horizon = horizon
        total = getattr(self.horizon, "total", None)
        # past the end of what was announced one more token is looked at
        self._terms = attribute.terms(None if total is None else total + 1)
        self._guide(hmm.device)  # what cannot be asked is said at once

    def init(self, prompts: Prompts) -> tuple[Any, ...]:
        """Where the prompts leave the HMM."""
        return tuple(guided.begin(self._guide(prompts.device), prompts))

    def delta(self, state: tuple[Any, ...], moment: Moment) -> torch.Tensor:
        """a log e(v), or log sigmoid(a logit e(v)), less what is the same for all tokens of a row."""
        expected = guided.expected(self._guide(moment.log_p.device), Followed(*state), moment, self.top)

        def worth(e: torch.Tensor) -> torch.Tensor:
            log_e = e.clamp(min=_LEAST).log()
            return self.a * log_e if self.form == "power" else tempered((log_e + expected.shared).double(), self.a)

        return expected.spread(worth)

    def _made(self, hmm: HMM) -> Answers:
        return guided.guide(hmm, self._terms, anything(hmm.width, hmm.eos), self.horizon)


def tempered(log_e: torch.Tensor, a: float) -> torch.Tensor:
    """float64: log sigmoid(a logit e), which is log e for a = 1."""
    log_e = log_e.clamp(max=-_LEAST)
    return torch.nn.functional.logsigmoid(a * (log_e - (-log_e.expm1()).log()))
