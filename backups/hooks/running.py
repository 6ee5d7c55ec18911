"""Runs the hook of a policy around a backup of one of its sources, and when an attempt has failed.

    before       its exit code decides: 0 continues, 75 is a source that is not there, all else is a failure, unless
                 the hook says otherwise
    the copy     only then
    after        always after a `before` that succeeded, also if the copy failed: a snapshot has to be released;
                 after one that was cut off, by a stop or its timeout, too; its failure is a warning
    on_failure   once when the attempt has failed, for any reason

A worker that is killed, or stopped before `after` has ended, owes it: `debts.py`.

`before` ends with the copy's stop: a cancel, the close of the window, a source that vanished, the loss of the lease.
`after` and `on_failure` have a separate time after that, shorter than the rest of the lease.
"""

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from django.db import Error, connection

from backups.hooks import debts
from engines.base import BackupTask, EngineResult, Verdict
from engines.limits import Later
from engines.results import STOPPED, WARNING_LENGTH, WARNINGS, failure
from external.durations import span
from external.processes import runner
from external.processes.runner import Command, EndReason, ProgramEnd, StopSignal
from external.redaction import redacted
from jobs import conf, decisions
from jobs.handlers import Run
from jobs.outcomes import Failed, Outcome, Released, Unavailable
from jobs.prepared_statements import storable
from jobs.set_aside import name_once
from sources.declarations.hook_file import UNAVAILABLE, Hook, HookUnusable, hook_of
from sources.models import Assignment
from sources.planning.names import KIND, subject_of
from storage.places.locks import Busy

log = logging.getLogger(__name__)
_paying = threading.Lock()

KEEPER = (sys.executable, "-I", "-S", str(Path(__file__).with_name("keeper.py")))
SHOWN_LINES = 5
OUTCOMES = {
    Verdict.SUCCEEDED: "succeeded", Verdict.WARNINGS: "succeeded", Verdict.STOPPED: "stopped",
    Verdict.UNAVAILABLE: "unavailable", Verdict.NOT_FOR_NOW: "unavailable",
    Verdict.BUSY: "unavailable",
}  # fmt: skip
"""Outcomes that `after` sees; all others are failures."""

KILLED = {"OUTCOME": "failed", "ERROR": "the worker was killed, or stopped before `after` had ended"}

Copy = Callable[[BackupTask], EngineResult]
Do = Callable[..., tuple[ProgramEnd, str]]


def around(run: Run, assignment: Assignment, task: BackupTask, copy: Copy, stop: StopSignal) -> Outcome | EngineResult:
    """Run `copy(task)` with the hook of its policy before and after it. Returns the result, or the outcome if the hook
    decides."""
    name, grace = assignment.policy.hook, task.grace
    if not name:
        return copy(task)
    try:
        hook = hook_of(name)
    except HookUnusable as error:
        return Failed(str(error))
    if stop.is_set():
        return failure(Verdict.STOPPED, STOPPED)
    facts = _facts(run, assignment)
    do = partial(_run, hook, facts, {"record": run.record}, [*task.source.hidden, *task.location.secrets])
    if "after" not in hook.commands:
        return _before(do, assignment, task, stop)[1] or copy(task)
    pay = partial(_pay, Later(run.stop, grace * 3 / 8), grace / 8, if_gone=True)
    try:
        with debts.noted(assignment.pk, {"hook": name, "facts": facts}, pay) as debt:
            return _through(run, assignment, task, copy, stop, do, debt)
    except debts.DebtUnpaid:
        return failure(Verdict.STOPPED, STOPPED)
    except Busy as error:
        return failure(Verdict.BUSY, str(error))
    except OSError as error:
        return Failed(
            f"hook {name}: {debts.root()} cannot be written, where pending `after` commands are noted: {error.strerror}"
        )


def _through(
    run: Run, assignment: Assignment, task: BackupTask, copy: Copy, stop: StopSignal, do: Do, debt: debts.Debt
) -> Outcome | EngineResult:
    """`before`, the copy if that succeeded, and `after` unless `before` has failed by itself."""
    ending, refused = _before(do, assignment, task, stop)
    if ending is EndReason.EXITED and refused:
        debt.mark_paid()
        return refused
    if not refused:
        debt.mark(debts.SUCCEEDED)
    result = refused or failure(Verdict.SOURCE_FAILED, "")
    try:
        result = refused or copy(replace(task, grace=task.grace / 2))
    finally:
        error = result.error if isinstance(result, EngineResult | Failed) else ""
        outcome = OUTCOMES.get(result.verdict, "failed") if isinstance(result, EngineResult) else "failed"
        do = partial(do, "after", Later(run.stop, task.grace * 3 / 8), task.grace / 8)
        ended, warning = do(**_stages_of(debt), OUTCOME=outcome, ERROR=error)
        if ended.ending is not EndReason.STOPPED:
            debt.mark_paid()
    if warning and isinstance(result, EngineResult):
        return replace(result, warnings=(warning[:WARNING_LENGTH], *result.warnings)[:WARNINGS])
    return result


def _before(
    do: Do, assignment: Assignment, task: BackupTask, stop: StopSignal
) -> tuple[EndReason, Outcome | EngineResult | None]:
    """The end of `before`, and the result of the run without a copy; None if the copy is to be made."""
    ended, problem = do("before", stop, task.grace / 2)
    if ended.ending is EndReason.STOPPED:
        return ended.ending, failure(Verdict.STOPPED, STOPPED)
    if ended.ending is EndReason.EXITED and ended.exit_code == UNAVAILABLE:
        return ended.ending, Unavailable(problem, assignment.policy.recheck_after)
    return ended.ending, Failed(problem) if problem else None


