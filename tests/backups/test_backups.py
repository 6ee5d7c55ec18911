"""The backup kind: asking a source, and copying it with a real engine."""

import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync
from django.db.models import F

from backups import repository_orders
from backups.copying import handler
from backups.copying.handler import copy_source
from engines.base import BackupTask, EngineResult, Verdict
from jobs import tick
from jobs.clock import database_clock
from jobs.handlers import Run
from jobs.models import BacklogRecord, Breaker
from jobs.outcomes import Cancelled, Handoff, Postponed, Released, Succeeded, Unavailable
from jobs.states import Status, WaitingFor
from sources import planning
from sources.availability.check import ask_source
from sources.models import Assignment, Backup, Policy, Source
from sources.planning import ARRIVALS
from storage.places.location import of_directory
from storage.places.locks import locked
from tests.backups.handled import ask, copy
from tests.engines.peers import free_port, loopback_address
from tests.factories import make_worker
from tests.sources.factories import (
    MONDAY,
    claim,
    claimed_for,
    error_of,
    handed_on,
    make_assignment,
    make_policy,
    make_source,
    policy_into,
    settle,
)
from tests.waiting import PATIENCE

# as in a worker's threads: a handler drops a connection that it finds in the middle of a transaction
pytestmark = pytest.mark.django_db(transaction=True)

HOUR = timedelta(hours=1)
WAKE_WAIT = 1000.0
NINE = MONDAY + 9 * HOUR


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = tmp_path / "files"
    (files / "letters").mkdir(parents=True)
    (files / "letters" / "to the bank.txt").write_bytes(b"Dear bank\n" * 1000)
    (files / "empty").touch()
    return files


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    return policy_into(tmp_path / "repository", "office")


@pytest.fixture
def network_card() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as card:
        card.bind((loopback_address(), 0))
        card.setblocking(False)
        yield card


class TestAsking:
    def test_a_source_that_answers_is_handed_on_under_its_own_key(self, folder: Path) -> None:
        assignment = make_assignment(source=make_source(path=str(folder)))
        outcome = ask(assignment)
        assert isinstance(outcome, Handoff)
        assert (outcome.queue, outcome.exclusive_key) == ("backups", f"source:{assignment.source.pk}")

    def test_a_silent_source_is_asked_again_as_its_policy_says(self, folder: Path) -> None:
        assignment = make_assignment(make_policy(recheck_after=77), make_source(path=str(folder / "gone")))
        assert ask(assignment) == Unavailable(f"there is no folder {folder / 'gone'}", 77)

    def test_a_silent_source_is_woken_and_its_recheck_comes_first(self, network_card: socket.socket) -> None:
        assignment = sleeping(network_card)
        woken = ask(assignment)
        assert isinstance(woken, Unavailable)
        assert (woken.recheck_after, woken.woken) == (WAKE_WAIT, True)
        assert woken.reason.endswith("sent a magic packet")
        assert network_card.recv(2048).startswith(b"\xff" * 6)
        # asked by another policy of its source a moment later: it is given the same time to come up
        beside = ask(assignment)
        assert isinstance(beside, Unavailable)
        assert WAKE_WAIT - PATIENCE < beside.recheck_after <= WAKE_WAIT
        assert beside.woken
        # still silent after that: not woken again before its time
        Source.objects.update(last_woken_at=F("last_woken_at") - timedelta(seconds=WAKE_WAIT))
        again = ask(assignment)
        assert isinstance(again, Unavailable)
        assert (again.recheck_after, again.woken) == (77, False)
        with pytest.raises(BlockingIOError):
            network_card.recv(2048)

    def test_a_packet_that_cannot_be_sent_is_told_and_not_waited_for(self, network_card: socket.socket) -> None:
        assignment = sleeping(network_card)
        Source.objects.update(wake_address="no-such-host.invalid")
        outcome = ask(assignment)
        assert isinstance(outcome, Unavailable)
        assert (outcome.recheck_after, outcome.woken) == (77, False)
        assert "cannot send a magic packet to no-such-host.invalid" in outcome.reason

    @pytest.mark.parametrize("handler", [ask, copy])
    def test_a_paused_source_is_neither_asked_nor_copied(self, handler) -> None:  # type: ignore[no-untyped-def]
        assert handler(make_assignment(source=make_source(paused_at=MONDAY))) == Cancelled("its source is paused")

    def test_a_source_on_battery_is_not_asked_if_its_policy_forbids_that(self, folder: Path) -> None:
        source = make_source(path=str(folder), on_battery=True, checked_in_at=NINE)
        assignment = make_assignment(make_policy(on_battery=False, recheck_after=77), source)
        outcome = async_to_sync(ask_source)(Run(claimed_for(assignment, started_at=NINE)))
        assert isinstance(outcome, Postponed)
        assert (outcome.until, outcome.waiting_for) == (NINE + timedelta(seconds=77), WaitingFor.RECHECK)
        assert outcome.reason.startswith("it runs on battery")

    @pytest.mark.parametrize("handler", [ask, copy])
    def test_an_assignment_that_is_gone_ends_its_record(self, handler) -> None:  # type: ignore[no-untyped-def]
        assignment = make_assignment()
        Assignment.objects.all().delete()
        assignment.pk = 1_000_000
        assert handler(assignment) == Cancelled("its assignment is gone")


