"""The speed at which one worker delivers events to a local HTTP server, next to the same client without a database."""

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from external.processes.parents import end_with_parent
from proving.bench.contestant import Contestant
from proving.bench.processes import ROOT, ContestantFailed, call, stop
from proving.bench.race import drain
from proving.bench.results import Key
from proving.bench.stage import Stage

PART, CASE = "delivery", "1 worker"
OURS, BARE = "delivery-ours", "delivery-bare"
TARGET = "≥ 0.4"
START_SECONDS = 20.0


def run(stage: Stage) -> None:
    contestants = stage.cast([OURS, BARE])
    if not contestants:
        return
    with receiver() as url:
        template = made(stage, contestants[0], url)
        for _ in stage.repeats(PART):
            for contestant in stage.cast([OURS, BARE]):
                with stage.trying(contestant):
                    measure(stage, contestant, template, url)
    stage.results.compare(f"{PART}: ours / bare client", Key(PART, CASE, OURS), Key(PART, CASE, BARE), TARGET)
    stage.server.drop(template)


def made(stage: Stage, contestant: Contestant, url: str) -> str:
    """The name of a database with the events for this receiver."""
    name = "callbacks"
    stage.server.create(name, stage.tables_of(contestant))
    call(contestant, "make_callbacks", url=stage.server.url(name), count=stage.options.jobs, receiver=f"{url}/hook")
    stage.server.settle_down(name)
    return name


def measure(stage: Stage, contestant: Contestant, template: str, url: str) -> None:
    """Deliver everything once. Raises: ContestantFailed, also if the receiver's counts differ."""
    jobs = stage.options.jobs
    counts(url)
    drained = drain(stage.server, contestant, template, jobs, 1)
    found = counts(url)
    if (found["requests"], found["events"]) != (jobs, jobs):
        raise ContestantFailed(f"{contestant.name}: the receiver has counted {found} for {jobs} events")
    stage.say(f"delivery: {contestant.name} {drained.rate:,.0f} callbacks/s by {found['connections']} connections")
    note = "each signed, its answer kept" if found["signed"] else "unsigned, nothing kept"
    stage.results.add(Key(PART, CASE, contestant.name), drained.rate, "callbacks/s", note)


@contextmanager
def receiver() -> Iterator[str]:
    """Run a receiver in a separate process. Yields its URL. Raises: ContestantFailed."""
    with tempfile.TemporaryDirectory(prefix="backlog-bench-receiver-") as directory:
        port = Path(directory) / "port"
        process = subprocess.Popen(
            [sys.executable, "-m", "proving.bench.fleets.receiver", str(port)],
            cwd=ROOT,
            start_new_session=True,
            preexec_fn=end_with_parent,
        )
        try:
            deadline = time.monotonic() + START_SECONDS
            while not port.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise ContestantFailed("the receiver of callbacks does not start")
                time.sleep(0.01)
            yield f"http://127.0.0.1:{port.read_text()}"
        finally:
            stop([process])


def counts(url: str) -> dict[str, int]:
    """The receiver's counts since it was last asked."""
    with urllib.request.urlopen(f"{url}/counts", timeout=10) as answer:  # noqa: S310 - ours
        found: dict[str, int] = json.load(answer)
    return found
