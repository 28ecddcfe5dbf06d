"""A network read by definition: the set of all configurations, byte by byte. Slow, and right by inspection.

A configuration is a node or the inside of an automaton, with the stack of nodes to return to.
"""

from __future__ import annotations

from typing import NamedTuple

from ctrlgen.engine import network as kinds
from ctrlgen.engine.network import BLOCKED, END, Network


class AtNode(NamedTuple):
    """About to read what ``node`` reads, then to return to ``stack``."""

    node: int
    stack: tuple[int, ...]


class Inside(NamedTuple):
    """In an automaton, ``count`` characters in; ``stack`` begins with where to go on after it."""

    state: int
    count: int
    least: int
    most: int | None
    stack: tuple[int, ...]


Configuration = AtNode | Inside


def accepts(network: Network, start: int, text: bytes) -> bool:
    """Whether the network reads ``text`` from ``start``."""
    reached = read(network, start, text)
    return any(isinstance(c, AtNode) and c.node == END and not c.stack for c in reached)


def viable(network: Network, start: int, prefix: bytes) -> bool:
    """Whether the network has not refused ``prefix`` yet; in a network without dead ends, whether it can go on."""
    return bool(read(network, start, prefix))


def read(network: Network, start: int, text: bytes) -> set[Configuration]:
    """All configurations after ``text``."""
    reached = settled(network, {AtNode(start, ())})
    for byte in text:
        reached = settled(network, {after for c in reached for after in step(network, c, byte)})
    return reached


def settled(network: Network, configurations: set[Configuration]) -> set[Configuration]:
    """With all that can be reached without reading a byte."""
    found: set[Configuration] = set()
    todo = list(configurations)
    while todo:
        configuration = todo.pop()
        if configuration not in found:
            found.add(configuration)
            todo += silent(network, configuration)
    return found


def silent(network: Network, configuration: Configuration) -> list[Configuration]:
    """One move that reads nothing."""
    if isinstance(configuration, Inside):
        state, count, least, _, stack = configuration
        return [AtNode(stack[0], stack[1:])] if network.lexicon.final(state) and count >= least else []
    node, stack = configuration
    network.build(node)
    nodes, edges = network.arrays[:2]
    kind, a, b, c, d = nodes[node].tolist()
    if kind == kinds._END:
        return [AtNode(stack[0], stack[1:])] if stack else []
    if kind == kinds._FORK:
        return [AtNode(int(target), stack) for _, _, target in edges[a:b]]
    if kind == kinds._CALL:
        return [AtNode(a, (b, *stack))]
    if kind == kinds._ENTER:
        return [Inside(a, 0, c, None if d < 0 else d, (b, *stack))]
    return []


def step(network: Network, configuration: Configuration, byte: int) -> list[Configuration]:
    """The move that reads ``byte``."""
    if isinstance(configuration, Inside):
        return inside(network, configuration, byte)
    node, stack = configuration
    nodes, edges = network.arrays[:2]
    kind, a, b, base, other = nodes[node].tolist()
    if kind != kinds._BYTES:
        return []
    for low, high, target in edges[a:b].tolist():
        if low <= byte <= high:
            return [] if target == BLOCKED else [AtNode(target, stack)]
    return inside(network, Inside(base, 0, 0, None, (other, *stack)), byte) if base >= 0 else []


def inside(network: Network, configuration: Inside, byte: int) -> list[Configuration]:
    """The move within an automaton; the closing quote of a counted string is not counted."""
    state, count, least, most, stack = configuration
    after = network.lexicon.step(state, byte)
    if after < 0:
        return []
    if network.lexicon.boundary(after) and not network.lexicon.final(after):
        count = min(count + 1, least) if most is None else count + 1
    return [Inside(after, count, least, most, stack)] if most is None or count <= most else []
