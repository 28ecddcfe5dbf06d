"""The languages of ``format``, as regular expressions over the value of the string."""

from __future__ import annotations

_HEX = "[0-9a-fA-F]"
_SHORT_MONTH = "(0[469]|11)-(0[1-9]|[12][0-9]|30)"
_LONG_MONTH = "(0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])"
_LEAP_YEAR = "([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"
_DATE = f"([0-9]{{4}}-({_LONG_MONTH}|{_SHORT_MONTH}|02-(0[1-9]|1[0-9]|2[0-8]))|{_LEAP_YEAR}-02-29)"
# no leap second: whether 60 is right depends on the date and the offset together
_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?([zZ]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
_BYTE = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"

FORMATS: dict[str, str] = {
    "date": f"^(?!0000){_DATE}$",
    "time": f"^{_TIME}$",
    "date-time": f"^(?!0000){_DATE}[tT]{_TIME}$",
    "uuid": f"^{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}$",
    "ipv4": rf"^{_BYTE}(\.{_BYTE}){{3}}$",
}
"""Each month has its own length, years run from 0001; at most nine digits of a second."""
