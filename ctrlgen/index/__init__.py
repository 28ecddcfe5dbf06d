"""Catalogues: millions of token sequences as a constraint.

layout.py        the arrays of an index, and what states are
items.py         reading a catalogue
sorting.py       its lexicographic order
build.py         from items to arrays
token_index.py   TokenIndex: the Constraint, and steps over batches on the host
filters.py       parts of a catalogue, switched on and off between steps
*_kernels.py     the loops of all these; compiled.py compiles them when they are first called
"""
