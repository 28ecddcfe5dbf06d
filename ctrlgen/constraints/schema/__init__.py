"""JSON Schema -> plans -> network. In reading order:

document.py         a checked, finite copy of what the user gave; JSON pointers
resources.py        addresses, anchors and references
facts.py            what a schema says, with goals (numbers of schemas) in the place of the schemas within it
reading.py          a document -> facts, each keyword examined once; with forms.py, keyword_readers.py, misspelt.py
values.py           cases: what a value of one JSON type may be; with numbers.py and texts.py
cases.py            goals -> cases; with branches.py (anyOf, oneOf, if ...), negation.py and complements.py
members.py          the members of an object, by names.py also those that are not declared
items.py            arrays that count some items; distinct.py: arrays without equal items
costs.py            the shortest document of each goal, and with it what can be satisfied at all; with covering.py
plans.py            cases -> plans, the ways to write a value
compiling.py        all of it: text -> language, and the report of what became of each keyword
network.py          plans -> network
formats.py          the languages of ``format``; patterns.py, lengthened.py
"""
