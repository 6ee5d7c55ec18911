"""Backup, check, copy and restore with credentials that may neither delete nor overwrite: real rclone against a server
that refuses both. Whatever is there stays as it is, byte for byte."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backups.upkeep import checks
from jobs.outcomes import Succeeded
from sources import planning
from sources.models import Backup, CheckRound, Copy
from storage import layout
from tests.append_only import append_only
from tests.backups.copies_at_work import at_work, backed_up, change, copied, done
from tests.backups.stored_sources import make_repository
from tests.commands import command
from tests.engines.peers import tree
from tests.sources.factories import make_assignment, make_policy, make_source

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
