"""The texts a tokenizer is tested on when it is loaded: short, and each with its own way to go wrong.

None contains the name of a usual control token, which would be encoded as that token.
"""

from __future__ import annotations

PROBES: tuple[str, ...] = (
    # every printable ASCII character, in and out of order
    "".join(map(chr, range(32, 127))),
    "".join(map(chr, range(126, 32, -1))),
    "hello world",
    "The quick brown fox jumps over the lazy dog.",
    "camelCase snake_case SCREAMING_CASE kebab-case",
    "it's we'll they'd I'm you've IT'S",
    # JSON
    '{"name": "Ada", "age": 36, "tags": ["x", "y"], "ok": true, "none": null}',
    '{\n  "nested": {\n    "list": [1.5, -2e10, 0],\n    "empty": {}\n  }\n}',
    r'{"escapes": "\"\\\/\b\f\n\r\té"}',
    '[[[[]]]],{}:,""',
    # code
    "def f(x: int) -> str:\n    return f'{x!r}'  # done\n",
    "for (i = 0; i < n; ++i) { a[i] <<= 2; }\t// shift\r\n",
    "<div class='a'>&amp;</div>",
    "SELECT * FROM t WHERE a >= 10 AND b <> 'c';",
    "https://example.org/a/b?q=1&r=%20#top",
    # blanks of all sorts, also at the ends
    " leading and trailing ",
    "two  three   four    nine         thirty                              end",
    "\ttab\t\ttwo tabs",
    "\n\n\nlines\n\r\n\rmixed\n \n  \n",
    "zero\u200bwidth, no\u00a0break, thin\u2009, ideographic\u3000",
    "\x00\x01\x07\x1b[0m\x7f control characters",
    # digits
    "0 1 12 123 1234 12345 3.14159 1,000,000 2026-12-01T02:12:57Z",
    "٠١٢٣ ०१२३ ½ ² Ⅷ",
    # accents, composed and decomposed
    "café naïve Ångström Žluťoučký",
    "cafe\u0301 nai\u0308ve A\u030angstro\u0308m",
    "ﬁ ﬂ ß ẞ İ ı ſ",
    # other scripts
    "Привет, мир! Γειά σου Κόσμε",
    "你好，世界。日本語のテキスト、カタカナ。안녕하세요",
    "שלום עולם, مرحبا بالعالم",
    "नमस्ते दुनिया สวัสดีชาวโลก",
    # symbols and beyond the basic plane
    "€ £ ¥ © ® ™ … — “quotes” «guillemets» ≤ ≠ → ∞",
    "👋 😀 👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 👍🏽",
    "𝒳 𐍈 𠜎 \U0010fffd",
    "\ufeffmark \ufffd replacement \ufffe",
    "┌─┐│█▒░└─┘",
    # mixed
    'emoji in JSON: {"k": "v👋🏽é\u0301"}\n\t"next"',
    "a\nb\tc d\u00e9 你 1 👋 end",
    "x" * 70,
    "= " * 20 + "-" * 33,
)
