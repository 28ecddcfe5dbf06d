"""What a text that goes on with each of several tokens is worth: the one thing that reward-guided methods ask.

    values = reward.values(state, tokens)      # float32[B, k], for tokens int64[B, k]

States follow the rows as those of steerers do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch

from ctrlgen.errors import InputError, ModelError
from ctrlgen.steering.source import Reading, Source
from ctrlgen.steering.sourced import tokens_or_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ctrlgen.steering.protocol import Moment, Prompts, State
    from ctrlgen.vocabulary import Vocabulary


@runtime_checkable
class Reward(Protocol):
    """A judge of unfinished texts."""

    def init(self, prompts: Prompts) -> State:
        """The state before the first token."""
        ...

    def values(self, state: State, tokens: torch.Tensor) -> torch.Tensor:
        """float32[B, k]: of each row followed by each of ``tokens``, int64[B, k]."""
        ...

    def update(self, state: State, tokens: torch.Tensor, alive: torch.Tensor) -> State:
        """The state after one more token in each row."""
        ...


class RewardModel:
    """A model with a value after each id, such as ``ctrlgen.steering.reward_model.Scorer``.

    All candidates are read in one forward pass that shares the keys and values of the row; the state stays that of
    one row.

    Args:
        model: a model whose ``logits`` [B, n, D] are values, or a Source of one.
        output: which of its D values.
    """

    def __init__(self, model: Any, *, output: int = 0) -> None:
        self.source = model if isinstance(model, Source) else Source(model)
        self.output = output
        self.per_prompt = self.source.per_prompt

    def init(self, prompts: Prompts) -> tuple[Any, ...]:
        """What was read of the prompts."""
        reading = self.source.init(prompts)
        if not -reading.output.shape[1] <= self.output < reading.output.shape[1]:
            raise InputError(f"output is {self.output!r}; the reward model has {reading.output.shape[1]} values")
        return reading

    def values(self, state: tuple[Any, ...], tokens: torch.Tensor) -> torch.Tensor:
        """float32[B, k]."""
        reading = Reading(*state)
        return self.source.candidates(reading, tokens)[:, :, self.output].to(tokens.device)

    def update(self, state: tuple[Any, ...], tokens: torch.Tensor, alive: torch.Tensor) -> tuple[Any, ...]:
        """Read one more."""
        return self.source.update(Reading(*state), tokens, alive)

    def rewind(self, state: tuple[Any, ...], count: int) -> tuple[Any, ...]:
        """``count`` tokens back."""
        return self.source.rewind(Reading(*state), count)


class RewardFunction:
    """Any function of texts, or of ids.

    Args:
        function: from a list of texts (of what was generated, each with one candidate at its end) to as many numbers;
            without ``vocabulary``, from a list of lists of ids.
        vocabulary: to make texts of ids.
        whole: hand over prompt and generated text, not the latter alone.
    """

    def __init__(
        self,
        function: Callable[[list[Any]], Sequence[float]],
        vocabulary: Vocabulary | None = None,
        *,
        whole: bool = False,
    ) -> None:
        if not callable(function):
            raise InputError(f"a reward is {function!r}; expected a model, a Source, a function or a Reward")
        self.function, self.vocabulary, self.whole = function, vocabulary, whole

    def init(self, prompts: Prompts) -> tuple[Any, ...]:
        """int64[B, T] ids, -1 before the shorter ones."""
        rows = prompts.rows if self.whole else tuple(() for _ in prompts.rows)
        longest = max(map(len, rows))
        ids = [[-1] * (longest - len(row)) + list(row) for row in rows]
        return (torch.tensor(ids, dtype=torch.int64, device=prompts.device).reshape(len(rows), longest),)

    def values(self, state: tuple[Any, ...], tokens: torch.Tensor) -> torch.Tensor:
        """float32[B, k], from one call of the function."""
        rows = [[i for i in row if i >= 0] for row in state[0].tolist()]
        several: list[Any] = [[*row, one] for row, k in zip(rows, tokens.tolist(), strict=True) for one in k]
        if self.vocabulary is not None:
            several = [self.vocabulary.decode(ids).decode(errors="replace") for ids in several]
        found = torch.as_tensor(self.function(several), dtype=torch.float32).to(tokens.device)
        if found.shape != (len(several),):
            raise InputError(f"a reward function gave {list(found.shape)} values for {len(several)} texts")
        return found.reshape(tokens.shape)

    def update(self, state: tuple[Any, ...], tokens: torch.Tensor, alive: torch.Tensor) -> tuple[Any, ...]:
        """One id more in each row."""
        del alive
        return (torch.cat([state[0], tokens[:, None].to(state[0])], 1),)

    def rewind(self, state: tuple[Any, ...], count: int) -> tuple[Any, ...]:
        """``count`` ids fewer."""
        return (state[0][:, : state[0].shape[1] - count],)


def reward_of(given: Any) -> Any:
    """A Reward of what a user passes: a Reward, a Source or model, a function of lists of ids."""
    if isinstance(given, Reward):
        return given
    if isinstance(given, Source) or hasattr(given, "config"):
        return RewardModel(given)
    return RewardFunction(given)


class Rewarded:
    """A steerer made of rewards of the likeliest tokens; what it makes of them is ``delta`` of a subclass.

    Args:
        rewards: each as for ``reward_of``.
        k: the number of tokens that are judged; None for all.
    """

    def __init__(self, *rewards: Any, k: int | None) -> None:
        self.rewards, self.k = tuple(reward_of(one) for one in rewards), tokens_or_all("k", k)
        counts = {getattr(one, "per_prompt", 0) for one in self.rewards} - {0}
        if len(counts) > 1:
            raise InputError(f"the rewards have prompts for batches of {sorted(counts)} prompts; pass as many")
        self.per_prompt = next(iter(counts), 0)

    def init(self, prompts: Prompts) -> tuple[Any, ...]:
        """The states of all rewards."""
        return tuple(one.init(prompts) for one in self.rewards)

    def update(self, state: tuple[Any, ...], tokens: torch.Tensor, alive: torch.Tensor) -> tuple[Any, ...]:
        """One more token in each row."""
        return tuple(one.update(each, tokens, alive) for one, each in zip(self.rewards, state, strict=True))

    def rewind(self, state: tuple[Any, ...], count: int) -> tuple[Any, ...] | None:
        """``count`` tokens back, if every reward can go back."""
        if not all(hasattr(one, "rewind") for one in self.rewards):
            return None
        found = tuple(one.rewind(each, count) for one, each in zip(self.rewards, state, strict=True))
        return None if any(one is None for one in found) else found

    def judged(self, state: tuple[Any, ...], moment: Moment) -> tuple[torch.Tensor, torch.Tensor]:
        """The likeliest tokens of each row, int64[B, k], and their values, float32[B, k, R].

        Raises:
            ModelError: a value of an allowed token is NaN or infinite.
        """
        k = moment.log_p.shape[1] if self.k is None else min(self.k, moment.log_p.shape[1])
        log_p, tokens = moment.log_p.topk(k, 1)
        values = [one.values(each, tokens) for one, each in zip(self.rewards, state, strict=True)]
        found = torch.stack(values, 2).to(moment.log_p)
        used = (log_p != -torch.inf) & moment.alive[:, None]
        if bool((~found.isfinite() & used[:, :, None]).any()):
            raise ModelError("a reward is NaN or infinite for a token that is allowed")
        return tokens, torch.where(used[:, :, None], found, 0.0)


def spread(tokens: torch.Tensor, values: torch.Tensor, width: int) -> torch.Tensor:
    """float32[B, V]: ``values`` at ``tokens``, both [B, k], and -inf elsewhere."""
    return values.new_full((len(tokens), width), -torch.inf).scatter(1, tokens, values)
