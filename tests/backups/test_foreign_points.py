"""The contents of a repository are not believed: points that no backup of ours has written are foreign."""

import ast
import gzip
import hashlib
import json
import shutil
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from backups import known_points
from backups.restores import drills, handler, process, requests
from backups.upkeep import checks, copies
from external.formatting import moment
from jobs import settling
from jobs.clock import database_clock
from jobs.handlers import Run
from sources.models import Assignment, Backup, CheckRound, Copy, ManifestDigest, Policy, Repository, Restore
from storage import layout
from storage.points import manifests
from storage.points.known import FOREIGN, digest_of
from storage.points.store import Store
from tests.api.asking import Program, make_user
from tests.backups import copies_at_work
from tests.backups.copies_at_work import at_work, backed_up, change, copied, done, points_in
from tests.backups.points_to_remove import add_backup
from tests.commands import command
from tests.engines.peers import tree
from tests.product import modules
from tests.sources.factories import claim, error_of, make_assignment, make_source
from tests.sources.made_by_hand import take_over
from tests.storage.played_runs import ASSIGNMENT, Played

assignment, policy = copies_at_work.assignment, copies_at_work.policy

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

FUTURE = [f"9999123{number}T235959Z" for number in range(2)]
NEVER = "99991232T235959Z"
"""A day that no calendar has."""


def manifest_in(repository: Repository | None, assignment: Assignment, point: str) -> Path:
    assert repository
    return Path(repository.location, layout.manifest_path(assignment.directory, point))


def forge(manifest: Path, **fields: Any) -> None:
    """Change the first file of a manifest, with a trailer that is right."""
    lines = gzip.decompress(manifest.read_bytes()).splitlines(keepends=True)[:-1]
    rows = [json.loads(each) for each in lines]
    number = next(number for number, row in enumerate(rows) if row.get("kind") == "file")
    rows[number] |= fields
    lines[number] = json.dumps(rows[number]).encode() + b"\n"
    files = [row for row in rows[1:] if row["kind"] != "folder"]
    trailer = {"files": len(files), "size": sum(row["size"] for row in files), "folders": len(rows) - 1 - len(files)}
    trailer |= {"exceptions": 0, "missing": 0}
    trailer["sha256"] = hashlib.sha256(b"".join(lines)).hexdigest()
    manifest.write_bytes(gzip.compress(b"".join([*lines, json.dumps(trailer).encode()])))


def newest(assignment: Assignment) -> str:
    return Backup.objects.filter(assignment=assignment).latest("started_at").snapshot


def put_fakes(assignment: Assignment, repository: Repository | None) -> None:
    """Points of the future in a repository, each the newest one by another name."""
    true = manifest_in(repository, assignment, newest(assignment))
    for name in FUTURE:
        put_fake(true, name)
    shutil.copyfile(true, true.with_name(f"{NEVER}{layout.MANIFEST_ENDING}"))


def put_fake(true: Path, name: str) -> None:
    """A manifest that fits its name, of the files of another one."""
    header = replace(manifests.read_header(true), started_at=layout.instant_of(name).isoformat(), base="")
    manifests.write(true.with_name(f"{name}{layout.MANIFEST_ENDING}"), header, [*manifests.read(true)])


def test_points_of_the_future_make_no_copy_lose_a_true_one(assignment: Assignment, folder: Path) -> None:
    Policy.objects.update(keep={"last": 3})
    for number in range(3):
        change(folder, letter=f"{number}")
        backed_up(assignment)
        true = copied(assignment).points
    put_fakes(assignment, assignment.policy.repository)
    change(folder, letter="4")
    backed_up(assignment)
    assert newest(assignment) < FUTURE[0], "a run takes no name of the future from others"
    row = copied(assignment)
    assert row.points == [*true[1:], newest(assignment)]
    assert points_in(row.repository, assignment) == row.points
    put_fakes(assignment, row.repository)
    change(folder, letter="5")
    backed_up(assignment)
    assert copied(assignment).points == [*row.points[1:], newest(assignment)], "nor from the copy itself"
    assert {*FUTURE} <= {*points_in(assignment.policy.repository, assignment)}, "none is deleted in silence"
    checked(assignment)
    found = {(each["point"], each["why"]) for each in CheckRound.objects.get().damage}
    assert found == {(name, FOREIGN) for name in FUTURE}
    assert set(Backup.objects.values_list("snapshot", flat=True)).isdisjoint([*FUTURE, NEVER]), "none is recorded"


