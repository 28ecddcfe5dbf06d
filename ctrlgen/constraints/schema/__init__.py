"""JSON Schema, from its text to a network.

document.py   the schema document: subschemas by pointer, references, which keywords there are
flat.py       what one value must satisfy: references followed, alternatives opened, siblings intersected
shapes.py     the forms of a value: null, boolean, number, string, array, object, given values
cost.py       the shortest document of each part, and which parts no document satisfies
writing.py    shapes as nodes of a network
"""
