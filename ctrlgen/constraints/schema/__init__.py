"""JSON Schema -> shapes -> network.

document.py    a checked, finite copy of what the user gave; pointers and references
keywords.py    what each keyword must look like, and which ones are refused
formats.py     the languages of ``format``
shapes.py      what one JSON type may be, and the intersection of two such shapes
expansion.py   schemas -> shapes
objects.py     which names an object may have, and what each may hold
lengths.py     the shortest document, and with it what can be satisfied at all
network.py     shapes -> network
"""
