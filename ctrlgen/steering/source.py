"""A second model beside a generation: expert, amateur, safe model, the same model with another prompt, reward model.

A Source is a pure function of rows, like a steerer: its state holds keys and values, one row of the batch each, so
that beams, samples, drafts that are taken back and later generations need no code here. Equal prompts are read once.
Without a cache (``use_cache=False``, or a model that has no keys and values) whole rows are read anew.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch

from ctrlgen.errors import InputError, ModelError
from ctrlgen.steering.protocol import Prompts

if TYPE_CHECKING:
    from ctrlgen.vocabulary import Vocabulary

    Reads = str | Sequence[int] | Sequence[str | Sequence[int]] | Callable[[tuple[int, ...]], Sequence[int]] | None
    KeysValues = tuple[torch.Tensor, ...]

_CACHE_NAMES = ("cache", "past_key_values")
"""What the argument is called, in newer and older releases of transformers."""


class Reading(NamedTuple):
    """What a Source has read; a state of steerers."""

    ids: torch.Tensor
    """int64[B, T]; -1 - i stands for row i of the soft prompt."""
    mask: torch.Tensor
    """int64[B, T], 0 at padding and after the end of a row."""
    output: torch.Tensor
    """float32[B, D]: the model's output after the last id."""
    keys_values: KeysValues
    """Of each layer keys and values [B, heads, T, size]; empty without a cache."""


