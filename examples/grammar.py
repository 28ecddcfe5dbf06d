"""SQL from a small model: the same prompts freely, and held to the ready grammar of SELECT statements.

Every constrained answer is parsed by SQLite; what a 135M-parameter model asks of the tables is another matter.
"""

from __future__ import annotations

import os
import sqlite3

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # spinning threads cost dear on a shared machine

import ctrlgen as cg
from ctrlgen import models
from ctrlgen.constraints.grammar import Grammar
from ctrlgen.grammars.library import ready_grammar

TABLES = "CREATE TABLE users (id, name, age); CREATE TABLE orders (id, user_id, total);"
QUESTIONS = ["the names of all users", "how many orders there are", "users older than 30, the oldest first"]


def ask(question: str) -> str:
    """The prompt for a question."""
    return f"Tables: {TABLES}\nAnswer with one SQL query and nothing else.\nQuestion: {question}"


def is_sql(text: str) -> bool:
    """Whether SQLite can parse a statement; names of columns that are not there do not matter."""
    with sqlite3.connect(":memory:") as database:
        database.executescript(TABLES)
        try:
            database.execute(f"EXPLAIN {text}")
        except sqlite3.Error as error:
            return "no such" in str(error)
        return True


def main() -> None:
    """Print each answer with a mark for whether it is SQL."""
    model, tokenizer = models.load()
    sql = ready_grammar("sql")
    for title, constraint in (("free", None), ("held to sql.lark", Grammar(sql.text, lexer=sql.lexer))):
        results = cg.generate(
            model, tokenizer, [ask(question) for question in QUESTIONS], constraint=constraint, max_new_tokens=60
        )
        print(f"\n{title}")
        for question, result in zip(QUESTIONS, results, strict=True):
            print(f"  {'ok ' if is_sql(result.text) else 'BAD'} {question}: {' '.join(result.text.split())[:90]}")


if __name__ == "__main__":
    main()
