"""The retrieval experiment in small: searches within a catalogue give items of it only, and find more."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest


@pytest.fixture(scope="module")
def example(load_example: Callable[[str], ModuleType]) -> ModuleType:
    return load_example("retrieval")


@pytest.mark.slow
def test_the_experiment(example: ModuleType) -> None:
    size = example.Size(products=200, centres=16, hidden=64, layers=2, steps=60, batch=32, asked=30, beams=20)
    rows = example.run(size, "tfidf")["results"]
    free, within, filtered = rows["free"], rows["within the catalogue"], rows["within the class"]
    assert free["invalid"] > 0
    assert within["invalid"] == filtered["invalid"] == 0
    assert free["recall@10"] <= within["recall@10"] <= filtered["recall@10"]


def test_semantic_ids_are_distinct_and_near_vectors_share_their_beginning(example: ModuleType) -> None:
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((4, 8)) * 10
    vectors = np.repeat(centres, 25, 0) + rng.standard_normal((100, 8)) * 0.01
    codes = example.semantic_ids(vectors, 8, np.random.default_rng(1))
    assert codes.shape == (100, 4)
    assert len(np.unique(codes, axis=0)) == 100
    for first in np.unique(codes[:, 0]):
        assert len({i // 25 for i in np.flatnonzero(codes[:, 0] == first)}) == 1


def test_equal_vectors_are_told_apart_by_the_last_token(example: ModuleType) -> None:
    codes = example.semantic_ids(np.ones((5, 3)), 2, np.random.default_rng(0))
    assert sorted(codes[:, -1].tolist()) == [0, 1, 2, 3, 4]


def test_queries_use_words_of_the_vocabulary(example: ModuleType) -> None:
    rng = random.Random(0)
    known = example.vocabulary()
    made = example.products(50, rng)
    assert len({tuple(product.values()) for product in made}) == 50
    assert all(word in known for product in made for word in example.query(product, rng))
