"""Emitters as processes of their own.

emitter_script.py race DIRECTORY SECONDS SPEED SHIFT…    a child for each SHIFT, whose clock is so many seconds ahead,
                                                         ticks as often as it can for SECONDS, in time that runs SPEED
                                                         times as fast, from the instant of the monotonic clock on that
                                                         the file `go` names. Before that it makes `ready-PID`.
emitter_script.py die                                    for k = 1, 2, 3 …: a child that is killed before its k-th
                                                         statement emits the triggers of the k-th minute after noon,
                                                         then this process emits what that left; ends with the first k
                                                         at which no child died. Prints how many died.
"""

import gc
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import django

gc.disable()  # until all modules are loaded, as in manage.py
django.setup()

import psycopg  # noqa: E402
from django.db import connection  # noqa: E402

from jobs import tick  # noqa: E402
from jobs.models import BacklogRecord  # noqa: E402
from jobs.states import Status  # noqa: E402
from schedules import chunks, emitter  # noqa: E402
from schedules.providers import add_provider  # noqa: E402

gc.enable()

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def provide(triggers: list[tuple[Any, datetime]], now: datetime) -> int:
    for schedule, trigger_at in triggers:
        facts = {"kind": "test", "queue": "default", "status": Status.READY, "run_after": now}
        BacklogRecord.objects.create(origin=schedule, trigger_at=trigger_at, subject=f"of {trigger_at}", **facts)
    return len(triggers)


def in_a_child(work: Callable[[], object]) -> int:
    """Returns its process id. It ends with 0 if `work` returns."""
    if child := os.fork():
        return child
    try:
        work()
        os._exit(0)
    finally:
        os._exit(1)


def has_died(child: int) -> bool:
    """True if it was killed, once it has ended."""
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        sys.exit("a child failed")
    return os.WIFSIGNALED(status)


def race(directory: Path, seconds: float, speed: float, shift: float) -> None:
    connection.ensure_connection()
    (directory / f"ready-{os.getpid()}").touch()
    while not (directory / "go").exists():
        time.sleep(0.005)
    start = float((directory / "go").read_text())
    passed, is_left = 0.0, False
    while passed < seconds or is_left:
        passed = (time.monotonic() - start) * speed
        now = NOON + timedelta(seconds=min(passed, seconds) + shift)
        emitter.correct_watermarks(now)
        emitter.emit_triggers(now, seconds=0)
        found = tick.look(now=now)
        is_left = found.step.is_due


def die_before_statement(doomed: int) -> None:
    """Kill this process with SIGKILL before it sends that statement; a COMMIT is one."""
    sent = 0

    def counting(real: Callable[..., Any]) -> Callable[..., Any]:
        def send(*arguments: Any, **options: Any) -> Any:
            nonlocal sent
            sent += 1
            if sent == doomed:
                os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(60)
            return real(*arguments, **options)

        return send

    psycopg.Cursor.execute = counting(psycopg.Cursor.execute)  # type: ignore[method-assign]
    psycopg.Connection.commit = counting(psycopg.Connection.commit)  # type: ignore[method-assign]


def emit_until_doom(now: datetime, doomed: int) -> None:
    die_before_statement(doomed)
    emitter.emit_triggers(now)


def die() -> None:
    doomed, now = 1, NOON + timedelta(minutes=1)
    while has_died(in_a_child(partial(emit_until_doom, now, doomed))):
        emitter.emit_triggers(now)
        connection.close()  # no child is to have it
        doomed, now = doomed + 1, now + timedelta(minutes=1)
    sys.stdout.write(f"{doomed - 1}\n")


add_provider("script", provide)
if sys.argv[1] == "die":
    chunks.CHUNK = 2
    die()
else:
    chunks.CHUNK = 20
    length, pace, *shifts = map(float, sys.argv[3:])
    children = [in_a_child(partial(race, Path(sys.argv[2]), length, pace, shift)) for shift in shifts]
    for each in children:
        has_died(each)
