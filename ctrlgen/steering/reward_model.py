"""Reward models: the first layers of a causal model with a value after each token, learnt from labelled texts."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoConfig, AutoModel

from ctrlgen.errors import InputError, ModelError
from ctrlgen.steering.sourced import number, whole
from ctrlgen.tensors import read, write

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

KIND = "reward model"
_CACHES = ("cache", "past_key_values")


class Scorer(torch.nn.Module):
    """A causal model whose ``logits`` [B, n, D] are values of the text up to each token.

    Args:
        backbone: the part of a model of transformers that gives hidden states.
        outputs: D.
        card: how it was made.
    """

    def __init__(self, backbone: Any, outputs: int = 1, card: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.backbone, self.config, self.card = backbone, backbone.config, dict(card or {})
        self.head = torch.nn.Linear(self.config.hidden_size, outputs)
        known = inspect.signature(backbone.forward).parameters
        self._cache_name = next((name for name in _CACHES if name in known), _CACHES[-1])

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return self.head.weight.device

    def get_input_embeddings(self) -> Any:
        """As in any model of transformers."""
        return self.backbone.get_input_embeddings()

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        logits_to_keep: int = 0,
    ) -> Any:
        """``logits`` float[B, n, D] of the last ``logits_to_keep`` ids, 0 for all."""
        inputs = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "position_ids": position_ids,
            self._cache_name: past_key_values,
            "use_cache": use_cache,
        }
        given = {name: one for name, one in inputs.items() if one is not None}
        hidden = self.backbone(**given).last_hidden_state
        values = self.head(hidden[:, -logits_to_keep:] if logits_to_keep else hidden)
        return SimpleNamespace(logits=values)

    def save(self, path: str | Path) -> None:
        """Write one safetensors file, whole or not at all."""
        facts = {"config": self.config.to_dict(), "outputs": self.head.out_features, "card": self.card}
        write(path, KIND, self.state_dict(), facts)

    @classmethod
    def load(cls, path: str | Path) -> Scorer:
        """Read what ``save`` or ``ctrlgen reward fit`` wrote; in eval mode.

        Raises:
            ModelError: the file is missing, not intact, or something else.
        """
        tensors, facts = read(path, KIND)
        try:
            config = AutoConfig.for_model(**facts["config"])
            made = cls(AutoModel.from_config(config), int(facts["outputs"]), facts["card"])
            made.load_state_dict(tensors)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ModelError(f"{path} does not hold a reward model: {error}") from error
        return made.to(tensors["head.weight"].dtype).eval()


def cut_off(model: Any, layers: int) -> Any:
    """A copy of the first layers of a causal model, without its head.

    Raises:
        InputError: it has not so many, or keeps them in an unknown place.
    """
    base = model.base_model
    name = _place(base)
    if not isinstance(layers, int) or not 1 <= layers <= len(getattr(base, name)):
        raise InputError(f"layers is {layers!r}; expected a number from 1 to {len(getattr(base, name))}")
    whole = getattr(base, name)
    try:
        setattr(base, name, torch.nn.ModuleList(list(whole)[:layers]))  # so that only these are copied
        copied = copy.deepcopy(base)
    finally:
        setattr(base, name, whole)
    copied.config.num_hidden_layers = layers
    if getattr(copied.config, "layer_types", None):
        copied.config.layer_types = copied.config.layer_types[:layers]
    return copied


def _place(base: Any) -> str:
    """Where a model keeps its layers."""
    for name in ("layers", "h"):
        if isinstance(getattr(base, name, None), torch.nn.ModuleList):
            return name
    raise InputError("the layers of this model are not found; expected a list of them as .layers or .h")


def _freeze(backbone: Any, layers: int, tuned: int) -> None:
    """Only the last ``tuned`` layers learn."""
    if not isinstance(tuned, int) or isinstance(tuned, bool) or not 0 <= tuned <= layers:
        raise InputError(f"tuned is {tuned!r}; expected a number of layers from 0 to {layers}, or None")
    backbone.requires_grad_(False)
    for layer in getattr(backbone, _place(backbone))[layers - tuned :]:
        layer.requires_grad_(True)


def fit_reward(
    model: Any,
    texts: Sequence[Sequence[int]],
    labels: Sequence[Sequence[float]],
    *,
    layers: int = 4,
    tuned: int | None = None,
    epochs: int = 1,
    batch: int = 16,
    rate: float = 1e-4,
    seed: int = 0,
    on_step: Callable[[int, int, float], object] | None = None,
) -> Scorer:
    """Learn values from labelled texts, to be asked of unfinished ones too.

    The loss is cumulative (RAD, arXiv 2310.09520): 2 / (n (n + 1)) * sum over t of t * (r_t - r)^2 for a text of n
    tokens, so that a value counts the more the more of the text it has seen.

    Args:
        model: a causal model of the family; its first ``layers`` are copied.
        texts: ids of each.
        labels: D numbers for each, from 0 to 1 for RAD.
        layers: of the reward model.
        tuned: how many of the last ones learn, beside the head; the others stay as the model has them, which costs a
            third as much. None: all of them, and the embeddings.
        epochs: times through the data.
        batch: texts a step.
        rate: of AdamW, with betas .9 and .95 and a weight decay of .01, falling linearly to 0.
        seed: of order and head.
        on_step: called with the step, their number and the loss.

    Raises:
        InputError: data that do not fit together, or a number out of its range.
    """
    number("rate", rate, least=0)
    outputs = _check_data(texts, labels)
    for name, value in (("epochs", epochs), ("batch", batch)):
        whole(name, value)
    card = {"layers": layers, "tuned": tuned, "epochs": epochs, "batch": batch, "rate": rate, "seed": seed}
    backbone = cut_off(model, layers).float()
    if tuned is not None:
        _freeze(backbone, layers, tuned)
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        scorer = Scorer(backbone, outputs, card | {"texts": len(texts)}).to(model.device).train()
    generator = torch.Generator().manual_seed(seed)
    learning = [one for one in scorer.parameters() if one.requires_grad]
    optimiser = torch.optim.AdamW(learning, lr=rate, betas=(0.9, 0.95), weight_decay=0.01)
    starts = range(0, len(texts), batch)
    total, step = epochs * len(starts), 0
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda done: 1 - done / total)
    for _ in range(epochs):
        order = torch.randperm(len(texts), generator=generator).tolist()
        for first in starts:
            chosen = order[first : first + batch]
            loss = cumulative_loss(scorer, [texts[i] for i in chosen], [labels[i] for i in chosen])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
            if on_step is not None:
                on_step(step, total, float(loss.detach()))
            step += 1
    return scorer.requires_grad_(True).eval()


def cumulative_loss(scorer: Scorer, texts: Sequence[Sequence[int]], labels: Sequence[Sequence[float]]) -> torch.Tensor:
    """The mean over the texts of the loss of ``fit_reward``."""
    longest = max(map(len, texts))
    ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in texts], device=scorer.device)
    length = torch.tensor([len(row) for row in texts], device=scorer.device)
    place = torch.arange(1, longest + 1, device=scorer.device)
    seen = place <= length[:, None]
    values = scorer(ids, attention_mask=seen.long()).logits.float()
    wanted = torch.tensor([list(one) for one in labels], device=scorer.device)
    apart = ((values - wanted[:, None]) ** 2).mean(2)
    weight = torch.where(seen, 2 * place / (length * (length + 1))[:, None], 0.0)
    loss: torch.Tensor = (apart * weight).sum(1).mean()
    return loss


def _check_data(texts: Sequence[Sequence[int]], labels: Sequence[Sequence[float]]) -> int:
    """The number of values of each text."""
    if not texts or len(texts) != len(labels):
        raise InputError(f"{len(texts)} texts and {len(labels)} labels; expected as many of both, at least one")
    outputs = {len(one) for one in labels}
    if len(outputs) != 1 or 0 in outputs:
        raise InputError(f"labels have {sorted(outputs)} numbers; expected the same number of them for each text")
    for i, (text, label) in enumerate(zip(texts, labels, strict=True)):
        if not text:
            raise InputError(f"text {i} is empty")
        for one in label:
            number(f"the label of text {i}", one)
    return outputs.pop()
