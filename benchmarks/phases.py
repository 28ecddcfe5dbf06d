"""What masks of free text with constrained parts cost, with real tokenizers.

    OMP_NUM_THREADS=1 python benchmarks/phases.py TOKENIZER ... [--json]

A text of some prose and one document is followed token by token, twice: every step is new in the first round and
known in the second. TOKENIZER is a tokenizer.json or its folder. Times are of mask and advance together.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import ctrlgen as cg

SCHEMA = cg.JsonSchema(
    {
        "type": "object",
        "properties": {"answer": {"type": "integer"}, "why": {"type": "string"}},
        "required": ["answer", "why"],
        "additionalProperties": False,
    }
)
PROSE = "We add three and four: that makes 7 <b>apples</b>, so { the total } is <t> seven.\n" * 3
DOCUMENT = '{"answer": 7, "why": "it is so"}'
CALLS = {f"<tool{i:02d}>": SCHEMA >> "</tool>" for i in range(16)}
CASES = {
    "until </think>": (cg.Thinking(SCHEMA), f"</think>\n{DOCUMENT}"),
    "until EOS": (cg.Thinking(SCHEMA, end=cg.EOS), ""),
    "2 triggers": (
        cg.Dispatch({"<call>": SCHEMA >> "</call>", "```json\n": SCHEMA >> "\n```"}),
        f"<call>{DOCUMENT}</call> fine",
    ),
    "16 triggers": (cg.Dispatch(CALLS), f"<tool03>{DOCUMENT}</tool> fine"),
}


def followed(constraint, ids):
    """Microseconds of each step."""
    state, times = constraint.start, []
    for token in ids:
        begun = time.perf_counter()
        constraint.mask(state)
        state = constraint.advance(state, token)
        times.append(1e6 * (time.perf_counter() - begun))
        if state < 0:
            raise SystemExit(f"token {token} was refused")
    return np.array(times)


def measured(vocabulary):
    figures = {}
    for name, (spec, rest) in CASES.items():
        ids = vocabulary.encode_greedy((PROSE + rest).encode())
        begun = time.perf_counter()
        constraint = spec.compile(vocabulary)
        compiled = 1e3 * (time.perf_counter() - begun)
        cold, warm = followed(constraint, ids), followed(constraint, ids)
        figures[name] = {
            "tokens": len(ids),
            "compile ms": round(compiled, 2),
            "first us": round(float(cold[0]), 1),
            "cold p50 us": round(float(np.median(cold[1:])), 2),
            "cold max us": round(float(cold[1:].max()), 1),
            "all cold ms": round(float(cold.sum()) / 1e3, 2),
            "warm p50 us": round(float(np.median(warm)), 2),
            "warm p99 us": round(float(np.percentile(warm, 99)), 2),
        }
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizers", nargs="+", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    toy = cg.Vocabulary([bytes([b]) for b in range(256)] + [None], eos=256)
    measured(toy)  # compiles the kernels
    found = {}
    for path in options.tokenizers:
        vocabulary = cg.Vocabulary.from_tokenizer(str(path))
        begun = time.perf_counter()
        cg.Regex('"[^"]*"').compile(vocabulary).mask(1)  # what every constraint needs of a vocabulary
        found[path.name] = measured(vocabulary)
        print(f"\n{path.name}, {len(vocabulary)} tokens (made ready in {time.perf_counter() - begun:.2f} s)")
        for name, one in found[path.name].items():
            print(f"  {name:16}" + "".join(f"  {key} {value}" for key, value in one.items()))
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
