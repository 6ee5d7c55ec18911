"""`init`: a new installation, up to its first backup."""

import json
import os
import pty
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError

from backupsched import first_backup, first_run
from backupsched.first_run import Unfit
from jobs.models import Attempt, BacklogRecord
from jobs.states import AttemptOutcome, Status
from sources.planning.names import KIND, subject_of
from tests.backupsched.managing import environment
from tests.documents import ROOT
from tests.engines.peers import free_port
from tests.engines.postgresql_peer import EMBEDDED, postgresql_server
from tests.factories import NOON, make_record
from tests.sources.factories import make_assignment, make_source
from tests.waiting import eventually


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that the server's account can pass through, with something to back up."""
    with tempfile.TemporaryDirectory(prefix="backupsched-tests-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        (folder / "papers").mkdir()
        (folder / "papers/letter").write_text("precious")
        yield folder


def backupsched(home: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, "-m", "backupsched", *arguments), cwd=home, env=environment(home, **more),
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.slow
def test_from_an_empty_folder_to_the_first_backup_and_not_twice(home: Path) -> None:
    kept = home / "var" / first_run.SETTINGS
    kept.parent.mkdir()
    kept.write_text("DATABASE_URL=postgresql://127.0.0.1:1/another\n")
    arguments = ("init", "--source", "papers", "--repository", "backups", "--json")
    done = backupsched(home, *arguments, DATABASE_URL="")  # the embedded one, which the environment asks for
    assert kept.read_text() == "DATABASE_URL=''\n"
    try:
        assert done.returncode == 0, done.stderr
        facts = json.loads(done.stdout)
        assert (facts["files"], facts["source"], facts["database"]) == (1, "papers", "embedded")
        [copy] = (home / "backups").glob("papers-*/daily/files/*/letter")
        assert copy.read_text() == "precious"
        again = backupsched(home, "init", "--source", "papers", "--repository", "backups")
        assert (again.returncode, again.stdout) == (2, "")
        assert again.stderr.startswith("Error: this installation is set up: it has sources, such as papers.")
    finally:
        backupsched(home, "database", "stop")


def conversation(home: Path, answers: list[tuple[str, str]]) -> str:
    """The output of `init` at a terminal, where each question that contains the first is given the second."""
    near, far = pty.openpty()
    process = subprocess.Popen(
        (sys.executable, "-m", "backupsched", "init"), cwd=home, env=environment(home), stdin=far,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    os.close(far)
    assert process.stdout is not None
    said, since = b"", b""
    try:
        while piece := os.read(process.stdout.fileno(), 65_536):
            said, since = said + piece, since + piece
            if answers and since.endswith(b" ") and answers[0][0].encode() in since:
                os.write(near, f"{answers.pop(0)[1]}\n".encode())
                since = b""
        assert process.wait() == 0, said.decode()
        return said.decode()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        os.close(near)


@pytest.mark.slow
def test_a_person_is_asked_and_another_database_is_remembered(home: Path) -> None:
    with postgresql_server(EMBEDDED) as server:
        server.run("CREATE DATABASE backups;; CREATE ROLE guest LOGIN PASSWORD 'hunter2'")
        usual = f"host={server.folder}"
        wrong = f"postgresql://guest:hunter2@/backups?{usual}"
        right = f"postgresql://admin:p%27w%20%5C%20%22x@/backups?{usual}"
        answers = [
            ("Database", wrong), ("Database", right), ("Which folder", "nothing"), ("Which folder", "papers"),
            ("Where should", "papers/in"), ("Where should", "backups"), ("time zone", "Nowhere"),
            ("time zone", "Europe/Berlin"), ("Name of", ""), ("Password", "1"), ("Password", ""),
        ]  # fmt: skip
        output = conversation(home, answers)
        assert "may not create tables there" in output
        assert "nothing is not a folder on this host" in output
        assert "each backup would copy the earlier ones" in output
        assert "'Nowhere' is not a time zone" in output
        assert "This password is too short" in output
        assert "has the password" in output
        assert "the first backup: " in output
        assert "\\u00" not in output
        assert "hunter2" not in output
        kept = home / "var" / first_run.SETTINGS
        assert kept.stat().st_mode & 0o077 == 0
        written = kept.read_text()
        refused = backupsched(home, "init", "--database", wrong, "--source", "papers", "--repository", "backups")
        assert (refused.returncode, kept.read_text()) == (2, written), refused.stderr
        listed = backupsched(home, "sources", "list", "--json")
        assert [each["name"] for each in json.loads(listed.stdout)] == ["papers"], listed.stderr
        assert not (home / "var/postgres").exists()


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("mysql://x", "only PostgreSQL is supported"),
        ("postgresql://a:hunter2@127.0.0.1:1/x", "refused"),
        ("postgresql://a:hunter2@[::1/x", "malformed"),
    ],
)
def test_a_database_that_does_not_do_is_named_without_its_password(url: str, why: str) -> None:
    with pytest.raises(Unfit, match=why) as caught:
        first_run.database(url)
    assert "hunter2" not in str(caught.value)


