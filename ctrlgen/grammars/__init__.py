"""Front ends: what users write (regular expressions, numbers, grammars) -> byte automata."""
