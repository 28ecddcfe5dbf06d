"""What a model would say after fewer of its layers: the final norm and the head applied to hidden states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from ctrlgen.errors import InputError
from ctrlgen.steering.source import Reading, Source

if TYPE_CHECKING:
    Head = Callable[[torch.Tensor], torch.Tensor]


class Layers(Source):
    """A Source whose output are the hidden states of some layers after the last id: float32[B, L, H].

    It makes a forward pass of its own, so it follows beams, drafts and samples as every Source does.

    Args:
        model: the model that generates.
        layers: which, from 0 (the embeddings) to the last but one; or ``"low"`` or ``"high"``, every second one of
            that half, without the embeddings.
        head: from float[..., H] to logits [..., V]; by default the model's own final norm and head, which are looked
            for and checked against its logits.

    Raises:
        InputError: layers that it does not have; no norm and head explain its logits.
    """

    _extra: ClassVar[dict[str, Any]] = {"output_hidden_states": True}

    def __init__(self, model: Any, layers: Sequence[int] | str = "low", head: Head | None = None) -> None:
        super().__init__(model)
        count = int(model.config.get_text_config().num_hidden_layers)
        self.layers = _chosen(layers, count)
        self._head = _head_of(model) if head is None else head

    def log_ps(self, state: Reading, like: torch.Tensor) -> torch.Tensor:
        """float32[B, L, V] of each layer, normalised over the tokens that ``like`` allows, -inf elsewhere."""
        hidden = Reading(*state).output
        with torch.no_grad():
            logits = self._head(hidden.to(self.model.dtype)).float().to(like.device)
        width = like.shape[1]
        logits = torch.nn.functional.pad(logits, (0, width - logits.shape[2]), value=-torch.inf)
        return logits.masked_fill((like == -torch.inf)[:, None], -torch.inf).log_softmax(2)

    def _read_off(self, output: Any) -> torch.Tensor:
        states = output.hidden_states
        return torch.stack([states[i][:, -1] for i in self.layers], 1).float()


def _chosen(layers: Sequence[int] | str, count: int) -> tuple[int, ...]:
    if layers == "low":
        chosen = tuple(range(2, count // 2 + 1, 2)) or (1,)
    elif layers == "high":
        chosen = tuple(range(count // 2 + count // 2 % 2, count, 2)) or (count - 1,)
    elif isinstance(layers, str):
        raise InputError(f'layers is {layers!r}; expected "low", "high" or numbers of layers')
    else:
        chosen = tuple(layers)
    for one in chosen:
        if not isinstance(one, int) or not 0 <= one < count:
            raise InputError(f"the model has {count} layers: {one!r} is not one of 0 to {count - 1}")
    if not chosen:
        raise InputError("layers is empty; give at least one")
    return chosen


@torch.no_grad()
def _head_of(model: Any) -> Head:
    """Final norm, then head: the modules that make the logits of the model out of its last hidden state."""
    base, head = model.base_model, model.get_output_embeddings()
    if head is None:
        raise InputError("the model has no output embeddings; pass head=, from hidden states to logits")
    inputs: dict[str, torch.Tensor] = {}
    outputs: dict[str, torch.Tensor] = {}

    def watching(name: str) -> Callable[..., None]:
        def watch(module: Any, given: tuple[Any, ...], made: Any) -> None:
            if given and isinstance(given[0], torch.Tensor) and isinstance(made, torch.Tensor):
                inputs[name], outputs[name] = given[0], made

        return watch

    names = {name: one for name, one in base.named_children() if not isinstance(one, torch.nn.ModuleList)}
    handles = [one.register_forward_hook(watching(name)) for name, one in names.items()]
    try:
        probe = torch.tensor([[0, 1 % model.config.get_text_config().vocab_size]], device=model.device)
        output = model(input_ids=probe, output_hidden_states=True, return_dict=True)
    finally:
        for handle in handles:
            handle.remove()
    last = output.hidden_states[-1]
    found = [n for n, made in outputs.items() if torch.equal(made, last) and inputs[n].dtype.is_floating_point]
    if not found or not torch.allclose(head(last).float(), output.logits.float(), atol=1e-3, rtol=1e-3):
        raise InputError(
            "no final norm and head explain the logits of this model (they may be scaled or capped); pass head=, a "
            "function from hidden states to logits"
        )
    norm = names[found[-1]]
    return lambda hidden: head(norm(hidden))
