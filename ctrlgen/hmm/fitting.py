"""A model fitted to sampled texts by expectation maximisation, in steps and then in full passes.

Stepwise EM (Liang and Klein 2009): after a few shards the counts S become (1 - eta) S + eta N, N the counts of these
shards scaled to the whole, eta = (step + 2) ** -0.6, and the model is made of S. A full pass has eta = 1, counts all
shards before the model changes, and never loses likelihood (times the prior's). What is drawn at random depends on the
seed, the pass and the shard, so a fit that was cut off goes on as if it had not been, and several processes find what
one does, up to the order of sums.
"""

from __future__ import annotations

import time
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from ctrlgen.errors import InputError
from ctrlgen.hmm import storage
from ctrlgen.hmm.baselines import Baselines, perplexities, tally
from ctrlgen.hmm.beginning import begun
from ctrlgen.hmm.corpus import Corpus, batches, divided
from ctrlgen.hmm.em import Counts, Prior, count, maximised, no_counts
from ctrlgen.hmm.emission import Dense
from ctrlgen.hmm.model import HMM, log_likelihood, memory
from ctrlgen.hmm.workers import Workers, workers
from ctrlgen.tensors import read, write

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}
_POWER = 0.6


@dataclass(frozen=True)
class Settings:
    """How to fit.

    Args:
        states: H.
        eos: ids that end a text.
        begin: "classes", "hidden" or "random": see ``ctrlgen.hmm.beginning``.
        stepwise: passes over the texts in steps.
        full: full passes after these.
        shards: read for one step.
        dropout: share of the tokens that are summed over instead of seen.
        emission: pseudocounts a state, spread as single tokens are; those of a fit to few texts are best large.
        transition: pseudocounts a state, spread evenly.
        dtype: of the products of matrices: bfloat16, float32 or float64.
        seed: of all that is random.

    Raises:
        InputError: a number out of its range.
    """

    states: int
    eos: tuple[int, ...] = ()
    begin: str = "classes"
    stepwise: int = 4
    full: int = 4
    shards: int = 16
    dropout: float = 0.0
    emission: float = 100.0
    transition: float = 10.0
    dtype: str = "bfloat16"
    seed: int = 0

    def __post_init__(self) -> None:
        least = {"states": 1, "stepwise": 0, "full": 0, "shards": 1, "dropout": 0, "emission": 0, "transition": 0}
        for name, bound in least.items():
            if not getattr(self, name) >= bound:
                raise InputError(f"{name} is {getattr(self, name)}; expected at least {bound}")
        if not self.dropout < 1 or self.dtype not in _DTYPES:
            raise InputError(f"dropout is {self.dropout}, dtype {self.dtype}; expected below 1, {', '.join(_DTYPES)}")


class Progress(NamedTuple):
    """Where a fit is."""

    step: int
    steps: int
    tokens: int
    """Counted by this run, all processes together."""
    seconds: float
    training: float
    """Perplexity of the last step's texts under the model before it."""
    held_out: float | None
    """Perplexity of held-out samples, where it was measured: after each pass."""
    baselines: Baselines


class _Run(NamedTuple):
    """What stays the same."""

    corpus: Corpus
    settings: Settings
    prior: Prior
    baselines: Baselines
    total: int
    """Tokens of all training texts."""
    device: torch.device
    workers: Workers


