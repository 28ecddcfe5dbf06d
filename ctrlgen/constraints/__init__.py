"""What a user writes: small immutable values that compile to constraints.

choice.py        one of given texts
regex.py         a regular expression
json_schema.py   a JSON Schema, a Pydantic model, a dataclass, a TypedDict
"""
