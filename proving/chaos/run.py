"""One storm from its beginning to its audit. Everything is bounded, and nothing is left behind."""

import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

from django.core.management import call_command
from django.db import connection
from django.db.models import Count, Q
from django.db.utils import InterfaceError, OperationalError

from jobs import conf
from jobs.clock import boot_seconds
from jobs.models import Attempt, BacklogRecord
from jobs.states import Status
from proving.chaos import audit_runs, audit_tables, collect, report
from proving.chaos.facts import Deeds
from proving.chaos.filler import Filler
from proving.chaos.fleet import Fleet
from proving.chaos.sampler import Sampler
from proving.chaos.server import CrashingServer
from proving.chaos.small_disk import SmallDisk
from proving.chaos.storm import Storm

STEP_SECONDS = 0.05
TOP_UP_SECONDS = 0.5
SAY_EVERY_SECONDS = 5.0
FULL_MINUTES = 0.5
"""A shorter storm begins with a smaller backlog, so that it gets through it."""
DRAIN_SECONDS = 90.0
"""The most seconds after the storm: three tries of a poison take three leases and more."""

BOOKING_TABLE = "CREATE TABLE chaos_booking (record_id bigint NOT NULL, attempt int NOT NULL)"


@dataclass
class StormRun:
    """A storm of `minutes` over `workers` processes in `directory`; `seed` is for all random draws."""

    directory: Path
    server: CrashingServer
    minutes: float
    seed: int
    workers: int
    disk: SmallDisk | None = None
    beside: Path | None = None
    """The folder of another version, whose workers work on the same backlog."""

    def run(self) -> dict[str, Any]:
        """Run the storm, drain, audit. Returns the report."""
        deeds = Deeds()
        fleet = Fleet(self.directory, self.seed, self.workers, self.beside)
        filler = Filler(self.seed, deeds, min(1.0, self.minutes / FULL_MINUTES))
        storm = Storm(Random(self.seed), fleet, self.server, deeds, self.disk)  # noqa: S311 - no secret
        began = boot_seconds()
        try:
            self._prepare(filler)
            sampler = Sampler(self.server.url(), conf.feeding_queues())
            sampler.start()
            began = boot_seconds()
            self._blow(storm, filler, fleet)
            drained = self._drain(storm, filler, fleet)
            _say("the workers end")
            fleet.end()
            self.server.ensure_running()
        finally:
            fleet.kill_all()
        seconds = boot_seconds() - began
        _say("the audit begins")
        facts = collect.facts(fleet, deeds, sampler.end(), filler.caps, drained=drained)
        findings = audit_runs.audit(facts)
        found = [*audit_tables.audit(facts), *findings.discrepancies, *facts.complaints]
        return report.summary(facts, storm.done, findings, found, seconds) | {"by_version": _by_version(fleet)}

    def _prepare(self, filler: Filler) -> None:
        call_command("migrate", verbosity=0)
        with connection.cursor() as cursor:
            cursor.execute(BOOKING_TABLE)
        filler.prepare()
        filler.top_up(0)

    def _blow(self, storm: Storm, filler: Filler, fleet: Fleet) -> None:
        pause, began = Event(), boot_seconds()
        filled_at = printed_at = began
        while (now := boot_seconds()) - began < self.minutes * 60:
            fleet.fill_up()
            storm.step()
            if now - filled_at >= TOP_UP_SECONDS:
                filler.settle_doubts()
                filler.top_up(now - began)
                filled_at = now
            if now - printed_at >= SAY_EVERY_SECONDS:
                deeds = sum(storm.done.values())
                _say(f"{now - began:4.0f} s: {_state()}; {deeds} deeds, {len(fleet.gone)} workers lost")
                printed_at = now
            pause.wait(STEP_SECONDS)

    def _drain(self, storm: Storm, filler: Filler, fleet: Fleet) -> bool:
        """Wait until everything has ended. Returns False if it has not within DRAIN_SECONDS."""
        pause, began = Event(), boot_seconds()
        printed_at = began
        while (now := boot_seconds()) - began < DRAIN_SECONDS:
            fleet.fill_up()
            is_calm = storm.calm_down() and filler.settle_doubts()
            if is_calm and _unfinished() == 0:
                return True
            if now - printed_at >= SAY_EVERY_SECONDS:
                _say(f"calm for {now - began:.0f} s: {_state()}")
                printed_at = now
            pause.wait(STEP_SECONDS * 4)
        return False


def _by_version(fleet: Fleet) -> dict[str, int]:
    """Attempts by the version of their worker."""
    pids = {root: [member.pid for member, _ in fleet.gone if member.root == root] for root in fleet.roots}
    counts = (Attempt.objects.filter(worker__pid__in=each).count() for each in pids.values())
    return dict(zip(("this one", "the one beside"), counts, strict=False))


def _unfinished() -> int | None:
    """The number of unfinished records, or None if the database does not answer."""
    try:
        return BacklogRecord.objects.unfinished().count()
    except (OperationalError, InterfaceError):
        connection.close()
        return None


def _state() -> str:
    try:
        counts = BacklogRecord.objects.aggregate(
            **{str(status.label): Count("pk", filter=Q(status=status)) for status in Status}
        )
    except (OperationalError, InterfaceError):
        connection.close()
        return "the database is away"
    return ", ".join(f"{count} {label}" for label, count in counts.items() if count)


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