def sleeping(network_card: socket.socket) -> Assignment:
    """A host that does not answer, with a network card that listens, and a unit that is free."""
    make_worker(queues={"backups": 1}, heartbeat_at=database_clock())
    address, port = network_card.getsockname()
    source = make_source(
        kind="sftp", address=address, port=free_port(address), mac_address="02:00:00:aa:bb:cc",
        wake_address=address, wake_port=port,
    )  # fmt: skip
    return make_assignment(make_policy(wake_allowed=True, wake_wait=WAKE_WAIT, recheck_after=77), source)


class TestCopying:
    @pytest.mark.own_process
    def test_a_folder_is_copied_into_a_directory_of_its_own(self, folder: Path, policy: Policy) -> None:
        assignment = make_assignment(policy, make_source(name="Ünser Büro", path=str(folder)))
        outcome = copy(assignment)
        assert isinstance(outcome, Succeeded)
        policy.repository.refresh_from_db()
        assert 0 < (policy.repository.room_free or 0) <= (policy.repository.room_total or 0)
        assert (outcome.result.size, outcome.result.files) == (10_000, 2)
        assignment.refresh_from_db()
        assert assignment.directory.startswith(f"unser-buro-{assignment.pk}/policy-")
        copied = Path(policy.repository.location) / assignment.directory
        assert (copied / f"manifests/{outcome.result.snapshot}.jsonl.gz").exists()
        brought = copied / "files" / outcome.result.snapshot
        assert (brought / "letters/to the bank.txt").read_bytes() == b"Dear bank\n" * 1000
        Source.objects.update(name="another name")
        copy(assignment)
        assert len([each for each in Path(policy.repository.location).iterdir() if each.is_dir()]) == 1

    @pytest.mark.slow
    def test_a_destination_to_which_another_run_still_writes_is_waited_for_without_a_failure(
        self, folder: Path, policy: Policy
    ) -> None:
        assignment = make_assignment(policy, make_source(path=str(folder)), directory="office/daily")
        planning.emit_due(NINE)
        claimed = handed_on(assignment, NINE)
        with locked(of_directory(Path(policy.repository.location)), "office/daily"):
            outcome = copy_source(Run(claimed))
        assert isinstance(outcome, Postponed)
        assert "another run still works in" in outcome.reason
        settle(claimed, outcome, NINE)
        record = BacklogRecord.objects.get()
        assert (record.status, record.waiting_for) == (Status.WAITING, WaitingFor.RECHECK)
        assert (record.failures, Assignment.objects.get().failures) == (0, 0)
        assert not Breaker.objects.exists()

    def test_a_secret_that_is_not_there_is_named_and_not_guessed(self, policy: Policy) -> None:
        source = make_source(name="laptop", kind="sftp", address=loopback_address(), secret="env:BACKUP_SECRET_NO_SUCH")
        error = error_of(copy(make_assignment(policy, source)))
        assert error.startswith("source laptop: ")
        assert "BACKUP_SECRET_NO_SUCH" in error

    def test_a_source_that_has_gone_meanwhile_is_unavailable_and_no_failure(self, folder: Path, policy: Policy) -> None:
        assignment = make_assignment(policy, make_source(path=str(folder / "gone")))
        outcome = copy(assignment)
        assert isinstance(outcome, Unavailable)
        # in its first backup, which continues later
        assert (outcome.recheck_after, outcome.first_in_line) == (policy.recheck_after, False)
        assert f"there is no folder {folder / 'gone'}" in outcome.reason

    @pytest.mark.own_process
    def test_a_copy_that_is_told_to_stop_is_given_back_unspent(self, folder: Path, policy: Policy) -> None:
        run = Run(claimed_for(make_assignment(policy, make_source(path=str(folder))), queue="backups"))
        run.stop.set()
        assert copy_source(run) == Released()

    def test_an_engine_gets_the_least_rate_of_the_policy(
        self, folder: Path, policy: Policy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        given: list[BackupTask] = []

        def back_up(task: BackupTask, **_: object) -> EngineResult:
            given.append(task)
            return EngineResult(Verdict.STOPPED)

        monkeypatch.setattr(repository_orders, "back_up", back_up)
        policy.least_rate = 4096
        policy.save()
        copy(make_assignment(policy, make_source(path=str(folder))))
        assert [task.least_rate for task in given] == [4096]

    @pytest.mark.own_process
    def test_a_copy_is_stopped_when_its_window_closes(
        self, folder: Path, policy: Policy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(handler, "_seconds_to_close", lambda *_: 0.5)
        (folder / "large").write_bytes(bytes(5_000_000))
        policy.engine_options = {"bwlimit": "100K"}
        policy.save()
        outcome = copy(make_assignment(policy, make_source(path=str(folder))))
        assert outcome == Released("its window closed; it continues in the next opening")

    @pytest.mark.parametrize(("seconds", "asked_again"), [(59, False), (61, True)])
    def test_a_source_that_answered_long_ago_is_asked_again_before_a_unit_is_spent(
        self, folder: Path, policy: Policy, seconds: int, asked_again: bool
    ) -> None:
        assignment = make_assignment(policy, make_source(path=str(folder)), last_contacted_at=NINE)
        record = claimed_for(assignment, queue="backups", started_at=NINE + timedelta(seconds=seconds))
        outcome = copy_source(Run(record))
        assert isinstance(outcome, Handoff if asked_again else Succeeded)
        assert not asked_again or outcome.queue == ARRIVALS


def test_a_source_goes_from_its_period_to_its_backup(folder: Path, policy: Policy) -> None:
    assignment = make_assignment(policy, make_source(path=str(folder)))
    tick.tick(NINE, rescue=False)
    asked = claim("availability", NINE)
    settle(asked, async_to_sync(ask_source)(Run(asked)), NINE)
    claimed = claim("backups", NINE)
    settle(claimed, copy_source(Run(claimed)), NINE + HOUR)
    backup = Backup.objects.get()
    assert backup.assignment == assignment
    assert backup.snapshot == f"{NINE:%Y%m%dT%H%M%SZ}"
    assert BacklogRecord.objects.get().status == Status.SUCCEEDED


def test_files_that_are_all_encrypted_are_backed_up_and_what_was_before_is_held_back(
    folder: Path, policy: Policy
) -> None:
    assignment = make_assignment(policy, make_source(path=str(folder)))
    for number in range(120):
        (folder / f"{number}.txt").write_text(f"letter {number}")
    for now in (NINE, NINE + timedelta(days=1)):
        assert assignment.held_back_since is None
        planning.emit_due(now)
        claimed = handed_on(assignment, now)
        settle(claimed, copy_source(Run(claimed)), now + HOUR)
        assignment.refresh_from_db()
        for file in folder.glob("*.txt"):
            file.write_text("ciphertext")
            file.rename(file.with_suffix(".locked"))
    assert assignment.held_back_why == "120 of 122 files were changed or removed"
    last = Backup.objects.latest("started_at")
    assert (last.new, last.changed, last.unchanged, last.removed) == (120, 0, 2, 120)
