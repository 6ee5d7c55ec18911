"""Promises that hold however many work at once and die: nothing is handed out twice, and caps are caps."""

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from django.db import connection

from jobs import claiming
from jobs.clock import boot_seconds, database_clock
from jobs.models import Attempt, BacklogRecord, Throttle, Worker
from jobs.states import AttemptOutcome, Status
from proving.chaos import journal
from proving.chaos.audit_runs import highest
from proving.chaos.fleet import Fleet, Member
from tests.factories import build_record, make_lane, make_throttle, make_worker
from tests.jobs.worker_processes import database_url
from tests.threads import at_once, impatience
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

THREADS = 8


def put(count: int, kind: str = "plain default", queue: str = "default", **fields: object) -> set[int]:
    now = database_clock()
    records = [build_record(kind=kind, queue=queue, run_after=now, **fields) for _ in range(count)]
    return {record.pk for record in BacklogRecord.objects.bulk_create(records)}


def has_begun(member: Member) -> bool:
    return member.journal.exists() and member.journal.stat().st_size > 0


class TestNothingIsHandedOutTwice:
    @pytest.mark.promise
    def test_by_eight_claims_none_of_which_is_committed_and_none_waits_for_another(self):
        records = put(THREADS * 10)
        all_have_claimed = threading.Barrier(THREADS, timeout=PATIENCE)
        workers = [make_worker().pk for _ in range(THREADS)]

        def work(worker_id: int) -> list[int]:
            with impatience(), connection.cursor() as cursor:
                cursor.execute("BEGIN")
                claimed = claiming.claim("default", worker_id=worker_id, limit=10)
                all_have_claimed.wait()
                cursor.execute("COMMIT")
            return [record.id for record in claimed]

        shares = at_once(*[lambda worker_id=worker_id: work(worker_id) for worker_id in workers])
        assert Counter(record_id for share in shares for record_id in share) == Counter(records)


class TestCapsWhileWorkersAreKilled:
    CAP, TIGHT_CAP = 5, 2
    KILLS = 3
    KILL_EVERY_SECONDS = 0.7
    LEASE_SECONDS = 6
    SEED = 20

    @pytest.fixture
    def fleet(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
        """Three workers of the storm, on the test database."""
        monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "proving.chaos.settings")
        monkeypatch.setenv("DATABASE_URL", database_url())
        monkeypatch.setenv("BACKUPSCHED_LEASE", str(self.LEASE_SECONDS))
        fleet = Fleet(tmp_path, self.SEED, 3)
        yield fleet
        fleet.kill_all()

    @pytest.mark.promise
    def test_are_never_exceeded_and_those_that_are_left_reach_them(self, fleet, tmp_path):
        wide, tight = make_throttle(self.CAP), make_throttle(self.TIGHT_CAP)
        caps = {wide.pk: self.CAP, tight.pk: self.TIGHT_CAP}
        counted = self.storm(fleet, [[wide], [tight, wide], [tight]])
        assert all(counted[throttle] <= cap for throttle, cap in caps.items()), counted
        # what was killed holds no place: handlers at a gate fill each cap, however slow the machine is
        gate = tmp_path / "gate"
        for throttle in wide, tight:
            self.put([throttle], 2 * self.CAP, priority=9, gate=str(gate))
        eventually(lambda: self.counted() == self.at_work(fleet) == caps)
        gate.touch()
        fleet.end()
        assert self.peaks_that_ran(fleet) == caps
        assert not Attempt.objects.filter(outcome=AttemptOutcome.FAILED).exists()

    def put(self, throttles: list[Throttle], count: int, priority: int = 0, **payload: str) -> None:
        named = {"throttles": [throttle.pk for throttle in throttles]} | payload
        put(count, kind="capped", queue="work", lane=make_lane(*throttles), priority=priority, payload=named)

    def storm(self, fleet: Fleet, throttles: list[list[Throttle]]) -> Counter[int]:
        """Kill workers while they work, all but the eldest, until KILLS have died and something of theirs was rescued.
        The work never runs out. Returns the highest count per throttle in the database."""
        luck, peaks = Random(self.SEED), Counter[int]()
        next_kill = boot_seconds()

        def is_over() -> bool:
            nonlocal next_kill
            if BacklogRecord.objects.filter(status=Status.READY).count() < 500:
                for named in throttles * 20:
                    self.put(named, 25)
            fleet.fill_up()
            peaks.update(self.counted() - peaks)
            holders = BacklogRecord.objects.running().values("leased_by_id")
            pids = set(Worker.objects.filter(pk__in=holders).values_list("pid", flat=True))
            at_their_work = [member for member in fleet.running()[1:] if has_begun(member) and member.pid in pids]
            if at_their_work and boot_seconds() >= next_kill:
                fleet.kill(luck.choice(at_their_work))
                wait = self.KILL_EVERY_SECONDS if len(fleet.gone) < self.KILLS else 2 * self.LEASE_SECONDS
                next_kill = boot_seconds() + wait
            rescued = Attempt.objects.filter(outcome=AttemptOutcome.RESCUED)
            return len(fleet.gone) >= self.KILLS and rescued.exists()

        eventually(is_over, 3 * PATIENCE)
        return peaks

    def counted(self) -> Counter[int]:
        """Running records per throttle, by the database."""
        running = BacklogRecord.objects.running().values_list("payload__throttles", flat=True)
        return Counter(throttle for named in running for throttle in named)

    def at_work(self, fleet: Fleet) -> Counter[int]:
        """Handlers per throttle that run at this moment, by the journals of those that live."""
        found = (each for member in fleet.members for each in journal.read(member.journal, member.pid).executions)
        return Counter(throttle for each in found if each.ended is None for throttle in each.throttles)

    def peaks_that_ran(self, fleet: Fleet) -> dict[int, int]:
        """The highest number of handlers under each throttle at one instant, by the workers' own journals."""
        intervals: dict[int, list[tuple[float, float]]] = {}
        for member, process in fleet.gone:
            for execution in journal.read(member.journal, member.pid).executions:
                for throttle in execution.throttles:
                    held = (execution.began, execution.ended or process.ended)
                    intervals.setdefault(throttle, []).append(held)
        return {throttle: highest(found)[0] for throttle, found in intervals.items()}
