"""Backup, check, copy and restore with credentials that may neither delete nor overwrite: real rclone against a server
that refuses both. Whatever is there stays as it is, byte for byte. A copy whose server refuses one file is
incomplete."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from backups.upkeep import checks, copies, foreign_points, retention_decisions
from backups.upkeep.copies import Brought
from jobs.clock import database_clock
from jobs.models import Decision
from jobs.outcomes import Succeeded
from sources import planning
from sources.models import Assignment, Backup, CheckRound, Copy, Policy, Repository
from storage import layout
from storage.points.copies import CopyResult
from tests.append_only import append_only
from tests.backups import copies_at_work
from tests.backups.copies_at_work import at_work, backed_up, change, copied, done
from tests.backups.copies_at_work import make_repository as local_repository
from tests.backups.stored_sources import make_repository
from tests.commands import command
from tests.engines.peers import tree, write_files
from tests.sources.factories import make_assignment, make_policy, make_source, settle
from tests.storage.with_digests import WithDigests

policy, played, waiting = copies_at_work.policy, copies_at_work.played, copies_at_work.waiting

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.fixture(params=["s3", "webdav"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Any, Any, list[str]]]:
    """Two servers, and what they refuse."""
    refused = list[str]()
    with (
        append_only(request.param, tmp_path / "first", refused) as first,
        append_only(request.param, tmp_path / "second", refused) as second,
    ):
        yield first, second, refused


def stored(tmp_path: Path) -> dict[str, bytes]:
    """The set-up of both servers."""
    return {
        str(each.relative_to(tmp_path)): each.read_bytes()
        for name in ("first", "second")
        for each in (tmp_path / name).rglob("*")
        if each.is_file()
    }


def assert_it_stays(tmp_path: Path, before: dict[str, bytes]) -> None:
    """Every earlier file is still there, unchanged."""
    after = stored(tmp_path)
    assert before.items() <= after.items()
    before.update(after)


def test_all_but_removal_works_and_nothing_that_is_there_changes(
    places: tuple[Any, Any, list[str]], tmp_path: Path, folder: Path
) -> None:
    """The bucket's repositories are encrypted, each with a key of its own."""
    first, second, refused = places
    is_encrypted = first[0]["type"] == "s3"
    here = make_repository(*first, name="here", encrypted=is_encrypted)
    there = make_repository(*second, name="there", encrypted=is_encrypted)
    anna = make_assignment(
        make_policy(repository=here, copy_to=there, keep={}), make_source(name="anna", path=str(folder))
    )
    before, trees = dict[str, bytes](), dict[str, dict[str, str]]()
    for number in range(2):
        change(folder, letter=f"{number}", **{f"only{number}": "x"})
        point = layout.point_of(backed_up(anna).backups.latest("started_at").snapshot)
        trees[point or ""] = tree(folder)
        assert_it_stays(tmp_path, before)
        assert copied(anna).error == ""
        assert_it_stays(tmp_path, before)
    assert any(each.startswith("DELETE") for each in refused), "marks were to be removed"
    assert not any(each.startswith("PUT") for each in refused)
    assert checks.check_now([anna.pk]) == 1
    for _ in here, there:
        assert isinstance(done(at_work(planning.CHECK)), Succeeded)
    assert_it_stays(tmp_path, before)
    assert CheckRound.objects.get().damage == []
    run, _ = command("restores run")
    for name in ("here", "there"):
        for point, expected in trees.items():
            run("anna", "--from", name, "--at", point, "--to", tmp_path / f"back from {name}" / point)
            assert tree(tmp_path / f"back from {name}" / point) == expected
    assert_it_stays(tmp_path, before)


def test_what_was_killed_before_its_manifest_is_finished_without_writing_anything_again(
    places: tuple[Any, Any, list[str]], tmp_path: Path, folder: Path
) -> None:
    first, second, refused = places
    here, there = make_repository(*first, name="here"), make_repository(*second, name="there")
    anna = make_assignment(make_policy(repository=here, copy_to=there), make_source(name="anna", path=str(folder)))
    backed_up(anna)
    copied(anna)
    for name in ("first", "second"):
        [manifest] = (tmp_path / name).rglob(f"*{layout.MANIFEST_ENDING}")
        manifest.unlink()
    Backup.objects.all().delete()
    Copy.objects.all().delete()
    refused.clear()
    before = stored(tmp_path)
    backed_up(anna)
    assert copied(anna).error == ""
    assert_it_stays(tmp_path, before)
    assert not [each for each in refused if each.startswith("PUT") and layout.FILES in each]


