"""Hooks: what their exit codes mean, and that nothing of them outlives its worker."""

import threading
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError

from backups.hooks import debts, running
from engines.base import EngineResult, Verdict
from jobs import decisions
from jobs.backlog.cancelling import cancel
from jobs.handlers import Run
from jobs.models import BacklogRecord, Decision
from jobs.outcomes import Failed, Postponed, Released, Succeeded, Unavailable
from jobs.states import Status
from sources import planning
from sources.models import Assignment, Backup, Policy
from tests.backups.hooks.hook_of_this_host import Write, copy
from tests.engines.peers import held, is_gone
from tests.sources.factories import claimed_for, error_of, record_of
from tests.sources.worker_process import worker_process
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)

CASES: list[tuple[str, Verdict | None, str, type, list[str]]] = [
    ("", Verdict.WARNINGS, "echo stuck; exit 2", Succeeded, ["before ", "after succeeded"]),
    ("", Verdict.REPOSITORY_FAILED, "", Failed, ["before ", "after failed", "on_failure failed"]),
    ("", Verdict.STOPPED, "", Released, ["before ", "after stopped"]),
    ("exit 75", None, "", Unavailable, ["before "]),
    ("echo no room; exit 3", None, "", Failed, ["before ", "on_failure failed"]),
    ("sleep 60", None, "", Failed, ["before ", "after failed", "on_failure failed"]),
    ("echo away; exit 4", None, "", Unavailable, ["before "]),
    ("exit 5", Verdict.SUCCEEDED, "exit 5", Succeeded, ["before ", "after succeeded"]),
]
CODES = 'exit_codes = {4 = "unavailable", 5 = "succeeded"}'
"""The effects of `before`, of the copy and of `after`; the outcome, and the commands that ran."""

TEXTS = {
    "exit 75": "hook it, before: exit code 75",
    "echo no room; exit 3": "hook it, before: exit code 3: no room",
    "sleep 60": "hook it, before: it was ended after 1 s, its timeout",
    "echo away; exit 4": "hook it, before: exit code 4: away",
}


