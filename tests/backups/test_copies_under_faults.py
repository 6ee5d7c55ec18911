"""Copies with real programs and servers that are killed, full, away or not ours: no point is harmed, and the next one
finishes."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backups import locations
from backups.upkeep import copies, records
from engines.base import EngineProgress
from jobs.models import BacklogRecord
from jobs.outcomes import Failed, Outcome, Succeeded
from sources.availability.repository_breaker import guarded_by
from sources.models import Assignment, Copy, Policy, Repository
from sources.planning import AVAILABILITY, BACKUPS
from storage import layout
from storage.places.identity import Identity
from storage.places.location import of_directory
from storage.places.locks import locked
from tests.backups import copies_at_work
from tests.backups.copies_at_work import at_work, backed_up, copied, copy_of, done
from tests.backups.points_to_remove import add_backup, belongs_to
from tests.backups.stored_sources import make_repository
from tests.engines.peers import small_disk, write_files
from tests.engines.served import serving
from tests.processes import below
from tests.sources.factories import error_of, make_assignment, make_policy, make_source
from tests.sources.worker_process import worker_process
from tests.storage.played_runs import ASSIGNMENT
from tests.storage.with_digests import WithDigests
from tests.waiting import eventually

played, policy, waiting = copies_at_work.played, copies_at_work.policy, copies_at_work.waiting

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow, pytest.mark.usefixtures("made_by_hand")]

BIG = "b" * 1_500_000


def next_point(waiting: Assignment, played: WithDigests, **files: str) -> None:
    Policy.objects.update(keep={})
    point = played.back_up({"a": "later", "b": "the same", **files})
    add_backup(waiting, point, len(played.points()))
    Assignment.objects.update(last_backup_at=layout.instant_of(point), to_copy_since=layout.instant_of(point))


def copied_again() -> Outcome:
    BacklogRecord.objects.all().delete()
    assert copies.copy_now(Assignment.objects.values_list("pk", flat=True)) == 1
    return done(at_work())


def in_mid_copy(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> list[int]:
    """Call `do` whenever the large file is under way."""
    called: list[int] = []

    def on_progress(writer: Any, progress: EngineProgress) -> None:
        if progress.bytes_done > 100_000:
            called.append(progress.bytes_done)
            do()

    monkeypatch.setattr(records.ProgressWriter, "__call__", on_progress)
    return called


def assert_whole(played: WithDigests, second: WithDigests, number: int) -> None:
    assert len(second.points()) == number
    for point in second.points():
        assert second.restored(point) == played.expected[point]


@pytest.mark.own_process
def test_whichever_program_is_killed_in_mid_copy_the_next_one_goes_on(
    waiting: Assignment, played: WithDigests, policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    copied(waiting)
    second = copy_of(played, policy)
    next_point(waiting, played, big=BIG, **{"only/later": "x"})
    Policy.objects.update(copy_bandwidth="512K")
    for name in ("--partial-suffix", "engines.repository_process"):
        called = in_mid_copy(monkeypatch, lambda name=name: [each.kill() for each in below(part=name)])
        outcome = copied_again()
        assert isinstance(outcome, Failed)
        assert called
        assert_whole(played, second, 3)
        assert (second.folder / layout.MANIFESTS / f"{played.points()[-1]}.unfinished").exists()
    monkeypatch.undo()
    BacklogRecord.objects.all().delete()
    copies.copy_now([waiting.pk])
    with worker_process(f"{AVAILABILITY}:2,{BACKUPS}:1", tmp_path) as worker:
        eventually(lambda: list(second.files.rglob("*.rclone-partial")))
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
    assert_whole(played, second, 3)
    Policy.objects.update(copy_bandwidth="")
    assert isinstance(copied_again(), Succeeded)
    assert_whole(played, second, 4)
    assert not list(second.files.rglob("*.rclone-partial"))
    assert not list((second.folder / layout.MANIFESTS).glob("*.unfinished"))


def test_a_second_repository_that_is_anothers_away_busy_or_full_is_named_and_tried_again(
    waiting: Assignment, played: WithDigests, policy: Policy, tmp_path: Path
) -> None:  # fmt: skip
    second = policy.copy_to
    assert second
    place = Path(second.location)
    belongs_to(place, Identity("another", "theirs"))
    assert "the repository theirs of another installation" in error_of(copied_again())
    assert "another installation" in Copy.objects.get().error
    assert not (place / ASSIGNMENT / layout.FILES).exists()
    belongs_to(place, locations.identity_of(second))
    place.rename(tmp_path / "away")
    outcome = copied_again()
    assert isinstance(outcome, Failed)
    assert (outcome.fault_of, "is it mounted?" in outcome.error) == (guarded_by(second), True)
    (tmp_path / "away").rename(place)
    with locked(of_directory(place), ASSIGNMENT):
        assert "still works in" in getattr(copied_again(), "reason", "")
    with small_disk(tmp_path / "disk", 4 * 2**20) as disk:
        Repository.objects.filter(pk=second.pk).update(location=str(disk), room_seen_at=None)
        next_point(waiting, played, big=BIG)
        (disk / "filler").write_bytes(b"x" * 3_000_000)
        outcome = copied_again()
        assert isinstance(outcome, Failed)
        assert any(each in outcome.error for each in ("no space left", "fills the disk")), outcome.error
        second.refresh_from_db()
        assert (second.room_free or 2**30) < len(BIG) < (second.room_total or 0) <= 4 * 2**20
        found = WithDigests(disk, expected=played.expected)
        assert_whole(played, found, 3)
        (disk / "filler").unlink()
        assert isinstance(copied_again(), Succeeded)
        assert_whole(played, found, 4)


def test_a_server_that_dies_in_mid_copy_is_the_second_repositorys_fault(
    waiting: Assignment, played: WithDigests, policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    Policy.objects.update(copy_bandwidth="512K")
    next_point(waiting, played, big=BIG)
    with serving("webdav", tmp_path / "dav") as (remote, secrets, path):
        cloud = make_repository(remote, secrets, path)
        Policy.objects.update(copy_to=cloud)
        port = str(remote["url"]).rpartition(":")[2].strip("/")
        servers = below("serve", part=f":{port}")
        called = in_mid_copy(monkeypatch, lambda: [each.kill() for each in servers])
        outcome = copied_again()
        assert isinstance(outcome, Failed)
        assert (bool(called), outcome.fault_of) == (True, guarded_by(cloud))
    found = WithDigests(tmp_path / "dav" / path, expected=played.expected)
    assert_whole(played, found, 3)


def test_a_file_that_cannot_be_decrypted_in_the_first_one_is_named_and_all_else_comes(
    tmp_path: Path, folder: Path
) -> None:
    with serving("s3", tmp_path / "s3") as first, serving("webdav", tmp_path / "dav") as second:
        here = make_repository(*first, name="here", encrypted=True)
        there = make_repository(*second)
        made = make_assignment(make_policy(repository=here, copy_to=there), make_source(name="anna", path=str(folder)))
        write_files(folder, lost="x" * 500, kept="y" * 600)
        backed_up(made)
        [lost] = [each for each in (tmp_path / "s3").rglob("*") if each.is_file() and each.stat().st_size == 548]
        lost.write_bytes(lost.read_bytes()[:-1] + b"?")
        row = copied(made)
        assert "1 file or points of it are damaged or missing: 'lost' differs from its manifest" in row.error
        assert {each.name for each in (tmp_path / "dav").rglob("*")} >= {"kept", "letter.txt"}
        lost.write_bytes(b"shorter, and no encrypted file")
        assert isinstance(copied_again(), Succeeded)