def test_a_copy_without_a_refused_file_is_incomplete_at_once_and_says_so_once(
    tmp_path: Path, admin_client: Client
) -> None:
    is_locked = False

    def refusal(kind: str, path: str, headers: Any) -> tuple[int, bytes] | None:
        return (423, b"no") if is_locked and kind == "PUT" and path.endswith("/locked") else None

    with append_only("webdav-other", tmp_path / "there", [], refusal) as place:
        source = write_files(tmp_path / "source", same="same", locked="old", other="other")
        here, there = local_repository("here", tmp_path / "here"), make_repository(*place, name="there")
        anna = make_assignment(
            make_policy(repository=here, copy_to=there, keep={"last": 1}), make_source(name="anna", path=str(source))
        )
        first = layout.point_of(backed_up(anna).backups.latest("started_at").snapshot)
        assert copied(anna).error == ""
        is_locked = True
        write_files(source, locked="changed")
        for keep in ({"last": 1}, {}):
            Policy.objects.update(keep=keep)
            backed_up(anna)
            row = copied(anna)
            assert "not removed" not in row.error, "the first point, its only whole one"
            assert row.error.startswith(
                "its newest point is incomplete: 1 file was not copied; locked: it could not be"
            )
        assert row.incomplete.keys() == set(row.points[1:])
        said = Decision.objects.filter(what="damaged").values_list("text", flat=True)
        assert list(said) == [f"copy of anna: {row.error}"], "once a change"
        anna.policy.keep = {"last": 1}
        decided = retention_decisions.decide_of_copy(anna, row.repository, row.points)
        assert {each.point.name for each in decided if each.reasons} == {first, row.points[-1]}, "the newest whole one"
        assert (
            "its newest point is incomplete" in admin_client.get(f"/admin/sources/source/{anna.source_id}/change/").text
        )
        [facts] = admin_client.get(f"/api/assignments/{anna.pk}").json()["copies"]
        assert facts["incomplete"] == row.incomplete
        run, _ = command("restores run")
        answer = run("anna", "--from", "there", "--to", tmp_path / "back")
        assert "1 file as of" in answer
        assert tree(tmp_path / "back") == {"same": "same", "locked": "old", "other": "other"}
        is_locked = False
        backed_up(anna)
        row = copied(anna)
        assert row.error == ""
        run("anna", "--from", "there", "--to", tmp_path / "back again")
        assert tree(tmp_path / "back again") == tree(source)


def test_an_incomplete_point_that_is_accepted_in_a_copy_counts_as_incomplete() -> None:
    anna, there = make_assignment(), Repository.objects.create(name="there", location="/there")
    row = Copy.objects.create(assignment=anna, repository=there, planned_at=database_clock())
    facts = {"name": "20261101T065755Z", "digest": "5f" * 32, "complete": False, "not_of": ""}
    foreign_points.accept(foreign_points.ForeignPoint(anna, there, facts), by="anna")
    row.refresh_from_db()
    assert (row.points, [*row.incomplete]) == ([facts["name"]], [facts["name"]])


def test_words_of_a_server_are_stored_and_a_point_that_came_again_is_as_it_is_now(
    waiting: Assignment, played: WithDigests
) -> None:
    points = played.points()

    def write_down(new: list[str], incomplete: dict[str, list[str]]) -> Copy:
        copies.copy_now([waiting.pk])
        done = CopyResult(points=points, new=new, incomplete=incomplete)
        settle(at_work(), Succeeded(Brought(waiting.policy.copy_to_id or 0, None, done)), database_clock())
        return Copy.objects.get()

    row = write_down(points, {points[1]: ["older", "b: locked"], points[2]: ["a: locked\0 by \ud800"]})
    assert row.incomplete == {points[1]: ["older"], points[2]: ["a: locked� by ?"]}
    assert row.error == "its newest point is incomplete: a: locked� by ?"
    row = write_down(points[2:], {})
    assert (row.incomplete, row.error) == ({points[1]: ["older"]}, "")
