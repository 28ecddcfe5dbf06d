"""The mask engine: automata over bytes, walked against the vocabulary's trie.

lexicon.py   automata of one vocabulary, with the rows of tokens that stay inside them
network.py   recursive transition networks over bytes: what a specification is compiled to
kernel_*.py  numba: walk the trie and the network in lock-step
machine.py   a network as a Constraint: states are interned sets of configurations
masks.py     rows of a batch applied to logits
"""