def test_folders_that_do_not_do(tmp_path: Path) -> None:
    (tmp_path / "papers").mkdir()
    papers = str(tmp_path / "papers")
    with pytest.raises(Unfit, match="is empty"):
        first_run.source(papers)
    (tmp_path / "papers/letter").touch()
    assert first_run.source(papers) == papers
    (tmp_path / "link").symlink_to(papers)
    (tmp_path / "file").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full/a.txt").touch()
    for text, why in (
        (papers, "is inside"),
        (f"{papers}/below", "is inside"),
        (str(tmp_path / "link/below"), "is inside"),
        (str(tmp_path), "which is backed up"),
        ("/proc/backups", "cannot be written: .*Name another folder"),
        (str(tmp_path / "file"), "is not a folder: name one"),
        (str(tmp_path / "full"), "holds other files, such as a.txt: name an empty folder, or .*full/backupsched"),
        (f"{papers}/letter/below", "is inside"),
    ):
        with pytest.raises(Unfit, match=why):
            first_run.repository(text, papers)
    assert Path(first_run.repository(str(tmp_path / "a/b"), papers)).is_dir()
    (tmp_path / "a/b/lost+found").mkdir()  # of a new disk
    first_run.repository(str(tmp_path / "a/b"), papers)
    (tmp_path / "full/repository.json").touch()  # of an `init` that was killed
    first_run.repository(str(tmp_path / "full"), papers)


