"""Context-free grammars in the mask engine.

productions.py     a grammar as ints: terminals, nonterminals, rules; what cannot end is dropped
lookaheads.py      which terminals may follow a rule in a state: LALR(1) by DeRemer and Pennello
tables.py          shifts and reductions of each state, with conflicts resolved as Lark does, or all kept
lexer.py           how terminals are told apart: lists of live terminals in order of preference
kernel_*.py        numba: rows of lexer states, stacks, walks of the trie, masks
machine.py         a grammar as a Constraint
"""
