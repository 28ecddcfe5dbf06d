"""Catalogues: millions of token sequences as a constraint.

layout.py        the arrays of an index, and what states are
items.py         reading a catalogue
sorting.py       its lexicographic order
build.py         from items to arrays
token_index.py   TokenIndex: the Constraint, and steps over batches on the host
numbering.py     states of a batch as the single numbers of the Constraint protocol
filters.py       parts of a catalogue, switched on and off between steps
item_ids.py      what items are called
prior.py         weights of items: mass below a state, exact samples
device.py        steps over batches with torch, on any device; device_union.py over several indexes
snapshot.py      several indexes as one catalogue
live.py          LiveIndex: items added and removed while others read; merge.py for its compaction
storage.py       an index as a file that is mapped into memory
external.py      building one larger than memory
*_kernels.py     the loops of all these; compiled.py compiles them when they are first called
"""