class Source:
    """A model that reads along.

    Args:
        model: a decoder-only model of transformers in eval mode, or a module with such a forward whose output has
            ``logits`` [B, n, D].
        tokenizer: its tokenizer (or Vocabulary), to check that it is that of the rows, and to encode prompts given as
            texts. Without one only the number of ids is compared.
        prompt: what it reads in place of the row's prompt: nothing else by default; a text or ids; a list of these,
            one for each prompt of the batch; or a function from the ids of the prompt to others. What is generated
            follows.
        soft_prompt: float[n, H], embeddings that come before the prompt.
        use_cache: False reads whole rows at each step.

    Raises:
        InputError: arguments that do not fit the model.

    >>> def last_id(prompt):  # how an amateur or unconditional model often begins
    ...     return prompt[-1:]
    """

    _extra: ClassVar[dict[str, Any]] = {}
    """Arguments of the forward pass that a subclass adds."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        prompt: Reads = None,
        soft_prompt: torch.Tensor | None = None,
        use_cache: bool = True,
    ) -> None:
        if getattr(model.config, "is_encoder_decoder", False):
            raise InputError("a second model must be decoder-only; this one has an encoder")
        self.model, self.soft_prompt = model, _checked_embeddings(model, soft_prompt)
        self._vocabulary, self._prompt = _vocabulary_of(tokenizer, model), _encoded(prompt, tokenizer)
        self.per_prompt = len(self._prompt) if isinstance(self._prompt, list) else 0
        self._known = set(inspect.signature(model.forward).parameters)
        name = next((name for name in _CACHE_NAMES if name in self._known), None)
        kinds = _kinds_of_layers(model)
        self._cache_name = name if use_cache and kinds is not None else None
        # a mask of four dimensions is taken as it is, without the window of layers that have one
        attention = getattr(model.config, "_attn_implementation", None)
        self._takes_any_mask = kinds == {"DynamicLayer"} and attention in ("sdpa", "eager")
        limit = getattr(_text_config(model), "max_position_embeddings", None)
        self._limit = limit if isinstance(limit, int) and limit > 0 else None

    def init(self, prompts: Prompts) -> Reading:
        """Read the prompts, each different one once.

        Raises:
            InputError: a prompt is empty or too long, or the tokenizers differ.
        """
        if prompts.vocabulary is not None:
            self._check_tokenizer(prompts.vocabulary)
        rows = self._rows(prompts)
        different = list(dict.fromkeys(rows))
        place = {row: i for i, row in enumerate(different)}
        ids, mask = _padded(different, self.model.device)
        self._check_length(mask)
        output, keys_values = self._forward(ids, mask, ())
        index = torch.tensor([place[row] for row in rows], device=self.model.device)
        if len(different) == len(rows):
            return Reading(ids, mask, output, keys_values)
        return Reading(ids[index], mask[index], output[index], tuple(one[index] for one in keys_values))

    def update(self, state: Reading, tokens: torch.Tensor, alive: torch.Tensor) -> Reading:
        """Read one more id in each row that is alive.

        Raises:
            InputError: the rows are longer than what the model was made for.
        """
        state = Reading(*state)
        device = state.ids.device
        ids = torch.cat([state.ids, tokens[:, None].to(device)], 1)
        mask = torch.cat([state.mask, alive[:, None].to(device, state.mask.dtype)], 1)
        self._check_length(mask)
        output, keys_values = self._forward(ids, mask, state.keys_values)
        return Reading(ids, mask, output, keys_values)

    def rewind(self, state: Reading, count: int) -> Reading:
        """Forget the last ``count`` ids; ``output`` is out of date until the next ``update``."""
        state = Reading(*state)
        length = state.ids.shape[1] - count
        keys_values = tuple(one[:, :, :length] for one in state.keys_values)
        return Reading(state.ids[:, :length], state.mask[:, :length], state.output, keys_values)

    def log_p(self, state: Reading, like: torch.Tensor) -> torch.Tensor:
        """The log-probabilities of the next id, over those that ``like`` allows.

        Args:
            state: what was read.
            like: float32[B, V], -inf where a token is forbidden.

        Returns:
            float32[B, V], normalised over the allowed tokens, -inf at all others and at ids that the model does not
            have; on the device of ``like``.

        Raises:
            InputError: the model has another number of ids, and no tokenizer says that it is only padding.
            ModelError: its logits are NaN or infinite, or it forbids all that is allowed.
        """
        logits = self.logits(state, like)
        total = logits.masked_fill(like == -torch.inf, -torch.inf).logsumexp(1, keepdim=True)
        if not bool(total.isfinite().all()):
            raise ModelError("a second model gives NaN, or no probability to any token that is allowed")
        return (logits - total).masked_fill(like == -torch.inf, -torch.inf)

    def logits(self, state: Reading, like: torch.Tensor) -> torch.Tensor:
        """float32[B, V]: the output as it is, with -inf at ids that the model does not have; as for ``log_p``."""
        output, width = Reading(*state).output.to(like.device), like.shape[1]
        missing = width - output.shape[1]
        if missing and self._vocabulary is None:
            raise InputError(
                f"the second model has {output.shape[1]} ids, the logits {width}: pass its tokenizer, "
                "Source(model, tokenizer), so that it can be checked that the rest is padding"
            )
        return torch.nn.functional.pad(output, (0, missing), value=-torch.inf)  # cuts if negative

    def candidates(self, state: Reading, tokens: torch.Tensor) -> torch.Tensor:
        """What the model would give out after each of several next ids; the state stays as it is.

        Args:
            state: what was read.
            tokens: int64[B, k].

        Returns:
            float32[B, k, D], from one forward pass: of k ids beside one another after one prefix where the model
            takes such masks, else of B * k rows.
        """
        state, tokens = Reading(*state), tokens.to(state[0].device)
        if state.keys_values and self._takes_any_mask:
            return self._beside(state, tokens)
        count = tokens.shape[1]
        repeated = [one.repeat_interleave(count, 0) for one in (state.ids, state.mask)]
        ids = torch.cat([repeated[0], tokens.reshape(-1, 1)], 1)
        mask = torch.cat([repeated[1], torch.ones_like(ids[:, :1])], 1)
        self._check_length(mask)
        keys_values = tuple(one.repeat_interleave(count, 0) for one in state.keys_values)
        output = self._forward(ids, mask, keys_values)[0]
        return output.reshape(*tokens.shape, output.shape[1])

    @torch.no_grad()
    def _beside(self, state: Reading, tokens: torch.Tensor) -> torch.Tensor:
        """k ids at the same position, each of which sees the prefix and itself."""
        count = tokens.shape[1]
        self._check_length(torch.cat([state.mask, torch.ones_like(state.mask[:, :1])], 1))
        itself = torch.eye(count, dtype=torch.bool, device=tokens.device).expand(len(tokens), -1, -1)
        seen = torch.cat([state.mask.bool()[:, None].expand(-1, count, -1), itself], 2)
        dtype = state.keys_values[0].dtype
        mask = torch.zeros(seen.shape, dtype=dtype, device=seen.device)
        mask = mask.masked_fill(~seen, torch.finfo(dtype).min)[:, None]
        positions = state.mask.sum(1, keepdim=True).expand(-1, count)
        inputs = {"input_ids": tokens, "attention_mask": mask, "position_ids": positions, "use_cache": True}
        cache = _cache_of(state.keys_values)
        output = self.model(**self._understood(inputs), **{str(self._cache_name): cache})
        logits: torch.Tensor = output.logits
        return logits.float()

    @torch.no_grad()
    def _forward(
        self, ids: torch.Tensor, mask: torch.Tensor, keys_values: KeysValues
    ) -> tuple[torch.Tensor, KeysValues]:
        """The output after the last id, and keys and values of all."""
        seen = keys_values[0].shape[2] if keys_values else 0
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, seen:]
        inputs = {"attention_mask": mask, "position_ids": positions, "return_dict": True, "logits_to_keep": 1}
        inputs |= self._embedded(ids[:, seen:]) | {"use_cache": self._cache_name is not None} | self._extra
        cache = None if self._cache_name is None else _cache_of(keys_values)
        if cache is not None:
            output = self.model(**self._understood(inputs), **{str(self._cache_name): cache})
        else:
            output = self.model(**self._understood(inputs))
        kept = () if cache is None else tuple(one for layer in cache.layers for one in (layer.keys, layer.values))
        return self._read_off(output), kept

    def _read_off(self, output: Any) -> torch.Tensor:
        """float32[B, ...]: what is kept of a forward pass."""
        logits: torch.Tensor = output.logits
        return logits[:, -1].float()

    def _embedded(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        """The ids, or embeddings where some are those of the soft prompt."""
        if self.soft_prompt is None or ids.shape[1] == 1:
            return {"input_ids": ids.clamp(min=0)}
        embedded = self.model.get_input_embeddings()(ids.clamp(min=0))
        soft = self.soft_prompt.to(embedded)[(-1 - ids).clamp(min=0)]
        return {"inputs_embeds": torch.where((ids < 0)[:, :, None], soft, embedded)}

    def _understood(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Without the arguments that are optional and that this model does not know."""
        optional = {"position_ids", "logits_to_keep", "use_cache", "return_dict"} - self._known
        return {name: value for name, value in inputs.items() if name not in optional}

    def _rows(self, prompts: Prompts) -> list[tuple[int, ...]]:
        """What stands before the generated ids, in each row."""
        given, count = self._prompt, len(prompts.rows)
        if given is None:
            rows = list(prompts.rows)
        elif callable(given):
            rows = [tuple(given(row)) for row in prompts.rows]
        elif isinstance(given, tuple):
            rows = [given] * count
        else:
            if count % len(given):
                raise InputError(f"a second model has {len(given)} prompts, and there are {count} rows")
            rows = [row for row in given for _ in range(count // len(given))]
        soft = () if self.soft_prompt is None else tuple(-1 - i for i in range(len(self.soft_prompt)))
        for i, row in enumerate(rows):
            if not row and not soft:
                raise InputError(f"row {i}: the second model has an empty prompt, and needs something to go on")
        return [soft + row for row in rows]

    def _check_tokenizer(self, vocabulary: Vocabulary) -> None:
        own = self._vocabulary
        if own is None or own.fingerprint == vocabulary.fingerprint or own.tokens == vocabulary.tokens:
            return
        pairs = zip(own.tokens, vocabulary.tokens, strict=False)
        i = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(own), len(vocabulary)))
        raise InputError(
            f"the second model has another tokenizer: id {i} differs ({len(own)} ids, the first model "
            f"{len(vocabulary)}). Both must read the same ids; choose a second model of the same family"
        )

    def _check_length(self, mask: torch.Tensor) -> None:
        if self._limit is not None and mask.shape[1] > self._limit:
            longest = int(mask.sum(1).max())
            if longest > self._limit:
                raise InputError(f"a row has {longest} ids, and the second model was made for {self._limit}")