def _stages_of(debt: debts.Debt) -> dict[str, str]:
    """Variables for `after`, which begins now, about the stages before it."""
    seen = {
        "BEFORE": "succeeded" if debts.SUCCEEDED in debt.marks else "cut off",
        "AFTER": "again" if debts.AGAIN in debt.marks else "first",
    }
    debt.mark(debts.AGAIN)
    return seen


def after_failure(run: Run, assignment: Assignment, outcome: Outcome) -> None:
    """Run `on_failure` of the hook of its policy if the attempt has failed. That changes no outcome."""
    ran_out = run.ran_out and isinstance(outcome, Released)
    if not assignment.policy.hook or not (ran_out or isinstance(outcome, Failed)):
        return
    error = outcome.error if isinstance(outcome, Failed) else "it ran for too long"
    try:
        hook = hook_of(assignment.policy.hook)
    except HookUnusable:  # the failure names it, if that is the cause
        return
    grace = conf.ending_seconds()
    stop, facts = Later(run.stop, grace * 3 / 8), _facts(run, assignment)
    _run(hook, facts, {"record": run.record}, (), "on_failure", stop, grace / 8, OUTCOME="failed", ERROR=error)


def pay_owed(now: datetime | None = None) -> int:
    """Run each `after` that a worker on this host owes, in a thread, since it may take as long as its timeout. Returns
    how many notes there are.
    """
    if (found := len(debts.debts())) and not _paying.locked():
        threading.Thread(target=_pay_all, name="owed-hooks", daemon=True).start()
    return found


def _pay_all() -> None:
    with _paying:
        try:
            debts.pay_all(partial(_pay, threading.Event(), conf.ending_seconds() / 8, if_gone=False))
        except OSError:
            log.exception("cannot run the commands that hooks owe")
        finally:
            connection.close()


def _pay(stop: StopSignal, grace: float, debt: debts.Debt, note: dict[str, Any], *, if_gone: bool) -> bool:
    """Run the `after` of an earlier run. `if_gone`: whether the debt of a hook that is gone counts as paid."""
    about = {"kind": KIND, "subject": subject_of(debt.assignment)}
    try:
        hook = hook_of(note["hook"])
    except HookUnusable as error:
        name_once(f"the command that {note['hook']} of assignment {debt.assignment} owes is not run: {error}")
        return if_gone
    ended, _ = _run(hook, note["facts"], about, (), "after", stop, grace, **_stages_of(debt), **KILLED)
    return ended.ending is not EndReason.STOPPED


def _run(
    hook: Hook, about_run: Mapping[str, str], about: dict[str, Any], secrets: Iterable[str],
    what: str, stop: StopSignal, grace: float, **facts: str,
) -> tuple[ProgramEnd, str]:  # fmt: skip
    """The end of a command of the hook, and the problem for users; empty if there was none, or no such command."""
    if what not in hook.commands:
        return ProgramEnd(EndReason.EXITED, 0), ""
    passed = {name: os.environ[name] for name in hook.environment if name in os.environ}
    command = Command(
        (*KEEPER, *hook.commands[what]),
        environment=passed | _variables({**about_run, "HOOK": what, **facts}),
        stall_timeout=hook.timeout,
        grace=grace,
    )
    began = time.monotonic()
    try:
        ended = runner.run(command, stop=stop, sign_of_life=lambda: "")  # from its start on, for its timeout
    except OSError as error:
        ended = ProgramEnd(EndReason.EXITED, 126, (f"no process can be started here: {error}",))
    took = span(time.monotonic() - began)
    lines = redacted("\n".join(ended.last_lines[-SHOWN_LINES:]), [*secrets, *passed.values()]).strip()[-WARNING_LENGTH:]
    how = {
        EndReason.STALLED: f"it was ended after {span(hook.timeout)}, its timeout",
        EndReason.STOPPED: "it was stopped",
    }
    how_ended = how.get(ended.ending, f"exit code {ended.exit_code}")
    if ended.ending is EndReason.EXITED:
        ended = replace(ended, exit_code=hook.exit_codes.get(ended.exit_code, ended.exit_code))
    text = f"hook {hook.name}, {what}: {how_ended}" + (f": {lines}" if lines else "")
    try:
        decisions.log("hook", f"{text} ({took})", **about)
    except Error:  # a database that is away must not keep `after` from releasing the work of `before`
        log.exception("cannot write to the log of decisions: %s", text)
    return ended, "" if ended == ProgramEnd(EndReason.EXITED, 0, ended.last_lines) else text


def _facts(run: Run, assignment: Assignment) -> dict[str, str]:
    source, policy = assignment.source, assignment.policy
    return {
        "SOURCE": source.name, "KIND": source.kind, "ADDRESS": source.address, "PATH": source.path,
        "POLICY": str(policy), "REPOSITORY": policy.repository.name, "RECORD": str(run.record.id),
        "ATTEMPT": str(run.record.attempt),
    }  # fmt: skip


def _variables(facts: Mapping[str, str]) -> dict[str, str]:
    return {f"BACKUPSCHED_{name}": storable(value) for name, value in facts.items()}
