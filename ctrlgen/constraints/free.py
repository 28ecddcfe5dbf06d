"""Free text until something, and the control tokens that can be that something.

    cg.Free(until="</think>") >> cg.JsonSchema(schema)          until a string, wherever the tokenizer cuts it
    cg.Free(until=cg.Token("<|tool|>")) >> cg.JsonSchema(...)   until a control token
    cg.Free(until=cg.EOS) >> cg.JsonSchema(...)                 until the model would end: the end token is swallowed
    cg.Free()                                                   to the end of the text

Free text is any text tokens: nothing is masked but what must be. Control tokens are none, unless they are waited for or
in ``allow``; neither is the end token, except where free text comes last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctrlgen.constraints.combined import _Compiled
from ctrlgen.constraints.free_text import check_strings, text_until, text_without
from ctrlgen.errors import InputError, VocabularyError

if TYPE_CHECKING:
    from ctrlgen.engine.lexicon import Lexicon
    from ctrlgen.engine.network import Network


@dataclass(frozen=True)
class Token(_Compiled):
    """One control token: the id itself, never its text.

    Args:
        name: its name, such as ``"<|tool|>"``, or its id.
        or_text: where the tokenizer has no such control token, the name as text. Tokenizers differ in whether they
            take ``</think>`` for text, which they may also cut. Without it text is refused here: write a string.
    """

    name: str | int
    or_text: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.name, bool) or not isinstance(self.name, (str, int)):
            raise InputError(f"a token is given by its name or id, not {self.name!r}")
        if self.or_text and not isinstance(self.name, str):
            raise InputError(f"an id such as {self.name} is no text; give the token's name")

    def build(self, network: Network) -> int:
        """The start node in ``network``."""
        from ctrlgen.engine.network import END

        found = self.within(network.lexicon)
        if isinstance(found, str):
            return network.literal(found.encode(), END)
        return network.letters([(self.letter(network.lexicon), END)])

    def within(self, lexicon: Lexicon) -> Token | str:
        """This, or its text where that is what it is."""
        return str(self.name) if self.or_text and self.name not in lexicon.special else self

    def letter(self, lexicon: Lexicon) -> int:
        """The letter that a network has for it.

        Raises:
            VocabularyError: the vocabulary has no such control token.
        """
        from ctrlgen.engine.columns import LETTERS

        names = lexicon.special
        number = self.name if isinstance(self.name, int) else names.get(self.name, -1)
        if number in lexicon.eos:
            raise VocabularyError(f"{self.name!r} ends a text; to go on where the model would end, use ctrlgen.EOS")
        if number not in names.values() or not 0 <= number < lexicon.width:
            shown = ", ".join(map(repr, sorted(names, key=names.__getitem__)[:8]))
            raise VocabularyError(
                f"{self.name!r} is no control token of this vocabulary; it has {shown or 'none'}"
                f"{', ...' if len(names) > 8 else ''}. If it is text, give it as a string"
            )
        return LETTERS + number


@dataclass(frozen=True)
class EndOfText:
    """The place where the model would end; EOS is the one value of this type."""

    def __repr__(self) -> str:
        return "EOS"


EOS = EndOfText()
"""In place of a string to wait for: the end token, which is not kept. See ``docs/phases.md``."""

Ending = str | Token | EndOfText


@dataclass(frozen=True, init=False)
class Free(_Compiled):
    """Any text, up to and with the first of what it waits for.

    Args:
        until: a string, a Token, EOS, or several of these; None: the text ends here.
        max_tokens: the most tokens that begin and end in the free text. After them the nearest of what it waits for
            is spelled out (of EOS nothing is). None: no limit.
        keep: tokens of the budget (``max_new_tokens``) that are for what follows, or a share of it below 1: when no
            more remain, the nearest of what it waits for is spelled out. What must follow is counted in any case.
        without: strings that may not come in it.
        allow: control tokens that may.

    Raises:
        InputError: a string is empty or found within another; what does not fit together.
    """

    until: tuple[Ending, ...]
    max_tokens: int | None
    keep: float
    without: tuple[str, ...]
    allow: tuple[Token, ...]

    def __init__(
        self,
        until: Ending | Iterable[Ending] | None = None,
        *,
        max_tokens: int | None = None,
        keep: float = 0,
        without: str | Iterable[str] = (),
        allow: Token | Iterable[Token] = (),
    ) -> None:
        ends = several(
            () if until is None else until, (str, Token, EndOfText), "until takes strings, Token(...) or EOS"
        )
        if until is not None and not ends:
            raise InputError("until is empty; leave it out for text that goes on to the end")
        check_limit(max_tokens)
        check_keep(keep)
        object.__setattr__(self, "keep", keep)
        object.__setattr__(self, "until", ends)
        object.__setattr__(self, "max_tokens", max_tokens)
        object.__setattr__(self, "without", several(without, (str,), "without takes strings"))
        object.__setattr__(self, "allow", several(allow, (Token,), "allow takes Token(...)"))
        check_strings(strings_of((*self.until, *self.without)))
        check_tokens((*self.until, *self.allow))

    def __repr__(self) -> str:
        shown = [f"until={(self.until[0] if len(self.until) == 1 else self.until)!r}"] if self.until else []
        names = ("max_tokens", "keep", "without", "allow")
        shown += [f"{name}={getattr(self, name)!r}" for name in names if getattr(self, name) not in (None, 0, ())]
        return f"Free({', '.join(shown)})"

    @property
    def open_end(self) -> bool:
        """Whether nothing can follow."""
        return not self.until

    def build(self, network: Network) -> int:
        """The start node of the free text in ``network``."""
        from ctrlgen.engine.network import END

        ways = [(end, END) for end in self.until]
        return Ways(network, self.without, self.allow, self.max_tokens, self.keep).node(ways, open_end=self.open_end)


class Ways:
    """Free text of a network that may end in several ways."""

    def __init__(
        self,
        network: Network,
        without: tuple[str, ...],
        allow: tuple[Token, ...],
        limit: int | None,
        keep: float = 0,
    ) -> None:
        self._network, self._limit, self._keep = network, limit, keep
        self._without, self._allow = without, allow
        self._number = network.rule(0)  # of no other free text

    def node(
        self, ways: Sequence[tuple[Ending, int]], *, others: tuple[Ending, ...] = (), open_end: bool = False
    ) -> int:
        """Text until the first of ``ways``, each with the node to go on at.

        Args:
            ways: what the text ends with.
            others: what may not come in it, like ``without``.
            open_end: whether the text as a whole may end here as well.
        """
        from ctrlgen.engine.columns import LEAVE
        from ctrlgen.engine.network import END

        network = self._network
        ways = [(end.within(network.lexicon) if isinstance(end, Token) else end, then) for end, then in ways]
        others = tuple(end.within(network.lexicon) if isinstance(end, Token) else end for end in others)
        check_strings(strings_of((*(end for end, _ in ways), *others, *self._without)))
        texts: dict[int, list[bytes]] = {}
        letters: list[tuple[int, int]] = []
        for end, then in ways:
            if isinstance(end, str):
                texts.setdefault(then, []).append(end.encode())
            elif isinstance(end, Token):
                letters.append((end.letter(network.lexicon), then))
        leave = next((then for end, then in ways if isinstance(end, EndOfText)), None)
        stops = {text for several in texts.values() for text in several} | set(strings_of(others))
        never = tuple(sorted(stops | set(strings_of(self._without))))
        start = network.rule(min(network.cost[then] + _length(end) for end, then in ways) if ways else 0)
        nodes = [
            self._free(
                text_until(tuple(sorted(several)), tuple(s for s in never if s not in several)), then, then, False
            )
            for then, several in texts.items()
        ]
        if letters or leave is not None or self._allow:
            edges = [*letters, *([] if leave is None else [(LEAVE, leave)])]
            out = leave if leave is not None else network.letters(letters) if letters else None
            edges += [(token.letter(network.lexicon), start) for token in self._allow]
            then = network.letters(edges)
            out = then if out is None else out
            nodes.append(self._free(text_without(never), then, out, leave is not None))
        if open_end:
            nodes.append(self._free(text_without(never), END, END, False))
        network.define(start, network.fork(nodes))
        return start

    def _free(self, automaton: object, then: int, out: int, leaves: bool) -> int:
        from ctrlgen.engine.network import Phase

        return self._network.free(automaton, then, Phase(self._number, self._limit, out, leaves, self._keep))  # type: ignore[arg-type]


def _length(end: Ending) -> int:
    return len(end.encode()) if isinstance(end, str) else int(isinstance(end, Token))


def several(value: object, kinds: tuple[type, ...], wanted: str) -> tuple[object, ...]:
    """One value or several as a tuple.

    Raises:
        InputError: one is not of ``kinds``.
    """
    if isinstance(value, kinds):
        return (value,)
    if not isinstance(value, Iterable):
        raise InputError(f"{wanted}, or several of them, not {value!r}")
    found = tuple(value)
    for one in found:
        if not isinstance(one, kinds):
            raise InputError(f"{wanted}, or several of them, not {one!r}")
    return found


def strings_of(ends: Iterable[object]) -> tuple[bytes, ...]:
    """The bytes of those that are strings.

    Raises:
        InputError: one has a lone surrogate.
    """
    try:
        return tuple(end.encode() for end in ends if isinstance(end, str))
    except UnicodeEncodeError as error:
        raise InputError(f"{error.object!r} has a lone surrogate, which no valid text contains") from None


def check_tokens(ends: Iterable[object]) -> None:
    """Raise if a control token or EOS is given twice."""
    seen = set()
    for end in ends:
        if not isinstance(end, str) and end in seen:
            raise InputError(f"{end!r} is given twice")
        seen.add(end)


def check_keep(keep: object) -> None:
    """Raise unless it is a number of tokens, or a share below 1."""
    number = isinstance(keep, (int, float)) and not isinstance(keep, bool)
    if not number or not 0 <= keep < 1 << 30 or (keep > 1 and keep % 1):  # type: ignore[operator]
        raise InputError(f"keep is {keep!r}; expected a number of tokens, or a share of them below 1")


def check_limit(max_tokens: object) -> None:
    """Raise unless it is a number of tokens or None."""
    if max_tokens is not None and (isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 0):
        raise InputError(f"max_tokens is {max_tokens!r}; expected a number of tokens, or None for no limit")
