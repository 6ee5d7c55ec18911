"""Valid input of a parser, changed in a few places: what a hostile server or a damaged disk makes of it."""

import re
from collections.abc import Callable

from hypothesis import strategies as st

TOKENS = (
    b"", b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\n", b"\r\n", b'"', b"\\", b"[", b"{", b"[" * 20_000,
    b'{"a":' * 5_000, b"null", b"true", b"[]", b"{}", b"[1]", b'{"a":1}', b"-1", b"0", b"NaN", b"Infinity", b"1e999",
    b"9" * 30, b"9" * 400, b"9" * 5_000, b"1.5", b'""', b'"x"', b'"../x"', b'"/etc/passwd"', b'"\\u0000"', b'"\\ud800"',
    b'"2026-13-45T99:99Z"', b'"9999999-01-01T00:00:00Z"', b'"0001-01-01T00:00:00+14:00"', b'"' + b"a" * 70_000 + b'"',
    b"/" * 300, b"{99999999999}\r\n", b"(" * 3_000, b"\x1b[2J",
)  # fmt: skip
"""Texts that replace a part, or come between two."""
PART = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null|\{\d+\}|[A-Z]{2,}')
"""Strings, numbers, words and lengths."""

Mutation = Callable[[bytes], bytes]


def _put(token: int | bytes, at: int, cut: int) -> Mutation:
    def mutated(data: bytes) -> bytes:
        inserted = TOKENS[token] if isinstance(token, int) else token
        place = at % (len(data) + 1)
        return data[:place] + inserted + data[place + cut :]

    return mutated


def _replace(token: int, which: int) -> Mutation:
    def mutated(data: bytes) -> bytes:
        parts = list(PART.finditer(data))
        if not parts:
            return TOKENS[token]
        part = parts[which % len(parts)]
        return data[: part.start()] + TOKENS[token] + data[part.end() :]

    return mutated


def _flip(at: int) -> Mutation:
    def mutated(data: bytes) -> bytes:
        place = at % (8 * len(data) or 1)
        byte = place // 8
        return data[:byte] + bytes([data[byte] ^ 1 << place % 8]) + data[byte + 1 :] if data else data

    return mutated


def _again(at: int, size: int, times: int) -> Mutation:
    def mutated(data: bytes) -> bytes:
        place = at % (len(data) + 1)
        return data[:place] + data[place : place + size] * times + data[place:]

    return mutated


_tokens = st.integers(0, len(TOKENS) - 1)
_places = st.integers(0, 100_000)
_one = st.one_of(
    st.builds(_replace, _tokens, _places),
    st.builds(_put, _tokens, _places, st.integers(0, 40)),
    st.builds(_put, st.binary(max_size=20), _places, st.integers(0, 40)),
    st.builds(_flip, _places),
    st.builds(_again, _places, st.integers(1, 400), st.integers(1, 50)),
    _places.map(lambda at: lambda data: data[: at % (len(data) + 1)]),
)


def _all(mutations: list[Mutation]) -> Mutation:
    def mutated(data: bytes) -> bytes:
        for each in mutations:
            data = each(data)
        return data

    return mutated


mutations: st.SearchStrategy[Mutation] = st.lists(_one, min_size=1, max_size=4).map(_all)
