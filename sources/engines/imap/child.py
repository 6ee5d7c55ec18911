"""Speaks with an IMAP server, in a process of its own that can be killed: `engine.py` starts it.

Its order is a JSON object on standard input, with the password. It prints lines of JSON: how far it is, and at its end
what came of it.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from sources.engines.base import RunEnded, SourceSpec
from sources.engines.imap.fetching import bring_up_to_date, wanted_folders
from sources.engines.imap.session import session_with

EVERY_SECONDS = 0.5


class Counter:
    """Prints how far the run is."""

    def __init__(self) -> None:
        self.received = self.messages = 0
        self._print_at = 0.0

    def take(self, size: int) -> None:
        self.received += size
        if (now := time.monotonic()) >= self._print_at:
            self._print_at = now + EVERY_SECONDS
            say({"received": self.received, "messages": self.messages})

    def count(self) -> None:
        self.messages += 1


def main() -> None:
    order = json.load(sys.stdin)
    source, counter = SourceSpec(**order["source"]), Counter()
    try:
        with session_with(source, order["connect"], order["idle"], counter.take) as session:
            if directory := order["directory"]:
                found = bring_up_to_date(session, source, Path(directory), counter.count)
                say({"size": found.size, "warnings": found.warnings})
            else:
                say({"folders": len(wanted_folders(session, source))})
    except RunEnded as error:
        say({"verdict": error.verdict.value, "error": str(error)})


def say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