def test_no_more_points_go_from_a_copy_than_came_unless_a_person_changes_the_rules(
    assignment: Assignment, folder: Path
) -> None:
    Policy.objects.update(keep={"last": 3})
    for number in range(4):
        change(folder, letter=f"{number}")
        backed_up(assignment)
        row = copied(assignment)
    assert (len(row.points), row.came, row.thinned_by) == (3, 0, {"last": 3})
    change(folder, letter="next")
    backed_up(assignment)
    Copy.objects.update(thinned_by={"last": 1})
    Policy.objects.update(keep={"last": 1})
    assert len(copied(assignment).points) == 3, "one came, and one went"
    Copy.objects.update(thinned_by={"last": 3})
    Policy.objects.update(keep={"last": 2})
    change(folder, letter="last")
    backed_up(assignment)
    row = copied(assignment)
    assert (len(row.points), row.thinned_by) == (2, {"last": 2})
    assert points_in(row.repository, assignment) == row.points


def test_a_manifest_that_was_changed_is_used_for_nothing_until_a_person_says_so(
    assignment: Assignment, folder: Path, tmp_path: Path, settings: Any
) -> None:
    settings.VAR_DIR, settings.RESTORE_FOLDERS = tmp_path / "var", [tmp_path]
    backed_up(assignment)
    point, first = newest(assignment), assignment.policy.repository
    forge(manifest_in(first, assignment, point), modified="2000-01-01T00:00:00Z")
    with pytest.raises(Exception, match=FOREIGN), process.tree_of(first, assignment.directory, point):
        pass
    assert drills.drill_now([assignment.pk]) == 1
    assert FOREIGN in error_of(done(at_work(drills.KIND)))
    assert copies.plan() == 1
    assert FOREIGN in error_of(done(at_work()))
    assert not list((tmp_path / "offsite").glob("*/*/manifests/*.gz"))
    checked(assignment)
    assert FOREIGN in CheckRound.objects.get().damage[0]["why"]
    with pytest.raises(CommandError, match=f"{FOREIGN}.*--foreign"):
        call_command("restores", "run", "anna", "--to", str(tmp_path / "back"))
    assert not (tmp_path / "back").exists()
    call_command("restores", "run", "anna", "--foreign", "--to", str(tmp_path / "back"), stdout=StringIO())
    assert tree(tmp_path / "back") == tree(folder)
    change(folder, letter="new")
    backed_up(assignment)
    with process.tree_of(first, assignment.directory, newest(assignment)) as seen:
        assert [each.digest_from for each in seen.below("") if each.path == "letter.txt"] == ["copy"], (
            "what a foreign point says of a file goes into no later one"
        )


def test_a_point_without_a_row_is_restored_over_the_api_when_that_is_confirmed(
    assignment: Assignment, folder: Path, tmp_path: Path, settings: Any
) -> None:
    settings.VAR_DIR, settings.RESTORE_FOLDERS = tmp_path / "var", [tmp_path]
    backed_up(assignment)
    ours, put = newest(assignment), put_fakes(assignment, assignment.policy.repository)
    assert (put, requests.choose(assignment, None, database_clock())[0]) == (None, ours)
    program = Program(make_user("restore_source", "view_restore"), scopes=("operate",))
    sent = {"source": "anna", "at": FUTURE[0], "target": str(tmp_path / "back")}
    refused = program.post("restores", sent)
    assert refused.status_code == 422
    assert FOREIGN in refused.content.decode()
    assert program.post("restores", sent | {"foreign": True}).status_code == 201
    record = claim(requests.QUEUE, database_clock())
    settling.settle([(record, handler.run_restore(Run(record)))])
    assert (Restore.objects.get().outcome, tree(tmp_path / "back")) == ("succeeded", tree(folder))
    run, _ = command("repositories foreign")
    accept, refused = command("repositories accept")
    assert [each["name"] for each in json.loads(run("--source", "anna", "--json"))] == FUTURE
    assert "no foreign point" in refused("--source", "anna", "--at", ours, code=1)
    assert f"{FUTURE[0]} is in the future" in refused("--source", "anna", "--at", FUTURE[0])
    manifest = manifest_in(assignment.policy.repository, assignment, FUTURE[0])
    moved = manifest.rename(manifest.with_name(f"{(past := '20200101T000000Z')}{layout.MANIFEST_ENDING}"))
    assert "that of another one" in refused("--source", "anna", "--at", past)
    assert "left as it is" in accept("--source", "anna", "--all")
    assert program.post("restores", sent | {"at": past, "foreign": True}).status_code == 201
    record = claim(requests.QUEUE, database_clock())
    assert "that of another one" in error_of(handler.run_restore(Run(record)))
    put_fake(moved, past)
    assert known_points.are_chained(assignment, assignment.policy.repository)
    assert "accepted" in accept("--source", "anna", "--at", past)
    assert [each["name"] for each in json.loads(run("--source", "anna", "--json"))] == FUTURE[1:]
    assert set(Backup.objects.values_list("snapshot", flat=True)) == {past, ours}
    assert not known_points.are_chained(assignment, assignment.policy.repository), "it may have come between"


