"""A worker whose sources are simulated: `python simulated_worker.py DIRECTORY`. Every source answers at once. A copy
writes the file `begun-ID` and ends, as the file `ends.json` says for its subject, once the file `go-ID` is there.
"""

import gc
import json
import sys
from dataclasses import replace
from pathlib import Path

import django

gc.disable()  # until all modules are loaded, as in manage.py
django.setup()

from backups.copying import losses  # noqa: E402
from engines.base import EngineResult, Verdict  # noqa: E402
from jobs.conf import queue_rules  # noqa: E402
from jobs.handlers import Run, registry  # noqa: E402
from jobs.outcomes import Failed, Outcome, Released, Succeeded  # noqa: E402
from jobs.worker import claimer, process  # noqa: E402
from sources.availability import check  # noqa: E402
from sources.planning.names import AVAILABILITY, BACKUPS, KIND  # noqa: E402

gc.enable()

DIRECTORY = Path(sys.argv[1])
ENDS = json.loads((DIRECTORY / "ends.json").read_text())


def ask(run: Run) -> Outcome:
    """The source is there."""
    return check.handed_on(check.assignment_of(run.record), "it answered")


def copy(run: Run) -> Outcome:
    """Wait to be let go, then end as the fleet says."""
    (DIRECTORY / f"begun-{run.record.id}").touch()
    while not (DIRECTORY / f"go-{run.record.id}").exists():
        if run.stop.wait(0.05):
            return Released()
    match ENDS[run.record.subject]:
        case "fails":
            return Failed("it failed half-way")
        case "leaves":
            assignment = check.assignment_of(run.record)
            return losses.counted(losses.lost(assignment.policy, "it left"), assignment)
    return Succeeded(EngineResult(Verdict.SUCCEEDED))


registry.handler(KIND, queue=AVAILABILITY)(ask)
registry.handler(KIND, queue=BACKUPS)(copy)
claimer.PATIENCE_SECONDS = 3_600.0  # an answer is as long on its way as the machine likes, and none counts as silent
process.POLL_SECONDS = 0.2
rules = queue_rules()
worker = process.WorkerProcess([rules[AVAILABILITY], replace(rules[BACKUPS], concurrency=1)], grace=20)
worker.install_signal_handlers()
(DIRECTORY / "ready").touch()
worker.run()
