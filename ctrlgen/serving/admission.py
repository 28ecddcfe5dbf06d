"""Which requests a vLLM server takes: checked where they come in, so that none fails later that could fail now."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctrlgen.closing import check_budget
from ctrlgen.errors import BudgetError, InputError, RequestError
from ctrlgen.serving.compiling import Compiler
from ctrlgen.serving.registry import Registry
from ctrlgen.serving.specification import read_request
from ctrlgen.warming import run_every_kernel

if TYPE_CHECKING:
    import torch

    from ctrlgen.constraint import Constraint
    from ctrlgen.vocabulary import Vocabulary

ARGUMENT = "ctrlgen"
"""What the specification is called among the extra arguments of a request."""
VARIABLE = "CTRLGEN_SERVING"
"""The environment variable that names the operator's file."""

_CLASHES = (
    ("min_tokens", lambda value: value, "forbids the end token where the text must end"),
    ("ignore_eos", lambda value: value, "goes on after the end of the text"),
    ("stop", lambda value: value, "cuts the text off; let the constraint say where it ends"),
    ("bad_words", lambda value: value, "may forbid all that the constraint allows; let the constraint forbid them"),
    ("allowed_token_ids", lambda value: value, "may forbid all that the constraint allows"),
    ("structured_outputs", lambda value: value is not None, "is another constraint; give one of the two"),
    ("thinking_token_budget", lambda value: value is not None, 'forces tokens; use {"thinking": ..., "max_tokens": n}'),
    ("repetition_detection", lambda value: value is not None, "cuts the text off"),
)
"""Sampling parameters that cannot be kept together with a constraint, whether they are set, and why."""


class Admission:
    """The requests of one process: those of a server's front end, and of an engine within the same process.

    Args:
        registry: what names mean, and limits.
    """

    _process: Admission | None = None
    _lock = threading.Lock()

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._compiler: Compiler | None = None
        self._own = threading.Lock()

    @classmethod
    def of_process(cls) -> Admission:
        """The one of this process, with the file that CTRLGEN_SERVING names.

        Raises:
            InputError: the file cannot be read.
        """
        with cls._lock:
            if cls._process is None:
                path = os.environ.get(VARIABLE)
                cls._process = cls(Registry() if not path else Registry.from_toml(path))
            return cls._process

    def use(self, vocabulary: Vocabulary, device: torch.device | str) -> Compiler:
        """The compiler of an engine in this process, which requests are then checked with."""
        with self._own:
            self._compiler = Compiler(vocabulary, self.registry, device)
            return self._compiler

    def check(self, sampling_params: Any) -> None:
        """Raise unless a request can be done, as far as can be told here.

        Args:
            sampling_params: as vLLM has them, before its own defaults are filled in.

        Raises:
            RequestError: it cannot be done.
            BudgetError: it asks for fewer tokens than a text takes.
            CtrlgenError: the constraint cannot be compiled for the model's vocabulary.
        """
        asked = (sampling_params.extra_args or {}).get(ARGUMENT)
        if asked is None:
            return
        compiler = self.compiler()
        if compiler is None:
            requested = read_request(asked, self.registry)
            bound = requested.constraint is not None
        else:
            compiled = compiler.finish(compiler.begin(asked), self.registry.limits.seconds)
            constraint = compiled.constraint
            bound = constraint is not None
            if constraint is not None and compiled.in_time and sampling_params.max_tokens is not None:
                _check_budget(constraint, sampling_params.max_tokens)
        if bound:
            self._refuse_clashes(sampling_params)

    def compiler(self) -> Compiler | None:
        """The engine's, or one for the registry's model; None if neither is here."""
        with self._own:
            if self._compiler is None and self.registry.model is not None:
                run_every_kernel()
                self._compiler = Compiler(_vocabulary(self.registry.model), self.registry)
            return self._compiler

    def _refuse_clashes(self, sampling_params: Any) -> None:
        for name, is_set, why in _CLASHES:
            value = getattr(sampling_params, name, None)
            if is_set(value):
                raise RequestError(f"{name}={value!r} does not go with a constraint: it {why}")
        stops = sampling_params.stop_token_ids
        ends = () if self._compiler is None else self._compiler.vocabulary.eos
        if self._compiler is not None and not set(stops or ()) <= set(ends):
            raise RequestError(
                f"stop_token_ids={stops!r} does not go with a constraint: only end tokens may stop it, {list(ends)}"
            )


def _check_budget(constraint: Constraint, most: int) -> None:
    try:
        check_budget([constraint], [constraint.start], most)
    except BudgetError as error:
        raise BudgetError(needed=error.needed, given=error.given, option="max_tokens") from None


def _vocabulary(model: str) -> Vocabulary:
    """Of a folder with a tokenizer, as wide as its model."""
    import json

    from ctrlgen.vocabulary import Vocabulary

    config = Path(model) / "config.json"
    if not config.is_file():
        raise InputError(f"{model} has no config.json; model must be the folder that is served")
    facts = json.loads(config.read_text(encoding="utf-8"))
    return Vocabulary.from_tokenizer(model, width=facts.get("vocab_size"))