def test_all_are_accepted_after_one_question_that_names_count_repository_and_span(
    assignment: Assignment, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        change(folder, letter=f"{number}")
        backed_up(assignment)
    names = sorted(Backup.objects.values_list("snapshot", flat=True))
    put_fakes(assignment, assignment.policy.repository)
    for row in (Backup, ManifestDigest):
        row.objects.all().delete()
    Assignment.objects.update(last_backup_at=None)
    run, _ = command("repositories foreign")
    accept, refused = command("repositories accept")
    first, last = (moment(layout.instant_of(name)) for name in names)
    question = f"Accept 2 foreign points of anna in repository office, {first} to {last} UTC, as they are?"
    for wanted in (("--source", "anna", "--all"), ("office", "--all")):
        assert question in refused(*wanted, code=2), "there is no terminal to ask at"
        monkeypatch.setattr("sys.stdin.isatty", lambda: True)
        asked: list[str] = []
        monkeypatch.setattr("builtins.input", lambda text, asked=asked: asked.append(text) or "n")
        assert "nothing was changed" in accept(*wanted)
        assert [each.removesuffix(" [y/N] ") for each in asked] == [question]
        monkeypatch.undo()
    assert {each["name"] for each in json.loads(run("--source", "anna", "--json"))} == {*names, *FUTURE}
    answer = accept("office", "--all", "--yes")
    assert "2 foreign points of anna in repository office, 9999" in answer
    assert "in the future, and left as they are" in answer
    assert "2 points: accepted" in answer
    assert [each["name"] for each in json.loads(run("--source", "anna", "--json"))] == FUTURE
    assert sorted(Backup.objects.values_list("snapshot", flat=True)) == names
    assert "No point is foreign" in accept("--source", "anna", "--all", "--yes")
    assert "name the repository, or the source" in refused("--all")
    assert "name the source by --source" in refused("office", "--at", "x")


def test_a_point_whose_result_was_lost_is_known_by_its_digest(assignment: Assignment) -> None:
    backed_up(assignment)
    point = newest(assignment)
    Backup.objects.all().delete()
    change(Path(assignment.source.path), letter="new")
    backed_up(assignment)
    checked(assignment)
    assert set(Backup.objects.values_list("snapshot", flat=True)) == {point, newest(assignment)}
    assert CheckRound.objects.get().damage == []


@pytest.fixture
def unread(policy: Policy) -> Assignment:
    """An assignment with a point whose files have no digests yet, as of a remote; a check reads them."""
    played = Played(Path(policy.repository.location))
    point = played.back_up({"a": "x"})
    made = make_assignment(policy, make_source(name="anna"), directory=ASSIGNMENT)
    add_backup(made, point, 1)
    take_over(made, policy.repository)
    return made


def digests_of(made: Assignment) -> tuple[str, set[str]]:
    """The digest of the stored manifest, and the known ones."""
    [(point, kept)] = known_points.of(made, made.policy.repository).items()
    return digest_of(manifest_in(made.policy.repository, made, point)), set(kept)


def checked(made: Assignment) -> None:
    assert checks.check_now([made.pk]) == 1
    done(at_work(checks.KIND))


@pytest.mark.own_process
def test_a_check_that_writes_a_manifest_again_leaves_its_point_known(
    unread: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, _ = digests_of(unread)
    with monkeypatch.context() as away:
        away.setattr(known_points, "keep", lambda *row: 1 / 0)
        checked(unread)
    assert digests_of(unread) == (before, {before}), "where the database does not keep it, it is not written"
    checked(unread)
    after, kept = digests_of(unread)
    assert after != before
    assert kept == {after}
    assert CheckRound.objects.get().damage == []


def test_a_check_that_is_killed_before_it_writes_a_manifest_again_leaves_its_point_known(
    unread: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, _ = digests_of(unread)
    with monkeypatch.context() as killed:
        killed.setattr(Store, "put_last", lambda *given, **how: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            checked(unread)
    there, kept = digests_of(unread)
    assert there == before
    assert len(kept) == 2
    assert before in kept


def test_nothing_but_a_store_reads_manifests_unseen() -> None:
    """Each reader of a manifest goes by `Store.manifest`, which compares it. A new one that does not is found here."""
    found = list[str]()
    for path, module in modules("manifest_path"):
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "fetch":
                found += [path for each in node.args if "manifest_path" in ast.unparse(each)]
    assert set(found) == {"storage/points/store.py", "storage/restic/store.py"}
