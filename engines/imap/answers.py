"""The answers of an IMAP server to FETCH, as imaplib returns them."""

import imaplib
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

NUMBER = re.compile(rb"\d+ \(")
UID = re.compile(rb"\bUID (\d+)")
FLAGS = re.compile(rb"\bFLAGS \(([^()]*)\)", re.IGNORECASE)
SIZE = re.compile(rb"\bRFC822\.SIZE (\d+)", re.IGNORECASE)
IS_PIECE = re.compile(rb"\bBODY\[\]<0>", re.IGNORECASE)
EMPTY = re.compile(rb'\bBODY\[\](<0>)? (""|NIL)', re.IGNORECASE)


@dataclass
class Mail:
    """The server's answer about one message."""

    text: bytes
    body: bytes | None = None


def mails_of(lines: list[Any]) -> list[Mail]:
    """The FETCH responses among the lines as imaplib returns them: a literal comes between the parts of its line."""
    found: list[Mail] = []
    for line in lines:
        if isinstance(line, tuple):
            found.append(Mail(line[0], line[1]))
        elif line and NUMBER.match(line):
            found.append(Mail(line, b"" if EMPTY.search(line) else None))
        elif line and found:
            found[-1].text += b" " + line
    return found


def number_of(pattern: re.Pattern[bytes], text: bytes) -> int:
    """The number that a pattern finds; 0 if it finds none."""
    return int(match[1]) if (match := pattern.search(text)) and len(match[1]) < 20 else 0


def received_at(text: bytes) -> float:
    """Seconds since 1970; 0 if the server gives no time."""
    with suppress(ValueError, OverflowError):
        if moment := imaplib.Internaldate2tuple(text):
            return max(0.0, time.mktime(moment))
    return 0.0


def set_of(uids: Iterable[int]) -> str:
    return ",".join(map(str, uids))
