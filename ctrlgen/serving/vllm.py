"""ctrlgen in vLLM: one logits processor for both of its model runners.

    vllm serve MODEL --logits-processors ctrlgen.serving.vllm:Control
    LLM(MODEL, logits_processors=["ctrlgen.serving.vllm:Control"])

    SamplingParams(max_tokens=200, extra_args={"ctrlgen": {"json_schema": {...}}})
    {"model": ..., "vllm_xargs": {"ctrlgen": "{\\"json_schema\\": {...}}"}}                  over HTTP, as JSON text

``ctrlgen.serving.specification`` says what a request may ask for. What requests may name is in the file that the
environment variable CTRLGEN_SERVING names (``ctrlgen.serving.registry``); its ``model`` lets the server compile each
constraint, and check its budget, before the request is admitted. A request that cannot be done is refused (HTTP 400).

``Control`` is made when it is first asked for, so that this module can be imported where there is no vLLM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlgen.errors import CtrlgenError, InputError
from ctrlgen.serving.admission import ARGUMENT, Admission
from ctrlgen.serving.batch import Batch, Member
from ctrlgen.serving.row import Row
from ctrlgen.serving.slots import Slots

if TYPE_CHECKING:
    import torch


class _Control:
    """What the class has beside the interfaces of vLLM.

    Args:
        vllm_config: of the engine.
        where: the device of the logits in the V1 runner; the states of requests in the V2 runner.
        is_pin_memory: given by the V1 runner only.
    """

    def __init__(self, vllm_config: Any, where: Any, is_pin_memory: bool | None = None) -> None:
        from ctrlgen.warming import run_every_kernel

        run_every_kernel()
        device = where if is_pin_memory is not None else where.device
        self._longest = int(vllm_config.model_config.max_model_len)
        self._compiler = Admission.of_process().use(_vocabulary(vllm_config.model_config), device)
        self._batch = Batch()
        self._slots = None if is_pin_memory is not None else Slots(where)

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Raise ValueError, which vLLM answers with HTTP 400, unless the request can be done."""
        try:
            Admission.of_process().check(sampling_params)
        except CtrlgenError as error:
            raise ValueError(f"{ARGUMENT}: {error}") from error

    def _row(self, sampling_params: Any, prompt: Any, prompt_length: int) -> Row | None:
        asked = (sampling_params.extra_args or {}).get(ARGUMENT)
        if asked is None:
            return None
        ends = {getattr(sampling_params, "eos_token_id", None), *(sampling_params.stop_token_ids or ())}
        room = self._longest - prompt_length
        budget = room if sampling_params.max_tokens is None else min(room, sampling_params.max_tokens)
        return Row(self._compiler, self._compiler.begin(asked), ends=ends, budget=budget, prompt=prompt)

    # the V1 runner

    def is_argmax_invariant(self) -> bool:
        """No: the likeliest token may be forbidden."""
        return False

    def update_state(self, batch_update: Any) -> None:
        """Take note of what changed in the batch; compiling begins here, while the model computes."""
        if batch_update is None:
            return
        added = [
            (number, None if (row := self._row(params, prompt, len(prompt or ()))) is None else Member(row, ids))
            for number, params, prompt, ids in batch_update.added
        ]
        moved = [(first, second, way.name == "SWAP") for first, second, way in batch_update.moved]
        self._batch.update(batch_update.removed, added, moved)

    # both

    def apply(self, logits: torch.Tensor, ctx: Any = None) -> torch.Tensor:
        """Mask and steer the rows of the batch, in place."""
        if self._slots is None:
            self._batch.apply(logits)
        else:
            self._slots.apply(logits, ctx)
        return logits

    # the V2 runner

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """A request enters a slot; whether it has a constraint."""
        assert self._slots is not None
        return self._slots.add(req_idx, self._row(sampling_params, None, self._slots.prompt_length(req_idx)))


def _vocabulary(model_config: Any) -> Any:
    """Of the engine's tokenizer, with all ids at which it may end."""
    from vllm.tokenizers import cached_tokenizer_from_config

    from ctrlgen.vocabulary import Vocabulary

    tokenizer = cached_tokenizer_from_config(model_config)
    if tokenizer is None:
        raise InputError("ctrlgen needs the tokenizer: start vLLM without --skip-tokenizer-init")
    more = (model_config.try_get_generation_config() or {}).get("eos_token_id")
    ends = {getattr(tokenizer, "eos_token_id", None), *(more if isinstance(more, list) else [more])} - {None}
    return Vocabulary.from_tokenizer(tokenizer, eos=sorted(ends) or None, width=model_config.get_vocab_size())


def _bases() -> tuple[type, ...]:
    """The interfaces that this vLLM has."""
    from vllm.v1.sample.logits_processor import LogitsProcessor as First

    try:
        from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor as Second
    except ImportError:  # before 0.31
        return (First,)
    return First, Second


def __getattr__(name: str) -> Any:
    if name != "Control":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = type(name, (_Control, *_bases()), {"__module__": __name__, "__doc__": "ctrlgen's logits processor."})
    globals()[name] = made
    return made
