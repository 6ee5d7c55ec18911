"""The kinds and handlers of the storm. Importing this registers the kinds; `journal_to` registers the handlers.

The outcome of a run is drawn from the seed, the record's subject and its attempt, so that it can be repeated.
"""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from random import Random

from django.db import connection

from jobs import conf
from jobs.handlers import Kind, Run, one_by_one, registry
from jobs.outcomes import ClaimedRecord, Failed, Handoff, Outcome, Released, Succeeded, Unavailable
from proving.chaos.facts import EXIT_CODE_OF_POISON
from proving.chaos.journal import JournalFile

HANG_LIMIT_SECONDS = 1.0
UNRESPONSIVE_SECONDS = 12.0
"""Well beyond the limit and any lease of the storm: the lease expires while the handler sleeps."""
BOOK = "INSERT INTO chaos_booking (record_id, attempt) VALUES (%s, %s)"


def book(record: ClaimedRecord, outcome: Outcome, now: datetime) -> None:
    """Book a success, as a settle hook: a booking must be there if and only if its success is."""
    if isinstance(outcome, Succeeded):
        with connection.cursor() as cursor:
            cursor.execute(BOOK, [record.id, record.attempt])


for kind in (
    Kind("quick", home_queue="quick"),
    Kind("answer", home_queue="quick"),
    Kind("flaky", home_queue="quick"),
    Kind("booked", home_queue="quick", after_settle=one_by_one(book)),
    Kind("capped", home_queue="work"),
    Kind("slow", home_queue="work"),
    Kind("long", home_queue="work"),
    Kind("relay", home_queue="ask"),
    Kind("leave", home_queue="work"),
    Kind("poison", home_queue="work"),
    Kind("hang", home_queue="work", max_seconds=HANG_LIMIT_SECONDS),
    Kind("unresponsive", home_queue="work", max_seconds=HANG_LIMIT_SECONDS),
):
    registry.add(kind)


@dataclass(frozen=True)
class Handlers:
    """The handlers for a worker of this seed."""

    seed: int

    def luck(self, run: Run) -> Random:
        return Random(f"{self.seed} {run.record.subject} {run.record.attempt}")  # noqa: S311 - no secret

    def quick(self, run: Run) -> Outcome:
        return Succeeded()

    async def answer(self, run: Run) -> Outcome:
        await asyncio.sleep(self.luck(run).choice((0, 0, 0.002)))
        return Succeeded()

    def flaky(self, run: Run) -> Outcome:
        match self.luck(run).randrange(8):
            case 0:
                return Failed("bad luck")
            case 1:
                raise RuntimeError("worse luck")
            case 2:
                return Unavailable("silent", recheck_after=0.3)
        return Succeeded()

    def capped(self, run: Run) -> Outcome:
        """Run for a moment, or, with a gate in the payload, until that file is there."""
        if gate := run.record.payload.get("gate"):
            while not Path(gate).exists():
                if run.stop.wait(0.05):
                    return Released()
        return self._work(run, self.luck(run).uniform(0.001, 0.04))

    def slow(self, run: Run) -> Outcome:
        return self._work(run, self.luck(run).uniform(0.2, 3))

    def long(self, run: Run) -> Outcome:
        """Run for longer than a lease, as backups do."""
        return self._work(run, conf.lease_seconds() * self.luck(run).uniform(1.1, 1.8))

    async def ask(self, run: Run) -> Outcome:
        await asyncio.sleep(self.luck(run).uniform(0, 0.02))
        if self.luck(run).random() < 0.1:
            return Unavailable("silent", recheck_after=0.2)
        return Handoff("work", exclusive_key=run.record.payload["key"])

    def relay(self, run: Run) -> Outcome:
        luck = self.luck(run)
        if (outcome := self._work(run, luck.uniform(0.005, 0.15))) != Succeeded():
            return outcome
        return Failed("bad luck") if luck.random() < 0.1 else Succeeded()

    def leave(self, run: Run) -> Outcome:
        sys.exit("a handler that wants to end its worker")

    def poison(self, run: Run) -> Outcome:
        os._exit(EXIT_CODE_OF_POISON)

    def hang(self, run: Run) -> Outcome:
        return self._work(run, 600)

    def unresponsive(self, run: Run) -> Outcome:
        time.sleep(UNRESPONSIVE_SECONDS)
        return Succeeded()

    def _work(self, run: Run, seconds: float) -> Outcome:
        return Released() if run.stop.wait(seconds) else Succeeded()


def journal_to(journal: JournalFile, seed: int) -> None:
    """Register the handlers, each with its beginning and end in `journal`."""
    handlers = Handlers(seed)
    for name in ("quick", "flaky", "booked"):
        work = handlers.quick if name == "booked" else getattr(handlers, name)
        registry.handler(name, queue="quick")(_sync(journal, work))
    for name in ("capped", "slow", "long", "relay", "leave", "poison", "hang", "unresponsive"):
        registry.handler(name, queue="work")(_sync(journal, getattr(handlers, name)))
    registry.handler("answer", queue="quick")(_async(journal, handlers.answer))
    registry.handler("relay", queue="ask")(_async(journal, handlers.ask))


def _sync(journal: JournalFile, work: Callable[[Run], Outcome]) -> Callable[[Run], Outcome]:
    def handler(run: Run) -> Outcome:
        journal.began(run)
        outcome: Outcome | None = None
        try:
            outcome = work(run)
            return outcome
        finally:
            journal.ended(run, type(outcome).__name__)

    return handler


def _async(journal: JournalFile, work: Callable[[Run], Awaitable[Outcome]]) -> Callable[[Run], Awaitable[Outcome]]:
    async def handler(run: Run) -> Outcome:
        journal.began(run)
        outcome: Outcome | None = None
        try:
            outcome = await work(run)
            return outcome
        finally:
            journal.ended(run, type(outcome).__name__)

    return handler
