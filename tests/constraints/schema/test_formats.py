"""Formats against the grammars of their RFCs, rule by rule, and against other judges of single strings."""

from __future__ import annotations

import json
import re
from calendar import isleap
from datetime import date, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlgen.constraints.schema.formats import ANNOTATION_FORMATS, FORMAT_NAMES, built, format_automaton
from ctrlgen.grammars.regex import compile_regex

# RFC 3986 appendix A and RFC 3987 section 2.2, each rule a regular expression
H16 = "[0-9A-Fa-f]{1,4}"
DEC_OCTET = "([0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])"
IPV4 = rf"{DEC_OCTET}\.{DEC_OCTET}\.{DEC_OCTET}\.{DEC_OCTET}"
LS32 = f"({H16}:{H16}|{IPV4})"
IPV6 = "(" + "|".join([
    f"({H16}:){{6}}{LS32}",
    f"::({H16}:){{5}}{LS32}",
    f"({H16})?::({H16}:){{4}}{LS32}",
    f"(({H16}:){{0,1}}{H16})?::({H16}:){{3}}{LS32}",
    f"(({H16}:){{0,2}}{H16})?::({H16}:){{2}}{LS32}",
    f"(({H16}:){{0,3}}{H16})?::{H16}:{LS32}",
    f"(({H16}:){{0,4}}{H16})?::{LS32}",
    f"(({H16}:){{0,5}}{H16})?::{H16}",
    f"(({H16}:){{0,6}}{H16})?::",
]) + ")"  # fmt: skip
UCSCHAR = "\\u00A0-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFEF" + "".join(
    f"{chr(low)}-{chr(low | 0xFFFD)}" for low in [*range(0x10000, 0xE0000, 0x10000), 0xE1000]
)
IPRIVATE = f"\\uE000-\\uF8FF{chr(0xF0000)}-{chr(0xFFFFD)}{chr(0x100000)}-{chr(0x10FFFD)}"


def identifier(reference: bool, ucschar: str = "", iprivate: str = "") -> str:
    unreserved = rf"\-A-Za-z0-9._~{ucschar}"
    encoded = "%[0-9A-Fa-f]{2}"
    sub_delims = "!$&'()*+,;="
    pchar = f"([{unreserved}{sub_delims}:@]|{encoded})"
    segment, segment_nz = f"{pchar}*", f"{pchar}+"
    segment_nz_nc = f"([{unreserved}{sub_delims}@]|{encoded})+"
    path_abempty, path_absolute = f"(/{segment})*", f"/({segment_nz}(/{segment})*)?"
    path_rootless, path_noscheme = f"{segment_nz}(/{segment})*", f"{segment_nz_nc}(/{segment})*"
    future = rf"[vV][0-9A-Fa-f]+\.[\-A-Za-z0-9._~{sub_delims}:]+"
    host = rf"(\[({IPV6}|{future})\]|([{unreserved}{sub_delims}]|{encoded})*)"
    authority = f"(([{unreserved}{sub_delims}:]|{encoded})*@)?{host}(:[0-9]*)?"
    query, fragment = f"({pchar}|[/?{iprivate}])*", f"({pchar}|[/?])*"
    uri = rf"[A-Za-z][A-Za-z0-9+\-.]*:(//{authority}{path_abempty}|{path_absolute}|{path_rootless}|)"
    relative = f"(//{authority}{path_abempty}|{path_absolute}|{path_noscheme}|)"
    return rf"^({uri}|{relative})(\?{query})?(#{fragment})?$" if reference else rf"^{uri}(\?{query})?(#{fragment})?$"


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("ipv6", f"^{IPV6}$"),
        ("uri", identifier(False)),
        ("uri-reference", identifier(True)),
        ("iri", identifier(False, UCSCHAR, IPRIVATE)),
        ("iri-reference", identifier(True, UCSCHAR, IPRIVATE)),
    ],
)
def test_exactly_the_rules(name: str, rule: str) -> None:
    expected = compile_regex(rule, dialect="ecma", search=True, json=True, escapes="canonical")
    assert format_automaton(name, "canonical").signature == expected.signature


def matches(name: str, text: str) -> bool:
    content = json.dumps(text, ensure_ascii=False)[1:-1].encode()
    found = format_automaton(name, "all").matches(content)
    assert format_automaton(name, "canonical").matches(content) == found
    return found