def _vocabulary_of(tokenizer: Any, model: Any) -> Vocabulary | None:
    from ctrlgen.vocabulary import Vocabulary

    if tokenizer is None or isinstance(tokenizer, Vocabulary):
        return tokenizer
    return Vocabulary.from_tokenizer(tokenizer, model=model)


def _encoded(prompt: Any, tokenizer: Any) -> Any:
    """None, a function, a tuple of ids, or a list of such tuples."""
    if prompt is None or callable(prompt):
        return prompt
    if isinstance(prompt, str):
        if not callable(tokenizer):
            raise InputError("a prompt that is a text needs a tokenizer: Source(model, tokenizer, prompt=...)")
        return tuple(tokenizer(prompt)["input_ids"])
    if isinstance(prompt, Sequence) and all(isinstance(one, int) for one in prompt):
        return tuple(prompt)
    if isinstance(prompt, Sequence) and not any(isinstance(one, int) for one in prompt):
        return [_encoded(one, tokenizer) for one in prompt]
    raise InputError(f"prompt is {prompt!r}; expected a text, ids, a list of these, or a function of the prompt's ids")


def _checked_embeddings(model: Any, soft_prompt: torch.Tensor | None) -> torch.Tensor | None:
    if soft_prompt is None:
        return None
    size = model.get_input_embeddings().weight.shape[1]
    if soft_prompt.dim() != 2 or not len(soft_prompt) or soft_prompt.shape[1] != size:
        raise InputError(f"soft_prompt has shape {list(soft_prompt.shape)}; expected [n, {size}], n of at least 1")
    return soft_prompt.detach()


def _text_config(model: Any) -> Any:
    config = model.config
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def _kinds_of_layers(model: Any) -> set[str] | None:
    """Names of the classes of its layers' caches; None if the model remembers more than keys and values of each id."""
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    layers = DynamicCache(config=_text_config(model)).layers
    known = all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers)
    return {type(layer).__name__ for layer in layers} if known else None


def _cache_of(keys_values: KeysValues) -> Any:
    """A cache of transformers that goes on from these, and leaves them as they are.

    Windows that slide are those of the mask; everything is kept, so that ids can be taken back.
    """
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    cache = DynamicCache()
    for keys, values in zip(keys_values[::2], keys_values[1::2], strict=True):
        layer = DynamicLayer()
        layer.lazy_initialization(keys, values)
        layer.keys, layer.values = keys, values
        cache.layers.append(layer)
    return cache


def _padded(rows: Sequence[Sequence[int]], device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """int64[B, T] ids, padded on the left, and the mask."""
    longest = max(map(len, rows))
    ids = [[0] * (longest - len(row)) + list(row) for row in rows]
    mask = [[0] * (longest - len(row)) + [1] * len(row) for row in rows]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)