def test_a_database_that_is_kept_in_the_file_of_settings_is_named_with_that_file(tmp_path: Path) -> None:
    kept = first_run.write_settings(tmp_path, {"DATABASE_URL": "postgresql://a:hunter2@127.0.0.1:1/x"})
    environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    environment |= {"BACKUPSCHED_VAR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "backupsched.settings"}
    for command in (["init"], ["run", "--listen", f"127.0.0.1:{free_port('127.0.0.1')}"]):
        done = subprocess.run(
            (sys.executable, str(ROOT / "manage.py"), *command), env=environment, cwd=tmp_path,
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 2
        assert f"Check DATABASE_URL in {kept}, and that the server runs; remove the line" in done.stderr
        assert "hunter2" not in done.stderr
    (tmp_path / "letter").touch()
    with pytest.raises(ImproperlyConfigured, match="letter is not a directory: name another one in BACKUPSCHED_VAR"):
        first_run.read_settings(tmp_path / "letter", {})


def test_the_environment_wins_over_the_file_of_settings(tmp_path: Path) -> None:
    (tmp_path / first_run.SETTINGS).write_text("LOG_LEVEL=DEBUG\nDATABASE_URL=postgresql://old\n")
    first_run.write_settings(tmp_path, {"DATABASE_URL": "postgresql://a:b c'd@h/x"})
    found = {"LOG_LEVEL": "ERROR"}
    first_run.read_settings(tmp_path, found)
    assert found == {"DATABASE_URL": "postgresql://a:b c'd@h/x", "LOG_LEVEL": "ERROR"}
    (tmp_path / first_run.SETTINGS).write_text("# fine\n\nexport A=1\n")
    with pytest.raises(ImproperlyConfigured, match="line 3, is not NAME=VALUE"):
        first_run.read_settings(tmp_path, {})
    first_run.read_settings(tmp_path / "nowhere", {})


@pytest.mark.django_db
def test_a_first_backup_that_failed_is_tried_once_more_and_its_error_not_reported_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assignment = make_assignment(source=make_source(name="papers"))
    subject = subject_of(assignment.pk)
    before = make_record(Status.FAILED, kind=KIND, queue="backups", subject=subject)
    Attempt.objects.create(
        record=before, number=1, queue="backups", started_at=NOON, ended_at=NOON, outcome=AttemptOutcome.FAILED,
        error="the disk was full",
    )  # fmt: skip
    monkeypatch.setattr(first_backup, "own_command", lambda: (sys.executable, "-c", "print('it ends at once')"))
    first_backup.ask_once_more("papers")
    with pytest.raises(CommandError, match="the worker ended: it ends at once"):
        first_backup.back_up("papers", lambda found: None)
    assert BacklogRecord.objects.filter(kind=KIND, subject=subject).unfinished().get().status == Status.READY


KILLED_AFTER = {
    "tables": "SELECT count(*) > 20 FROM django_migrations",
    "all tables": "SELECT count(*) > 0 FROM auth_permission",
    "an account": "SELECT count(*) > 0 FROM auth_user",
    "a source": "SELECT count(*) > 0 FROM sources_source",
    "a record": "SELECT count(*) > 0 FROM jobs_backlogrecord",
    "a claim": "SELECT count(*) > 0 FROM jobs_backlogrecord WHERE attempt > 0",
}


@pytest.mark.slow
def test_one_that_is_killed_at_any_step_is_run_again_to_its_end(home: Path) -> None:
    with postgresql_server(EMBEDDED) as server:
        server.run("CREATE DATABASE backups")
        (home / "secret").write_text("p'w \\ \"x\n")
        kept = first_run.write_settings(home / "var", {
            "DATABASE_URL": f"postgresql://admin@/backups?host={server.folder}",
            "DATABASE_PASSWORD_FILE": str(home / "secret"),
        })  # fmt: skip
        written = kept.read_text()
        arguments = ("init", "--source", "papers", "--repository", "backups", "--json")

        def is_so(question: str) -> bool:
            try:
                return bool(server.ask(question, "backups")[0][0])
            except psycopg.errors.UndefinedTable:
                return False

        def has_come_so_far(process: subprocess.Popen[bytes], question: str) -> bool:
            return process.poll() is not None or is_so(question)

        for question in KILLED_AFTER.values():
            process = subprocess.Popen(
                (sys.executable, "-m", "backupsched", *arguments), cwd=home, env=environment(home),
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            try:
                eventually(partial(has_come_so_far, process, question), 300)  # all migrations are run
            finally:
                process.kill()
                process.wait()
            # a worker that it started ends with it
            eventually(lambda: not is_so("SELECT count(*) > 0 FROM jobs_worker WHERE stopped_at IS NULL"))
        done = backupsched(home, *arguments)
        is_done = "this installation is set up" in done.stderr  # the last one had its backup before it was killed
        assert done.returncode == (2 if is_done else 0), done.stderr
        facts = "SELECT (SELECT count(*) FROM auth_user), (SELECT count(*) FROM sources_source), "
        facts += (
            "(SELECT count(*) FROM sources_backup), (SELECT count(*) FROM jobs_backlogrecord WHERE kind = 'backup')"
        )
        assert server.ask(facts, "backups") == [(1, 1, 1, 1)]
        [copy] = (home / "backups").glob("papers-*/daily/files/*/letter")
        assert copy.read_text() == "precious"
        assert kept.read_text() == written, "a secret stays in its file"