def test_what_becomes_of_the_backup(
    write: Write, log: Path, laptop: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    for before, copied, after, outcome, ran in CASES:
        log.unlink(missing_ok=True)
        Decision.objects.all().delete()
        more = 'timeout = "1s"' if "sleep" in before else CODES
        write(more, before=before, after=after, on_failure="exit 9")
        made = EngineResult(copied, error="it broke") if copied else None
        monkeypatch.setattr("backups.repository_orders.back_up", lambda task, found=made, **_: found)
        found = copy(laptop)
        assert isinstance(found, outcome), (before, copied, found)
        assert log.read_text().splitlines() == ran
        assert Decision.objects.filter(what="hook").count() == len(ran)
        if isinstance(found, Succeeded):
            assert found.result.warnings == (("hook it, after: exit code 2: stuck",) if "stuck" in after else ())
        elif before:
            assert TEXTS[before] == (found.reason if isinstance(found, Unavailable) else found.error)
        if isinstance(found, Unavailable):
            assert found.recheck_after == 77


def test_sees_an_environment_of_its_own_and_writes_no_secret(
    write: Write, log: Path, laptop: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUMP_PASSWORD", "correct horse")
    monkeypatch.setenv("DATABASE_URL", "postgresql://secret")
    write('environment = ["DUMP_PASSWORD"]', before="env; seq 100000; echo $DUMP_PASSWORD; kill -9 $$")
    found = copy(laptop)
    assert found.error.startswith("hook it, before: exit code 137: ")
    assert found.error.endswith("99998\n99999\n100000\n***")
    write('environment = ["DUMP_PASSWORD"]', before=f"env > {log}")
    monkeypatch.setattr("backups.repository_orders.back_up", lambda task, **_: EngineResult(Verdict.SUCCEEDED))
    copy(laptop)
    seen = dict(line.partition("=")[::2] for line in log.read_text().splitlines())
    assert (seen["DUMP_PASSWORD"], seen["BACKUPSCHED_POLICY"]) == ("correct horse", str(laptop.policy))
    assert (seen["BACKUPSCHED_PATH"], seen["BACKUPSCHED_REPOSITORY"]) == (laptop.source.path, "vault")
    assert not {"DATABASE_URL", "DJANGO_SETTINGS_MODULE"} & seen.keys()


TOLD = 'echo "$BACKUPSCHED_BEFORE, $BACKUPSCHED_AFTER" >> {log}; '


def test_a_stop_ends_before_at_once_and_gives_after_a_moment_and_what_it_cuts_off_is_run_again(
    write: Write, log: Path, laptop: Assignment, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path
) -> None:
    settings.JOBS = {**settings.JOBS, "LEASE_SECONDS": 12}
    settings.VAR_DIR = tmp_path / "var"
    told = TOLD.format(log=log)
    began = Path(f"{log}.began")

    def stopped_in_before(script: str) -> None:
        began.unlink(missing_ok=True)
        log.unlink(missing_ok=True)
        run = Run(claimed_for(laptop, queue=planning.BACKUPS))
        write(before=f"{script} sleep 1000 & echo $! > {began}.new; mv {began}.new {began}; wait", after=told)
        threading.Thread(target=lambda: (eventually(began.exists), run.stop.set()), daemon=True).start()
        assert isinstance(copy(laptop, run), Released)
        eventually(lambda: is_gone(int(began.read_text())))  # killed with its group, it ends as soon as it runs

    for script in ("", "trap 'exit 0' TERM;"):
        stopped_in_before(script)
        assert log.read_text().splitlines() == ["before ", "after stopped", "cut off, first"]
        assert debts.debts() == []

    def back_up(task: Any, **_: Any) -> EngineResult:
        run.stop.set()
        return EngineResult(Verdict.STOPPED)

    monkeypatch.setattr("backups.repository_orders.back_up", back_up)
    run = Run(claimed_for(laptop, queue=planning.BACKUPS))
    write(before="", after=f"{told} trap '' TERM; sleep 0.3; echo released >> {log}; sleep 1000")
    assert isinstance(copy(laptop, run), Released)
    assert log.read_text().endswith("after stopped\nsucceeded, first\nreleased\n")
    write(after=told)
    running.pay_owed()
    eventually(lambda: not debts.debts())
    assert log.read_text().endswith("after failed\nsucceeded, again\n")


def test_after_runs_though_the_database_goes_away_in_between(
    write: Write, log: Path, laptop: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = decisions.log

    def goes_away(what: str, *args: Any, **facts: Any) -> None:
        if what == "hook":
            raise OperationalError("the connection is closed")
        written(what, *args, **facts)

    monkeypatch.setattr(decisions, "log", goes_away)
    monkeypatch.setattr("backups.repository_orders.back_up", lambda task, **_: goes_away("hook"))
    write(before="", after="")
    assert isinstance(copy(laptop), Postponed)
    assert log.read_text().splitlines() == ["before ", "after failed"]


def test_what_a_killed_worker_owes_is_paid_before_the_next_before_and_by_one_alone(
    write: Write, log: Path, laptop: Assignment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Any
) -> None:
    settings.VAR_DIR = tmp_path / "var"
    monkeypatch.setattr("backups.repository_orders.back_up", lambda task, **_: EngineResult(Verdict.SUCCEEDED))
    write(before="", after='echo "$BACKUPSCHED_RECORD" >> ' + str(log))
    note = {"hook": "it", "facts": {"RECORD": "77"}}
    monkeypatch.setattr(debts, "PATIENCE_SECONDS", 0)
    with debts.noted(laptop.pk, note, lambda *_: True):
        assert isinstance(copy(laptop), Postponed)
        debts.pay_all(lambda *_: pytest.fail("its run is under way"))
    assert [debt.marks for debt in debts.debts()] == [set()]
    run = Run(claimed_for(laptop, queue=planning.BACKUPS))
    assert isinstance(copy(laptop, run), Succeeded)
    assert log.read_text().splitlines() == ["after failed", "77", "before ", "after succeeded", str(run.record.id)]
    assert debts.debts() == []
    settings.VAR_DIR = log  # as a disk that is full, or read-only
    assert f"hook it: {log}/hooks cannot be written" in error_of(copy(laptop))


@pytest.mark.slow
def test_around_a_real_copy_a_cancel_and_a_worker_that_is_killed(
    write: Write, log: Path, laptop: Assignment, tmp_path: Path, settings: Any
) -> None:
    dump, pid = tmp_path / "files" / "dump", Path(f"{log}.pid")
    queues = f"{planning.AVAILABILITY}:4,{planning.BACKUPS}:2"
    own = {"BACKUPSCHED_HOOKS": str(settings.HOOKS_FILE), "BACKUPSCHED_VAR": str(tmp_path / "var")}

    def hung() -> int:
        pid.unlink(missing_ok=True)
        write(before=f"sleep 1000 & echo $! > {pid}.new; mv {pid}.new {pid}; wait", after="")
        planning.back_up_now([laptop], asked_by="kim")
        eventually(pid.exists)
        return int(pid.read_text())

    write(before=f"echo rows > {dump}", after=f"rm {dump}")
    planning.emit_due()
    with worker_process(queues, tmp_path, **own) as worker:
        made = eventually(lambda: Backup.objects.first() or "Traceback" in (tmp_path / "worker.log").read_text())
        assert isinstance(made, Backup), (tmp_path / "worker.log").read_text()
        laptop.refresh_from_db()
        assert held(tmp_path / "vault" / laptop.directory)["dump"] == "rows\n"
        assert not dump.exists()
        assert log.read_text().splitlines() == ["before ", "after succeeded"]

        child = hung()
        record = record_of(laptop)
        cancel([record.pk])
        eventually(lambda: BacklogRecord.objects.filter(pk=record.pk, status=Status.CANCELLED).exists())
        eventually(lambda: is_gone(child))

        child = hung()
        worker.kill()
        eventually(lambda: is_gone(child))
    assert log.read_text().splitlines()[2:] == ["before ", "after stopped", "before "]
    with worker_process("callbacks:1", tmp_path, **own):
        eventually(lambda: log.read_text().endswith("before \nafter failed\n"))
    assert Policy.objects.get().hook == "it"
