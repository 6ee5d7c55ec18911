"""Redaction of texts from a program or server outside: without the secrets that it was given.

A server may send a password back in an error, as it is or encoded: by accident, or so that the reader of the log sees
it. Every text from outside passes through here before it is stored or logged, with all secrets of its run.
"""

import base64
import html
import json
import math
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

SHORTEST = 4
"""The fewest characters of a secret that is searched for: shorter ones occur in any text by chance."""
STRUCK_OUT = "***"
LONGEST = 2**16
"""The most characters of a text that are searched: an address of many parts has thousands of spellings."""


def redacted(text: str, secrets: Iterable[str]) -> str:
    """`text` with every spelling of each of `secrets` struck out, and without its middle if it is very long."""
    spellings = sorted({spelling for secret in secrets for spelling in spellings_of(secret)}, key=len, reverse=True)
    if len(text) <= LONGEST:
        return _struck_out(text, spellings)
    begin, end = (_struck_out(part, spellings) for part in (text[: LONGEST // 2], text[-LONGEST // 2 :]))
    half_a_secret = len(spellings[0]) if spellings else 0
    return f"{begin[: max(0, len(begin) - half_a_secret)]} … {end[half_a_secret:]}"


def _struck_out(text: str, spellings: Iterable[str]) -> str:
    for spelling in spellings:
        text = text.replace(spelling, STRUCK_OUT)
    return text


def spellings_of(secret: str) -> set[str]:
    """Possible spellings of a secret: as it is, each of its longer lines, URL-encoded, in HTML, JSON and Python, as hex
    and base64 (also where it is a part of the encoded text, such as in `user:password`).
    """
    found: set[str] = set()
    for part in {secret, secret.strip(), *(line.strip() for line in secret.splitlines() if len(line) >= 16)}:
        data = part.encode(errors="surrogatepass")
        urls = {quote(data, safe=""), quote(data), quote_plus(data)}
        texts = {
            part,
            html.escape(part),
            json.dumps(part)[1:-1],
            json.dumps(part, ensure_ascii=False)[1:-1],
            repr(part)[1:-1],
        }
        found |= (
            texts | urls | {_lower_escapes(url) for url in urls} | {data.hex(), data.hex().upper(), *_in_base64(data)}
        )
    return {spelling for spelling in found if len(spelling) >= SHORTEST}


def _lower_escapes(url: str) -> str:
    first, *others = url.split("%")
    return "%".join([first, *(each[:2].lower() + each[2:] for each in others)])


def _in_base64(data: bytes) -> set[str]:
    """The characters of base64 that `data` alone determines, wherever in the encoded bytes it begins."""
    found = set()
    for before in range(3):
        text = base64.b64encode(bytes(before) + data).decode().rstrip("=")
        whole = text[math.ceil(before * 8 / 6) : (before + len(data)) * 8 // 6]
        found |= {whole, whole.replace("+", "-").replace("/", "_")}
    return found