CASES: dict[str, tuple[list[str], list[str]]] = {
    "date": (["2024-02-29", "0001-01-01", "9999-12-31", "0400-02-29"], ["0000-02-29", "1900-02-29", "2024-1-01",
        " 2024-01-01"]),
    "time": (
        ["08:30:06Z", "08:30:06.1234567890z", "23:59:59-23:59", "23:59:60Z", "23:59:60.5+00:00"],
        ["08:30:06", "24:00:00Z", "08:30:60Z", "08:30:06.Z", "08:30:06+24:00", "23:59:60+01:00", "8:30:06Z"],
    ),
    "date-time": (
        ["1963-06-19T08:30:06.283185Z", "1998-12-31t23:59:60z", "2016-12-31T23:59:60.123Z",
            "2015-06-30T23:59:60-00:00"],
        ["1998-12-31T23:58:60Z", "1998-12-30T23:59:60Z", "2017-12-31T23:59:60Z", "2024-01-01 00:00:00Z",
            "2023-02-29T00:00:00Z"],
    ),
    "duration": (
        ["P4DT12H30M5S", "P4Y", "PT0S", "P0D", "P1M", "PT1M", "P2W", "P1Y2M3DT4H5M6S", "PT36H", "P1Y2M"],
        ["PT1D", "P", "P1YT", "PT", "P1Y2W", "P1D2H", "P2D1Y", "P2S", "PT1H2S", "P1Y1D", "P0.5Y", "4DT12H", "P1"],
    ),
    "email": (
        ["joe.bloggs@example.com", "te~st@example.com", "!#$%&'*+/=?^_`{|}~-@a-b.c3", "a@localhost", "a@1.2",
            f"{'a' * 64}@example.com"],
        [
            "2962", "@example.com", "joe@", ".a@b.c", "a.@b.c", "a..b@b.c", "a@b@c", "a@-b.c", "a@b..c", "a@b.c.",
            f"{'a' * 65}@example.com", f"a@{'a' * 64}.com", "é@example.com", 'a"b@c.d', "a b@c.d",
        ],
    ),
    "idn-email": (
        ["실례@example.com", "a@example.com", f"{'a' * 64}@example.com", f"{'é' * 16}@example.com"],
        [f"{'é' * 17}@example.com", "é.@example.com", "é", "a@é.com", f"é{'a' * 16}@example.com",
            f"{'a' * 16}é@example.com"],
    ),
    "hostname": (
        ["www.example.com", "1host", "h", "xn--4gbwdl.xn--wgbh1c", "a-b", "1-1", f"{'a' * 63}.{'b' * 63}",
            "EXAMPLE.com", "a.b1"],
        [
            "", "-a", "a-", "a..b", ".", "a.", ".a", "a_b", "a b", "é", "127.0.0.1", "1", f"{'a' * 64}",
                f"{'a' * 64}.com",
            f"a.{'b' * 64}", f"a.{'b' * 60}.c.d", "a.-b", "a-.b",
        ],
    ),
    "ipv4": (["192.168.0.1", "0.0.0.0", "255.255.255.255"], ["256.0.0.1", "127.0.0", "127.0.0.0.1", "087.10.0.1",
        "1.2.3.4/8", ""]),
    "ipv6": (
        ["::1", "::", "1::", "2001:db8::ff00:42:8329", "::ffff:192.168.0.1", "1:2:3:4:5:6:7::",
            "1:2:3:4:5:6:1.2.3.4"],
        ["12345::", ":1", "1:", "1::2::3", "1:2:3:4:5:6:7:8::", "::1%eth0", "1:2:3:4:5:6:7", "1.2.3.4",
            "1:2:3:4:5:6:7:1.2.3.4"],
    ),
    "uri": (
        ["http://foo.bar/?baz=qux#quux", "mailto:a@b.c", "urn:oasis:names", "a:", "http://u:p@[::1]:80/%20",
            "ftp://[v1.a:b]/", "a:/b//c"],
        ["//foo.bar", "/a", "a", "http:// b", "http://[12345::]/", "http://a:b@c:d/", "1a:",
            "http://a/%2", 'a:"', "http://é/", "a:b#c#d"],
    ),
    "uri-reference": (["", "/a", "//a.b/c", "a/b:c", "#f", "?q", "a:b", "./a:b"], ["\\\\a", ":a", "1:b", "%zz",
        "a b", "[", "{"]),
    "iri": (["http://ƒøø.ßår/?∂éœ=πîx#πîüx", "a:\U00010000", "a:?\ue000"], ["a:\ue000", "/a", "a:\u0080",
        "a:#\ue000", "a:\ufffe"]),
    "iri-reference": (["é", "//é", "#é", "?\U0010fffd"], ["é:a", "\\é", "a b"]),
    "uri-template": (
        ["", "http://e.com/{term:1}/{term}", "{?x,y*}", "{+a.b}", "{%20}", "é{a}", "{.a}"],
        ["{", "{}", "a}", "{a:0}", "{a:10000}", "{a,}", "{a b}", "'", "%2", "{*a}", "{a:1*}", "{.a.}", "{=a}"],
    ),
    "uuid": (["2EB8AA08-aa98-11ea-b4aa-73b441d16380", "00000000-0000-0000-0000-000000000000"],
        ["2eb8aa08aa9811eab4aa73b441d16380", ""]),
    "json-pointer": (["", "/", "/foo/bar~0/~1/%", "//", '/"\\\n'], ["a", "/~", "/~2", "#", "#/a"]),
    "relative-json-pointer": (["0", "1/a", "2#", "0/", "10/~0"], ["", "-1", "01", "1a", "0##", "1/~", "+1", "/a"]),
    "regex": (
        ["", "^a.b$", r"([abc])+\s+$", "(?:a|b)*?", "[^a-z0-9_-]{2,}", "[-a]", r"\.[\b\]]", "a|", "(((a)))",
            "a{0,3}", "x{12}"],
        ["^(abc]", "(", ")", "*", "a**", "[", "a{", "}", "]", "a{2,1}", "[z-a]", "\\", "\\q", "(?<a>b)", "^*",
            "((((a))))", "|*", "[]"],
    ),
}  # fmt: skip


