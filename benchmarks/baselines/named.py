"""Names as a constraint by other means: baselines of catalogue.py, each with ``take(names)`` and ``rows(ids)``.

``rows(ids)`` feeds the ids of a name one by one and yields a function for each place, which makes the mask there.
"""

from __future__ import annotations

import importlib.util
import re

import torch


class PrefixFunction:
    """A trie of dictionaries over the names as the tokenizer cuts them, asked as prefix_allowed_tokens_fn is.

    It knows one cut of each name, so it forbids all others; transformers makes a row of -inf of what it returns.
    """

    name = "prefix_allowed_tokens_fn"

    def __init__(self, tokenizer, width, eos):
        self.tokenizer, self.width, self.eos = tokenizer, width, eos

    def take(self, names):
        self.root = {}
        for first in range(0, len(names), 10_000):
            for encoding in self.tokenizer.encode_batch(names[first : first + 10_000], add_special_tokens=False):
                node = self.root
                for token in encoding.ids:
                    node = node.setdefault(token, {})
                node[self.eos] = {}

    def allowed(self, prefix):
        node = self.root
        for token in prefix:
            node = node[token]
        return list(node)

    def rows(self, ids):
        for n in range(len(ids) + 1):
            prefix = torch.tensor(ids[:n])
            yield lambda prefix=prefix: self._row(prefix)

    def _row(self, prefix):
        row = torch.full((self.width,), -torch.inf)
        row[self.allowed(prefix.tolist())] = 0
        return row


class Guidance:
    """llguidance, from a regular expression; its limits are raised as far as they go."""

    name = "llguidance"

    def __init__(self, tokenizer, width, eos):
        import llguidance
        import llguidance.torch

        self.library = llguidance
        self.tokens = llguidance.LLTokenizer(tokenizer.to_str(), n_vocab=width, eos_token=eos)
        self.fill = llguidance.torch.fill_next_token_bitmask
        self.row = llguidance.torch.allocate_token_bitmask(1, width)

    def take(self, names):
        grammar = self.library.grammar_from("lark", f"start: /({'|'.join(map(re.escape, names))})/")
        limits = self.library.LLParserLimits(
            initial_lexer_fuel=2**63 - 1, step_lexer_fuel=2**63 - 1, max_lexer_states=2**31, max_grammar_size=2**31
        )
        self.matcher = self.library.LLMatcher(self.tokens, grammar, log_level=0, limits=limits)
        if self.matcher.is_error():
            raise ValueError(self.matcher.get_error())

    def rows(self, ids):
        run = self.matcher.deep_copy()
        for token in [*ids, None]:
            yield lambda: self.fill(run, self.row, 0)
            if token is not None and not run.consume_token(token):
                raise ValueError(run.get_error())


class XGrammar:
    """xgrammar, from a grammar with an alternative for each name."""

    name = "xgrammar"

    def __init__(self, tokenizer, width, eos):
        import xgrammar
        from transformers import PreTrainedTokenizerFast

        wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer)
        info = xgrammar.TokenizerInfo.from_huggingface(wrapped, vocab_size=width, stop_token_ids=[eos])
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self.library, self.row = xgrammar, xgrammar.allocate_token_bitmask(1, width)

    def take(self, names):
        self.compiled = self.compiler.compile_grammar("root ::= " + " | ".join(f'"{name}"' for name in names))

    def rows(self, ids):
        run = self.library.GrammarMatcher(self.compiled)
        for token in [*ids, None]:
            yield lambda: run.fill_next_token_bitmask(self.row, 0)
            if token is not None and not run.accept_token(token):
                raise ValueError("a token of a name is refused")


def peers():
    """The classes whose library is installed."""
    return [one for one in (PrefixFunction, Guidance, XGrammar) if one is PrefixFunction or _installed(one.name)]


def _installed(library):
    return importlib.util.find_spec(library) is not None
