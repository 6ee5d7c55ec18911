"""A worker with test handlers, as a process of its own: `python worker_script.py GRACE`. Settings by environment.

WORKER_READY names the file that says that it has started; WORKER_POLL and WORKER_MINUTELY are the seconds between its
looks and its rounds, WORKER_QUIET those for which who wakes it says nothing more, WORKER_STOPPING those that stopped
handlers have to end, if not the usual. With WORKER_QUESTIONS it serves a queue that feeds `default`, too.
"""

import asyncio
import gc
import os
import sys
import time
from pathlib import Path

import django

gc.disable()  # until all modules are loaded, as in manage.py
django.setup()

from jobs import wakeups  # noqa: E402

wakeups.QUIET_SECONDS = float(os.environ.get("WORKER_QUIET", wakeups.QUIET_SECONDS))  # before `hints` reads it

from jobs.conf import QueueRule  # noqa: E402
from jobs.handlers import Kind, Run, registry  # noqa: E402
from jobs.outcomes import Failed, Outcome, Released, Succeeded  # noqa: E402
from jobs.worker import process  # noqa: E402

gc.enable()

KINDS = (
    "quick",
    "hang",
    "exit",
    "interrupt",
    "nonsense",
    "unresponsive",
    "hang async",
    "block",
    "short hang",
    "short unresponsive",
)
LONGEST_SECONDS = 0.5
"""The longest time for which handlers of these kinds hang."""


def quick(run: Run) -> Outcome:
    return Succeeded()


def hang(run: Run) -> Outcome:
    """Runs until it is stopped, or until the file of its payload is there."""
    gate = Path(run.record.payload["gate"])
    Path(run.record.payload["started"]).touch()
    while not gate.exists():
        if run.stop.wait(0.05):
            return Released()
    return Succeeded()


def unresponsive(run: Run) -> Outcome:
    """Runs for a minute, and cannot be stopped."""
    Path(run.record.payload["started"]).touch()
    time.sleep(60)
    return Failed("nothing waited")


async def hang_async(run: Run) -> Outcome:
    """Waits for ever, unless it is cancelled."""
    Path(run.record.payload["started"]).touch()
    await asyncio.sleep(3600)
    return Succeeded()


async def block(run: Run) -> Outcome:
    """Keeps the event loop from turning."""
    Path(run.record.payload["started"]).touch()
    time.sleep(3600)
    return Failed("nothing waited")


def leave(run: Run) -> Outcome:
    sys.exit(3)


def interrupt(run: Run) -> Outcome:
    raise KeyboardInterrupt


def nonsense(run: Run) -> Outcome:
    return "done"  # type: ignore[return-value]


HANDLERS = (quick, hang, leave, interrupt, nonsense, unresponsive, hang_async, block, hang, unresponsive)
for name, function in zip(KINDS, HANDLERS, strict=True):
    registry.add(Kind(name, home_queue="default", max_seconds=LONGEST_SECONDS if name.startswith("short") else None))
    registry.handler(name, queue="default")(function)
RULES = [QueueRule("default", 4), QueueRule("backups", 2)]
if "WORKER_QUESTIONS" in os.environ:
    registry.add(Kind("question", home_queue="questions"))
    registry.handler("question", queue="questions")(hang_async)
    RULES.append(QueueRule("questions", 2, feeds="default"))

process.MINUTELY_SECONDS = float(os.environ.get("WORKER_MINUTELY", process.MINUTELY_SECONDS))
process.STOPPING_SECONDS = float(os.environ.get("WORKER_STOPPING", process.STOPPING_SECONDS))
process.POLL_SECONDS = float(os.environ.get("WORKER_POLL", process.POLL_SECONDS))
worker = process.WorkerProcess(RULES, grace=float(sys.argv[1]))
worker.install_signal_handlers()
Path(os.environ["WORKER_READY"]).touch()
worker.run()
