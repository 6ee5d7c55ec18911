"""Texts of outsiders, changed at random: each parser answers, or refuses in its own words. No traceback, and no more
memory and disk than the input is worth.

`BACKUPSCHED_FUZZ_MINUTES=60 .venv/bin/python -m pytest tests/external/fuzz -n 0 -s` spends so long on all of them, and
prints how many inputs each was given.
"""

import os
import resource
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from engines.base import RunEnded
from engines.imap import fetching
from engines.imap.session import session_with
from tests.engines.hostile_mailbox import hostile_mailbox
from tests.external.fuzz.mutations import Mutation, mutations
from tests.external.fuzz.targets import PARSERS

pytestmark = pytest.mark.slow

MINUTES = float(os.environ.get("BACKUPSCHED_FUZZ_MINUTES", "0"))
OF_PARSERS = 0.7
"""The share of that time which they get together; the mailbox has the rest."""
EXAMPLES = 1_000 if MINUTES else 60
MOST_SECONDS = 20
"""Seconds of the processor for one input: an expression that searches a text again and again takes minutes, or years.
"""
MOST_MEMORY, MOST_DISK = 256 * 2**20, 64 * 2**20
"""Bytes that the process, and the files that a parser makes, may grow by: inputs are below 2 MiB."""


def play(share: float, draw: Any, try_one: Callable[..., None]) -> int:
    """Try inputs: some; with minutes to spend, as many as fit into this share of them. Returns how many."""
    until = time.monotonic() + 60 * MINUTES * share
    tried = count()
    number = 0
    while number == 0 or time.monotonic() < until:
        number += 1

        @seed(number if "CI" in os.environ else time.monotonic_ns())
        @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), database=None)
        @given(draw)
        def played(drawn: Any) -> None:
            if not MINUTES or time.monotonic() < until:
                next(tried)
                began = time.process_time()
                try_one(drawn)
                assert time.process_time() - began < MOST_SECONDS

        played()
    return next(tried)


def memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def disk(folder: Path) -> int:
    return sum(each.stat().st_blocks * 512 for each in folder.rglob("*"))


def report(name: str, tried: int, grown: int, files: int) -> None:
    mib = 2**20
    sys.stdout.write(f"\n{name}: {tried:,} inputs, {grown / mib:.0f} MiB of memory, {files / mib:.1f} MiB of disk\n")


@pytest.mark.timeout(0 if MINUTES else 600)
@pytest.mark.parametrize("name", PARSERS)
def test_a_parser_answers_or_refuses_in_its_own_words(name: str, tmp_path: Path) -> None:
    before, largest = memory(), [0]

    def try_one(change: Mutation) -> None:
        PARSERS[name](change, tmp_path)
        largest[0] = max(largest[0], disk(tmp_path))

    tried = play(OF_PARSERS / len(PARSERS), mutations, try_one)
    grown = memory() - before
    report(name, tried, grown, largest[0])
    assert grown < MOST_MEMORY
    assert largest[0] < MOST_DISK


@pytest.mark.timeout(0 if MINUTES else 600)
def test_a_mailbox_is_read_or_refused_whatever_its_server_answers(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(fetching, "say", lambda line: None)
    usual = {1: b"one\r\n", 2: b"two" * 1000}
    before = memory()
    with hostile_mailbox(messages=usual) as server:

        def try_one(drawn: tuple[Mutation, int]) -> None:
            change, which = drawn
            asked = count()

            def fault(command: str) -> bytes | None:
                if next(asked) != which:
                    return None
                return change(server.answer(command) + b"TAG OK done\r\n")

            server.fault = fault
            source, found = server.source(), fetching.FetchProgress()
            try:
                with session_with(source, 5, 0.2, found.receive) as session:
                    fetching.bring_up_to_date(session, source, tmp_path / "mail", found)
            except RunEnded:
                pass

        tried = play(1 - OF_PARSERS, st.tuples(mutations, st.integers(0, 12)), try_one)
    grown, files = memory() - before, disk(tmp_path)
    report("mailbox", tried, grown, files)
    assert grown < MOST_MEMORY
    assert files < MOST_DISK
