"""`manage.py restores run`, with real repositories, in the foreground."""

import json
import os
import shutil
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from sources.models import Assignment, Repository, Source
from tests.backups.points_to_remove import add_backup
from tests.commands import command
from tests.jobs.worker_processes import database_url
from tests.sources.factories import make_assignment, make_policy, make_source, policy_into
from tests.sources.made_by_hand import take_over
from tests.storage.building import ASSIGNMENT, Built, picture
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("made_by_hand")]


@pytest.fixture
def built(tmp_path: Path, settings: Any) -> Built:
    """A repository of the source *nas*, at which the policy is in Berlin."""
    settings.VAR_DIR = tmp_path / "var"
    built = Built(tmp_path / "built")
    policy = policy_into(built.folder / "repository", "disk", zone="Europe/Berlin")
    make_assignment(policy, make_source(name="nas"), directory=ASSIGNMENT)
    return built


def restore(*arguments: object) -> str:
    out = StringIO()
    call_command("restores", "run", "nas", *map(str, arguments), stdout=out)
    return out.getvalue()


def points(*arguments: object) -> str:
    return command("restores points")[0]("nas", *arguments)


def test_a_source_comes_back_as_it_was_at_a_time(built: Built, tmp_path: Path) -> None:
    built.write("docs/a", "first")
    built.back_up()  # 06:00 UTC
    before = picture(built.source)
    built.write("docs/a", "second")
    built.back_up()  # 07:00 UTC, 08:00 in Berlin

    out = restore("--at", "2026-11-20T07:59", "--to", tmp_path / "to")

    assert picture(tmp_path / "to") == before
    assert "nas as of 2026-11-20 07:00:00 +0100 (point 20261120T060000Z, times in Europe/Berlin)" in out
    assert "1 file, 5 bytes, restored to" in out
    assert [row["point"] for row in json.loads(points("--json"))] == built.points[::-1]
    assert "docs/a" in points("--path", "docs")


def test_points_of_a_repository_that_its_policy_had_before_are_listed_and_restored(
    built: Built, tmp_path: Path
) -> None:
    built.write("a", "first")
    built.back_up()
    assignment = Assignment.objects.get()
    add_backup(assignment, built.points[0], 1)
    later = Built(tmp_path / "later", runs=1)
    later.write("a", "second")
    later.back_up()
    policy = assignment.policy
    policy.repository = Repository.objects.create(name="new", location=str(later.folder / "repository"))
    policy.save()
    assert [row["point"] for row in json.loads(points("--json"))] == [*later.points, *built.points]
    restore("--at", built.points[0], "--to", tmp_path / "to")
    assert (tmp_path / "to/a").read_text() == "first"
    (later.folder / "repository").rename(tmp_path / "away")
    add_backup(assignment, later.points[0], 2)
    with pytest.raises(CommandError, match="is it mounted"):
        restore("--at", "2026-11-20T23:00", "--to", tmp_path / "to2")


def test_it_goes_back_to_its_source_and_replaces_only_what_was_agreed(built: Built, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    Source.objects.update(kind="local", path=str(home))
    built.write("docs/a", "first")
    built.back_up()

    restore("--back", "--path", "docs")
    assert (home / "docs/a").read_text() == "first"
    restore("--back", "beside")
    assert (home / "beside/docs/a").read_text() == "first"
    (home / "docs/a").write_text("changed since")
    _, refused = command("restores run")
    assert "Replace what differs in nas?" in refused("nas", "--back", "--overwrite")
    assert (home / "docs/a").read_text() == "changed since"
    restore("--back", "--overwrite", "--yes")
    assert (home / "docs/a").read_text() == "first"
    assert "must be a folder below the path" in refused("nas", "--back", "../elsewhere")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--at", "2026-11-19"), "no point at or before 2026-11-19 23:59:59 .0100; the first one is 20261120T060000Z"),
        (("--at", "soon"), "'soon' is not a time; write 24h, yesterday, 2026-03-02"),
        (("--path", "dosc"), "there is no 'dosc' in this point; it has 'docs'"),
        (("--policy", "weekly"), "nas has no backups under a policy 'weekly'; it has some under policy"),
    ],
)
def test_what_cannot_be_is_a_sentence_and_writes_nothing(
    built: Built, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    built.write("docs/a", "")
    built.back_up()

    with pytest.raises(CommandError, match=message) as error:
        restore(*arguments, "--to", tmp_path / "to")
    assert (error.value.returncode, (tmp_path / "to").exists()) == (2, False)


def test_an_unknown_source_names_similar_ones(built: Built) -> None:
    with pytest.raises(CommandError, match="there is no source 'nsa'; did you mean 'nas'"):
        call_command("restores", "points", "nsa")


def test_a_repository_with_backups_under_another_policy_names_that_one(built: Built) -> None:
    built.write("a", "")
    first = Assignment.objects.get()
    add_backup(first, built.back_up(), 1)
    Repository.objects.create(name="empty", location="/empty")
    second = make_assignment(
        make_policy(repository=Repository.objects.create(name="tape", location="/tape")), first.source, directory="b"
    )

    def refused(repository: str) -> str:
        with pytest.raises(CommandError) as error:
            points("--policy", second.policy, "--from", repository)
        return str(error.value)

    nothing = f"holds neither backups of nas under {second.policy} nor copies of them"
    assert refused("disk") == f"repository 'disk' {nothing}; it has some under {first.policy}: name that policy"
    assert refused("empty") == f"repository 'empty' {nothing}"


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("number", "code", "message"),
    [
        (signal.SIGKILL, -signal.SIGKILL, ""),
        (signal.SIGTERM, 1, "Error: stopped; the same command continues where it was\n"),
    ],
)
def test_a_killed_restore_goes_on(built: Built, tmp_path: Path, number: int, code: int, message: str) -> None:
    for name in range(3):
        built.write(f"{name}", os.urandom(20_000_000))
    to, point = tmp_path / "to", built.back_up()
    take_over(Assignment.objects.get(), Repository.objects.get())
    command = (sys.executable, "manage.py", "restores", "run", "nas", "--to", str(to), "--json")
    environment = {**os.environ, "DATABASE_URL": database_url(), "BACKUPSCHED_VAR": str(tmp_path / "var")}
    pipe = subprocess.PIPE

    def killed_in_the_middle() -> tuple[int, str] | None:
        shutil.rmtree(to, ignore_errors=True)  # where it was done before it was killed
        with subprocess.Popen(
            command, cwd=settings.BASE_DIR, env=environment, stdout=pipe, stderr=pipe, text=True
        ) as killed:
            assert killed.stdout
            assert killed.stdout.readline()  # the first step: rclone copies
            killed.send_signal(number)
            _, errors = killed.communicate(timeout=PATIENCE)
        return (killed.returncode, errors) if list(to.glob(f".restore-{point}.*.unfinished")) else None

    assert eventually(killed_in_the_middle) == (code, message)

    done = subprocess.run(
        command, cwd=settings.BASE_DIR, env=environment, stdout=subprocess.PIPE, check=True, timeout=PATIENCE
    )

    assert json.loads(done.stdout.splitlines()[-1])["restored"]["failed"] == []
    assert picture(to) == picture(built.source)