def fit(
    folders: str | Path | Sequence[str | Path],
    path: str | Path,
    settings: Settings,
    *,
    held_out: int = 25,
    device: torch.device | str = "cpu",
    save_every: float = 300.0,
    progress: Callable[[Progress], None] | None = None,
) -> HMM:
    """Fit an HMM to the shards in folders, and write it.

    In a process group of torch.distributed all processes call this and share the work. What is needed to go on is
    kept beside ``path`` until the fit is done: called again, it goes on.

    Args:
        folders: of shards that ``sample`` wrote.
        path: of the model.
        settings: how.
        held_out: every so manieth shard is kept apart to measure with.
        device: where to compute.
        save_every: seconds between checkpoints.
        progress: called after each step, in the first process.

    Returns:
        The model, in float32; its card has the settings and the perplexities.

    Raises:
        InputError: shards that do not fit, or a checkpoint of another fit.
    """
    path, group, device = Path(path), workers(), torch.device(device)
    run = _prepared(divided(folders, held_out), settings, device, group)
    checkpoint = path.with_name(path.name + ".checkpoint")
    done, hmm, counts = _resumed(checkpoint, run) or _first(run)
    plan = _plan(run)
    tokens, begin, saved = 0, time.perf_counter(), time.perf_counter()
    for step in range(done, len(plan)):
        number, shards, eta = plan[step]
        new = _counted(run, hmm, number, shards)
        tokens += int(new.tokens)
        counts = new if eta == 1 else counts.mixed(_scaled(new, run.total), eta)
        hmm = maximised(hmm, counts, run.prior)
        ends = step + 1 == len(plan) or plan[step + 1][0] != number
        held = _perplexity(run, hmm) if ends else None
        if group.leads:
            if ends or time.perf_counter() - saved > save_every:
                _save_checkpoint(checkpoint, run, step + 1, counts)
                saved = time.perf_counter()
            if progress is not None:
                training = float((-new.log_likelihood / new.tokens).exp())
                seconds = time.perf_counter() - begin
                progress(Progress(step + 1, len(plan), tokens, seconds, training, held, run.baselines))
    exact = maximised(_blank(run, exact=True), counts, run.prior)
    return _finished(path, checkpoint, run, exact)


def _prepared(corpus: Corpus, settings: Settings, device: torch.device, group: Workers) -> _Run:
    pairs = tally(batches(corpus.training, corpus.width), corpus.width)
    baselines = perplexities(pairs, batches(corpus.held_out, corpus.width))
    prior = Prior(settings.transition, settings.emission, pairs.unigram.to(device))
    if any(not 0 <= token < corpus.width for token in settings.eos):
        raise InputError(f"eos is {list(settings.eos)}; expected ids from 0 to {corpus.width - 1}")
    return _Run(corpus, settings, prior, baselines, int(pairs.tokens.sum()), device, group)


def _first(run: _Run) -> tuple[int, HMM, Counts]:
    """Before the first step; the first process begins for all, since clusters may hang on the order of sums."""
    settings, width = run.settings, run.corpus.width
    if run.workers.leads:
        frequency = run.prior.background.cpu().float() * run.total
        paths = run.corpus.training
        hmm = begun(paths, width, frequency, settings.states, settings.eos, settings.begin, settings.seed)
        tables = [hmm.start, hmm.transition.contiguous(), hmm.emission.dense()]
    else:
        shapes = ((settings.states,), (settings.states, settings.states), (width, settings.states))
        tables = [torch.zeros(shape) for shape in shapes]
    tables = [one.to(run.device) for one in tables]
    run.workers.share(tables)
    start, transition, emission = tables
    counts = no_counts(_blank(run))
    own = run.total / settings.states
    for into, table in zip(counts, (start * own, transition * own, emission * own), strict=False):
        into.copy_(table)
    return 0, maximised(_blank(run), counts, run.prior), counts


def _blank(run: _Run, *, exact: bool = False) -> HMM:
    """A model of the right shape, in which all is alike."""
    settings, kind = run.settings, _DTYPES[run.settings.dtype]
    sums = torch.float64 if kind == torch.float64 else torch.float32
    start = torch.full((settings.states,), 1 / settings.states, dtype=sums, device=run.device)
    table = torch.full((run.corpus.width, settings.states), 1 / run.corpus.width, dtype=sums, device=run.device)
    blank = HMM(start, start.expand(settings.states, -1), Dense(table), settings.eos)
    return blank if exact else blank.to(dtype=kind)


