"""`init` on a bad day: it ends with a sentence, without a traceback, and leaves nothing half done."""

import os
import pty
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management.base import CommandError

from backupsched import first_backup, first_run
from backupsched.first_run import Unfit
from backupsched.management.commands import init
from jobs.clock import database_clock
from jobs.models import Attempt
from jobs.states import AttemptOutcome, Status
from sources.planning.names import KIND, subject_of
from tests.backupsched.managing import environment
from tests.factories import make_record
from tests.sources.factories import make_assignment, make_source, policy_named

INIT = (sys.executable, "-m", "backupsched", "init")


@pytest.mark.parametrize("closed", ["<&-", "<&- >&-"])
def test_a_standard_stream_may_be_closed(closed: str, tmp_path: Path) -> None:
    line = f'exec "$@" --database mysql://x {closed}'
    done = subprocess.run(
        ("sh", "-c", line, "sh", *INIT), cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.startswith("Error: --database: DATABASE_URL begins with 'mysql'"), done.stderr


@pytest.mark.parametrize(
    ("typed", "said"), [(b"\x04", "the input ended at a question"), (b"caf\xe9\n", "the answer is not text in UTF-8")]
)
def test_an_input_that_ends_or_is_no_text_is_said(typed: bytes, said: str, tmp_path: Path) -> None:
    near, far = pty.openpty()
    os.write(near, typed)
    strict = environment(tmp_path, PYTHONIOENCODING="utf-8:strict")
    done = subprocess.run(INIT, cwd=tmp_path, env=strict, stdin=far, capture_output=True, text=True)
    os.close(near)
    os.close(far)
    assert (done.returncode, done.stderr) == (2, f"Error: {said}: nothing more was done\n")
    assert not (tmp_path / "var/postgres").exists()


def test_a_folder_that_the_system_does_not_look_at_is_named(tmp_path: Path) -> None:
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers/letter").touch()
    (tmp_path / "round").symlink_to("round")
    for text, why in (
        (str(tmp_path / "round"), "round cannot be read: Too many levels of symbolic links"),
        (str(tmp_path / "round/below"), "below cannot be read: Too many levels"),
        (str(tmp_path / ("x" * 300)), "cannot be read: File name too long"),
        ("~nobody-has-this-name/papers", "cannot be found from here: give its whole path"),
        (f"{tmp_path}/\0", "contains a zero byte, which a path must not"),
        ("caf\udce9", "is not text in UTF-8: name another folder"),
    ):
        with pytest.raises(Unfit, match=why):
            first_run.source(text)
        with pytest.raises(Unfit, match=why):
            first_run.repository(text, str(tmp_path / "papers"))


def test_a_user_without_a_name_has_none_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)
    assert first_run.name_of_user() == ""


@pytest.mark.django_db
def test_an_account_that_cannot_be_made_is_refused_at_its_question() -> None:
    User.objects.create_user("ann")
    User.objects.create_superuser("gone", is_active=False)
    User.objects.create_superuser("admin")
    for name, why in (
        ("a" * 151, "at most 150 characters"),
        ("two words", "Enter a valid username"),
        ("ann", "ann exists, and is not an active superuser: name another account"),
        ("gone", "gone exists, and is not an active superuser"),
    ):
        with pytest.raises(Unfit, match=why):
            first_run.account(name)
    assert first_run.account("admin") == "admin"


@pytest.mark.django_db
def test_an_earlier_init_is_completed_with_its_own_folders_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/srv/backups")
    make_assignment(policy_named(init.POLICY), make_source(name="papers"))
    command = init.Command()
    for options in (
        {},
        {"repository": "/srv/backups/"},
        {"source": "/srv/files", "repository": str(tmp_path / "link")},
    ):
        command._refuse_other_folders("papers", {"source": None, "repository": None} | options)
    for option, there in (("source", "/srv/files"), ("repository", "/srv/backups")):
        other: dict[str, Any] = {"source": None, "repository": None, option: "/elsewhere"}
        with pytest.raises(
            CommandError, match=f"--{option}: an earlier `init` has set up {there}, and has made no"
        ) as e:
            command._refuse_other_folders("papers", other)
        assert e.value.returncode == 2
    with pytest.raises(CommandError, match=r"another .* has set up papers in the meantime"):
        command._be_alone()


@pytest.mark.django_db
def test_a_source_that_is_not_there_ends_the_wait_for_its_first_backup(monkeypatch: pytest.MonkeyPatch) -> None:
    record = make_record(Status.WAITING, kind=KIND, subject=subject_of(make_assignment().pk))
    later = database_clock() + timedelta(minutes=1)
    Attempt.objects.create(
        record=record, number=1, queue="availability", started_at=later, ended_at=later,
        outcome=AttemptOutcome.UNAVAILABLE, error="/srv/files is not there",
    )  # fmt: skip
    worker = (sys.executable, "-c", "import time; time.sleep(20)")
    monkeypatch.setattr(first_backup, "own_command", lambda: worker)
    with pytest.raises(CommandError, match="the first backup failed: /srv/files is not there\nWhat to do: correct"):
        first_backup.back_up("papers", lambda found: None)
