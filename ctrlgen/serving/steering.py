"""Steerers of a request, as JSON: those that need no second model.

    {"trace": "small", "attribute": "positive", "a": 2.0}             more of an attribute, by a hidden Markov model
    {"deco_g": "small", "tokens": 60}                                 towards texts that meet the request's constraint
    {"fsd": {"alpha": 0.65}}   {"momentum": {}}                       against repetition
    {"bregman": {"sparsity": 0.01}}   {"best_of_k": {"draws": 16}}    on the simplex

"small" and "positive" are names that the operator registered. An attribute is a name, {"all": [...]}, {"any": [...]} or
{"not": ...}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from ctrlgen.errors import CtrlgenError, RequestError

if TYPE_CHECKING:
    from ctrlgen.serving.reading import Place
    from ctrlgen.steering.protocol import Steerer

MOST_TOKENS = 4096
"""That a look-ahead may be asked to go over."""


class Steering(NamedTuple):
    """A steerer that was asked for, not made yet."""

    name: str
    make: Callable[[], Steerer]


def read_steering(place: Place, constraint: Any) -> tuple[Steering, ...]:
    """The steerers of a request, tried once so that what is wrong with them is said now.

    Args:
        place: the list.
        constraint: of the request.

    Raises:
        RequestError: says which cannot be made, and why.
    """
    asked = place.list()
    if len(asked) > place.registry.limits.steerers:
        raise place.error(f"{len(asked)} steerers; this server takes up to {place.registry.limits.steerers}")
    return tuple(_steering(place.at(number, value), constraint) for number, value in enumerate(asked))


def _steering(place: Place, constraint: Any) -> Steering:
    members = place.object()
    kinds = [name for name in members if name in KINDS]
    if len(kinds) != 1:
        raise place.error(f"expected exactly one of {', '.join(KINDS)}; found {', '.join(kinds) or 'none'}")
    kind = kinds[0]
    options = {name: value for name, value in members.items() if name != kind}
    read, known = KINDS[kind]
    for name in options:
        if name not in known:
            raise place.unknown(name, known)
    try:
        make = read(place.at(kind, members[kind]), options, constraint)
        make()
    except RequestError:
        raise
    except (CtrlgenError, TypeError) as error:
        raise place.error(str(error), kind) from error
    return Steering(kind, make)


def _trace(place: Place, options: Mapping[str, Any], constraint: Any) -> Callable[[], Steerer]:
    hmm, given = _hmm(place), _numbers(place, options)
    if "attribute" not in given:
        raise place.error("a trace needs an attribute")
    attribute = _attribute(place.beside("attribute", given.pop("attribute")))

    def make() -> Steerer:
        from ctrlgen.hmm.trace import Trace

        return Trace(hmm, attribute, **given)

    return make


def _deco_g(place: Place, options: Mapping[str, Any], constraint: Any) -> Callable[[], Steerer]:
    from ctrlgen.serving.specification import part

    hmm, given = _hmm(place), _numbers(place, options)
    if "constraint" in given:
        constraint = part(place.beside("constraint", given.pop("constraint")))
    if constraint is None:
        raise place.error("the request has no constraint to steer towards; give one")
    if "attribute" in given:
        given["attribute"] = _attribute(place.beside("attribute", given["attribute"]))

    def make() -> Steerer:
        from ctrlgen.hmm.deco_g import DecoG

        return DecoG(hmm, constraint, **given)

    return make


def _plain(home: str, name: str) -> Callable[[Place, Mapping[str, Any], Any], Callable[[], Steerer]]:
    def read(place: Place, options: Mapping[str, Any], constraint: Any) -> Callable[[], Steerer]:
        given = dict(place.object())

        def make() -> Steerer:
            from importlib import import_module

            made: Steerer = getattr(import_module(f"ctrlgen.steering.{home}"), name)(**given)
            return made

        return make

    return read


def _hmm(place: Place) -> Any:
    place.registered(place.registry.hmms, "hmms")
    return place.registry.hmm(place.value)


def _attribute(place: Place) -> Any:
    place.count()
    if isinstance(place.value, str):
        place.registered(place.registry.attributes, "attributes")
        return place.registry.attribute(place.value)
    members = place.object()
    if len(members) != 1 or not set(members) <= {"all", "any", "not"}:
        raise place.error('expected a name, {"all": [...]}, {"any": [...]} or {"not": ...}')
    ((how, value),) = members.items()
    inner = place.at(how, value)
    if how == "not":
        return ~_attribute(inner)
    several = [_attribute(inner.at(number, one)) for number, one in enumerate(inner.list())]
    if not several:
        raise inner.error("expected one attribute or more")
    return reduce((lambda a, b: a & b) if how == "all" else (lambda a, b: a | b), several)


def _numbers(place: Place, options: Mapping[str, Any]) -> dict[str, Any]:
    for name in ("tokens", "top"):
        value = options.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not value > 0):
            raise place.beside(name, value).error("expected a number of tokens")
    if (options.get("tokens") or 0) > MOST_TOKENS:
        raise place.beside("tokens", options["tokens"]).error(f"expected at most {MOST_TOKENS}")
    return dict(options)


KINDS: dict[str, tuple[Callable[[Place, Mapping[str, Any], Any], Callable[[], Steerer]], tuple[str, ...]]] = {
    "trace": (_trace, ("attribute", "a", "form", "tokens", "top")),
    "deco_g": (_deco_g, ("constraint", "attribute", "a", "tokens", "keep", "top")),
    "fsd": (_plain("repetition", "FSD"), ()),
    "momentum": (_plain("repetition", "Momentum"), ()),
    "bregman": (_plain("simplex", "Bregman"), ()),
    "best_of_k": (_plain("simplex", "BestOfK"), ()),
}
"""Of each steerer what reads it, and its options."""