def _plan(run: _Run) -> list[tuple[int, list[Path], float]]:
    """For each step the number of its pass, its shards, and eta."""
    settings, training = run.settings, list(run.corpus.training)
    plan: list[tuple[int, list[Path], float]] = []
    for number in range(settings.stepwise):
        order = np.random.default_rng((settings.seed, number)).permutation(len(training))
        for first in range(0, len(training), settings.shards):
            chosen = [training[i] for i in order[first : first + settings.shards]]
            plan.append((number, chosen, (len(plan) + 2) ** -_POWER))
    return plan + [(settings.stepwise + number, training, 1.0) for number in range(settings.full)]


def _counted(run: _Run, hmm: HMM, number: int, shards: Sequence[Path]) -> Counts:
    """Counts of the shards, each process's own added up."""
    counts = no_counts(hmm)
    mine = run.workers.mine(shards)
    for path, batch in zip(mine, batches(mine, run.corpus.width), strict=True):
        seen = torch.ones_like(batch.ids, dtype=torch.bool)
        if run.settings.dropout:
            generator = np.random.default_rng((run.settings.seed, number, zlib.crc32(path.name.encode())))
            seen = torch.from_numpy(generator.random(batch.ids.shape) >= run.settings.dropout)
        batch = batch.to(run.device)
        count(hmm, batch.ids, seen.to(run.device), batch.length, counts)
    run.workers.add_up(counts)
    return counts


def _scaled(counts: Counts, total: int) -> Counts:
    """As if they were of all texts."""
    factor = total / counts.tokens.clamp(min=1)
    return Counts(*((one * factor).to(one.dtype) for one in counts))


def _perplexity(run: _Run, hmm: HMM) -> float:
    """Of held-out samples, given their prompts."""
    sums = torch.zeros(2, dtype=torch.float64, device=run.device)
    for batch in batches(run.workers.mine(run.corpus.held_out), run.corpus.width):
        batch = batch.to(run.device)
        logs = log_likelihood(hmm, batch.ids, batch.length)[batch.sampled].double()
        sums += torch.stack([logs.sum(), torch.tensor(float(len(logs)), dtype=torch.float64, device=run.device)])
    run.workers.add_up([sums])
    return float((-sums[0] / sums[1].clamp(min=1)).exp())


def _facts(run: _Run) -> dict[str, Any]:
    settings = asdict(run.settings)
    return {"settings": settings | {"eos": list(settings["eos"])}, "shards": run.corpus.names}


def _save_checkpoint(path: Path, run: _Run, step: int, counts: Counts) -> None:
    write(path, "fit", counts._asdict(), _facts(run) | {"step": step})


def _resumed(path: Path, run: _Run) -> tuple[int, HMM, Counts] | None:
    """What a run that was cut off left."""
    if not path.exists():
        return None
    tensors, facts = read(path, "fit")
    for name, value in _facts(run).items():
        if facts.get(name) != value:
            raise InputError(f"{path} is of a fit with other {name}: delete it to begin anew, or give the same again")
    counts = Counts(*(tensors[name].to(run.device) for name in Counts._fields))
    return int(facts["step"]), maximised(_blank(run), counts, run.prior), counts


def _finished(path: Path, checkpoint: Path, run: _Run, hmm: HMM) -> HMM:
    card = {
        "tokens": run.total,
        "held_out_perplexity": _perplexity(run, hmm),
        "unigram_perplexity": run.baselines.unigram,
        "bigram_perplexity": run.baselines.bigram,
        "second_eigenvalue": memory(hmm),
        "settings": _facts(run)["settings"],
        "processes": run.workers.count,
    }
    hmm = HMM(hmm.start, hmm.transition, hmm.emission, hmm.eos, card)
    if run.workers.leads:
        storage.save(hmm, path)
        checkpoint.unlink(missing_ok=True)
    return hmm
