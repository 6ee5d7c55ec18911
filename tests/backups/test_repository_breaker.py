"""A repository that fails for every source: what is its fault and what a source's."""

import logging
import os
from datetime import timedelta
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync

from backups.copying.handler import copy_source
from fleet.files.apply import apply_fleet
from jobs import breakers, tick
from jobs.breakers import verbs
from jobs.clock import database_clock
from jobs.handlers import Run
from jobs.models import BacklogRecord, Breaker, Decision
from jobs.outcomes import Failed, Handoff, Held, Outcome, Succeeded
from jobs.states import Status, WaitingFor
from sources import planning
from sources.availability import repository_breaker
from sources.availability.check import ask_source
from sources.models import Assignment, Policy, Repository
from tests.backups.handled import copy
from tests.engines.peers import small_disk
from tests.engines.webdav_shares import hostile_share
from tests.sources.factories import (
    MONDAY,
    claim,
    claimed_for,
    handed_on,
    make_assignment,
    make_policy,
    make_source,
    record_of,
    settle,
)

log = logging.getLogger(__name__)

pytestmark = pytest.mark.django_db(transaction=True)

NINE = MONDAY + timedelta(hours=9)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
NOT_WRITABLE = "/proc"
"""A directory in which not even root can make a file."""


def policy_into(directory: Path | str, **fields: object) -> Policy:
    name = f"vault {Repository.objects.count()}"
    return make_policy(repository=Repository.objects.create(name=name, location=str(directory)), **fields)


def break_it(repository: Repository, now: object = NINE) -> Breaker:
    """Open the breaker of a repository."""
    guarded = repository_breaker.guarded_by(repository)
    fields = {"title": guarded.title, "opened_at": now, "failures": 3, "probe_at": now + MINUTE, "last_error": "full"}
    return Breaker.objects.create(key=guarded.key, **fields)


class TestWhoseFaultItIs:
    @pytest.mark.parametrize(
        ("place", "message"),
        [
            ("gone", "gone is not a directory here; is it mounted?"),
            ("file", "is it mounted?"),
            ("file/below", "is it mounted? (Not a directory)"),
            ("x" * 300, "is not a directory here; is it mounted? (File name too long)"),
            (NOT_WRITABLE, "cannot be written"),
        ],
    )
    def test_one_that_is_not_there_or_cannot_be_written_is_the_repositorys(
        self, place: str, message: str, folder: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "file").touch()
        assignment = make_assignment(policy_into(tmp_path / place), make_source(path=str(folder)))
        outcome = copy(assignment)
        assert isinstance(outcome, Failed)
        assert outcome.fault_of == repository_breaker.guarded_by(assignment.policy.repository)
        assert message.removesuffix(" (Not a directory)") in outcome.error

    def test_a_directory_of_one_assignment_that_cannot_be_written_is_that_assignments(
        self, folder: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "vault").mkdir()
        assignment = make_assignment(policy_into(tmp_path / "vault"), make_source(path=str(folder)), directory="here")
        (tmp_path / "vault" / "here").touch()
        outcome = copy(assignment)
        assert isinstance(outcome, Failed)
        assert "cannot be written" in outcome.error
        assert outcome.fault_of is None

    def test_a_full_one_is_the_repositorys_though_a_small_file_finds_room(self, folder: Path, tmp_path: Path) -> None:
        with small_disk(tmp_path / "disk", 2**24) as disk:
            (disk / "other").write_bytes(b"x" * (2**24 - 2**20))
            outcome = copy(make_assignment(policy_into(disk), make_source(path=str(folder))))
            assert isinstance(outcome, Failed)
            assert outcome.fault_of is not None
            assert "have to stay free" in outcome.error

    def test_one_that_a_backup_fills_has_too_little_room_until_that_backup_succeeds(self, tmp_path: Path) -> None:
        (source := tmp_path / "files").mkdir()
        (source / "large").write_bytes(os.urandom(2**24))
        with small_disk(tmp_path / "disk", 2**24) as disk:
            policy = policy_into(disk, engine_options={"bwlimit": "16M"})
            row = make_assignment(policy, make_source(path=str(source)))
            outcome = copy(row)
            assert isinstance(outcome, Failed)
            assert (outcome.fault_of, "it fills the repository" in outcome.error) == (None, True)
            row.refresh_from_db()
            lacked = row.room_lacked
            assert lacked, "what it had written is gone, and there is room by the numbers alone"
            assert lacked > 2**24 * 3 / 4
            assert lacked == Repository.objects.get().room_free
            (source / "large").write_bytes(b"x")
            planning.back_up_now([row], NINE)
            settle(record := handed_on(row, NINE), copy_source(Run(record)), NINE)
            row.refresh_from_db()
            assert (row.room_lacked, row.failures) == (None, 0)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "message", ["no space left on device", "write x.rclone-partial: no space left on device, read-only file system"]
    )
    def test_a_source_that_says_so_fails_for_itself_alone(self, message: str, tmp_path: Path) -> None:
        with hostile_share(1000, refusal=message) as share:
            source = make_source(kind=share.kind, address=share.address, path="")
            outcome = copy(make_assignment(policy_into(tmp_path), source))
        assert isinstance(outcome, Failed)
        assert "no space left" in outcome.error
        assert outcome.fault_of is None

    @pytest.mark.parametrize("path", ["", "gone"])
    def test_a_source_that_fails_by_itself_counts_for_no_other(self, path: str, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "vault").mkdir()
        source = (
            make_source(path=str(folder / "gone"))
            if path
            else make_source(path=str(folder), secret="env:BACKUP_SECRET_NOWHERE")
        )
        outcome = copy(make_assignment(policy_into(tmp_path / "vault"), source))
        assert getattr(outcome, "fault_of", None) is None
        assert not isinstance(outcome, Succeeded)