def test_every_format_has_cases() -> None:
    assert set(CASES) == FORMAT_NAMES
    assert not FORMAT_NAMES & set(ANNOTATION_FORMATS)


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str) -> None:
    accepted, refused = CASES[name]
    assert [text for text in accepted if not matches(name, text)] == []
    assert [text for text in refused if matches(name, text)] == []


def test_every_day() -> None:
    automaton = format_automaton("date", "canonical")
    for year in (1, 4, 100, 400, 1000, 1899, 1900, 1999, 2000, 2023, 2024, 9999):
        days = {str(date(year, 1, 1) + timedelta(day)) for day in range(365 + isleap(year))}
        tried = [f"{year:04}-{month:02}-{day:02}" for month in range(14) for day in range(33)]
        assert {text for text in tried if automaton.matches(text.encode())} == days


def is_domain(text: str) -> bool:
    labels = text.split(".")
    wellformed = all(re.fullmatch("(?a:[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)", label) for label in labels)
    return wellformed and len(".".join(labels[1:])) <= 63


labels = st.tuples(st.sampled_from(["a", "1", "ab-", "-", "9.z", "."]), st.integers(0, 70)).map(
    lambda pair: pair[0] * pair[1]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(labels, max_size=4).map(".".join))
def test_hostnames(text: str) -> None:
    expected = is_domain(text)
    assert matches("hostname", text) == (expected and not text.split(".")[-1].isdigit())
    assert matches("email", f"a.b@{text}") == expected
    assert matches("idn-email", f"é@{text}") == expected


@settings(max_examples=150, deadline=None)
@given(st.text(st.sampled_from("a1(|)[]^$*+?{},-z\\.:0db"), max_size=8))
def test_regexes_compile(text: str) -> None:
    if matches("regex", text):
        compile_regex(text, dialect="ecma")
        re.compile(text)


@pytest.mark.parametrize("name", sorted(FORMAT_NAMES))
def test_what_is_kept_on_disk_is_what_would_be_built(name: str) -> None:
    format_automaton(name, "canonical")
    format_automaton.cache_clear()
    assert format_automaton(name, "canonical").signature == built(name, "canonical").signature