class TestHandlersAsk:
    def test_a_source_of_an_open_repository_is_neither_contacted_nor_copied(self, folder: Path, tmp_path: Path) -> None:
        assignment = make_assignment(policy_into(tmp_path), make_source(path=str(folder)))
        break_it(assignment.policy.repository)
        asked = async_to_sync(ask_source)(Run(claimed_for(assignment)))
        for outcome in (asked, copy(assignment)):
            assert isinstance(outcome, Held)
            assert not outcome.tried
            assert "nothing else is tried until a trial succeeds" in outcome.reason

    def test_the_trial_is_both(self, folder: Path, tmp_path: Path) -> None:
        assignment = make_assignment(policy_into(tmp_path / "vault"), make_source(path=str(folder)))
        (tmp_path / "vault").mkdir()
        breaker = break_it(assignment.policy.repository)
        trial = claimed_for(assignment)
        Breaker.objects.filter(pk=breaker.pk).update(trial_id=trial.id)
        assert isinstance(async_to_sync(ask_source)(Run(trial)), Handoff)
        copied = copy_source(Run(trial._replace(queue="backups")))
        assert isinstance(copied, Succeeded)
        assert copied.proves == repository_breaker.guarded_by(assignment.policy.repository)


class TestWhatIsWrittenDown:
    def held(self, assignment: Assignment, *, tried: bool) -> None:
        planning.emit_due(NINE, [assignment.pk])
        if tried:
            Breaker.objects.filter(pk=break_it(assignment.policy.repository).pk).update(opened_at=None, failures=2)
            outcome: Outcome = Failed(
                "vault: full", fault_of=repository_breaker.guarded_by(assignment.policy.repository)
            )
            settle(handed_on(assignment, NINE), outcome, NINE)
        else:
            breaker = break_it(assignment.policy.repository)
            settle(claim("availability", NINE), Held(breaker.pk, breakers.describe(breaker)), NINE)

    @pytest.mark.parametrize(("tried", "what"), [(True, "failed for its repository"), (False, "held")])
    def test_a_held_record_is_no_failure_of_its_assignment_and_a_line_of_the_log(
        self, tried: bool, what: str, tmp_path: Path
    ) -> None:
        assignment = make_assignment(policy_into(tmp_path))
        self.held(assignment, tried=tried)
        assignment.refresh_from_db()
        assert (assignment.failures, assignment.first_failure_at) == (0, None)
        record = record_of(assignment)
        assert (record.waiting_for, record.failures, record.queue) == (WaitingFor.BREAKER, 0, "availability")
        line = Decision.objects.get(what=what)
        assert line.record_id == record.pk
        assert "full" in line.text

    def test_what_a_person_asks_for_while_it_waits_is_refused_once_and_comes_first_of_those_that_wait(
        self, tmp_path: Path
    ) -> None:
        policy = policy_into(tmp_path)
        first, asked = make_assignment(policy), make_assignment(policy)
        breaker = break_it(policy.repository)
        planning.emit_due(NINE)
        for _ in range(2):
            settle(claim("availability", NINE), Held(breaker.pk, "closed for now"), NINE)
        planning.back_up_now([asked], NINE)
        settle(claim("availability", NINE), Held(breaker.pk, "closed for now"), NINE)
        assert breakers.let_trials_through(NINE + MINUTE) == 1
        assert (record_of(asked).status, record_of(asked).closes_at) == (Status.READY, None)
        planning.check_in(first.source, NINE + SECOND)
        assert record_of(first).status == Status.WAITING

    def test_a_paused_source_waits_no_more(self, tmp_path: Path) -> None:
        assignment = make_assignment(policy_into(tmp_path))
        self.held(assignment, tried=False)
        planning.pause([assignment.source], NINE)
        assert BacklogRecord.objects.get().status == Status.CANCELLED
        assert breakers.let_trials_through(NINE + MINUTE) == 0


class TestRepositoriesComeAndGo:
    def test_a_refusal_for_one_that_is_deleted_meanwhile_is_released(self, tmp_path: Path) -> None:
        policy = policy_into(tmp_path)
        assignment = make_assignment(policy)
        breaker = break_it(policy.repository)
        planning.emit_due(NINE)
        record = claim("availability", NINE)
        verbs.forget(repository_breaker.guarded_by(policy.repository), now=NINE)
        settle(record, Held(breaker.pk, "closed for now"), NINE)
        assert record_of(assignment).status == Status.READY

    def test_what_waits_goes_on_when_its_policy_names_another(self, tmp_path: Path) -> None:
        policy = policy_into(tmp_path)
        assignment = make_assignment(policy)
        breaker = break_it(policy.repository)
        planning.back_up_now([assignment], NINE)
        settle(claim("availability", NINE), Held(breaker.pk, "closed for now"), NINE)
        policy.repository = policy_into(tmp_path).repository
        policy.save()
        planning.replan(policy, NINE + SECOND)
        tick.tick(NINE + SECOND, rescue=False)
        assert record_of(assignment).status == Status.READY
        assert breakers.held_by(breaker) == 0

    def test_a_fleet_file_that_moves_it_has_it_tried_at_once(self, tmp_path: Path) -> None:
        repository = policy_into(tmp_path / "lost").repository
        breaker = break_it(repository, database_clock())
        row = {"name": repository.name, "location": str(tmp_path / "found")}
        apply_fleet({"repositories": [row]}, "fleet.json", folder=tmp_path)
        breaker.refresh_from_db()
        assert breaker.probe_at is not None
        assert breaker.probe_at <= database_clock()
