"""How the threads beside the units stop a run that must not go on."""

import logging

from jobs.handlers import Run
from jobs.worker.units import Units

log = logging.getLogger(__name__)

CANCELLED = "a person cancelled %s %s, stopping it"
LOST = "lost the lease of %s %s, stopping it"


def give_up(units: Units, run: Run, said: str) -> None:
    """Stop `run` and log why, with its kind and subject, unless it has been stopped already or is held no more."""
    if not run.is_stopped and units.find(run.record.id) is run:
        log.warning(said, run.record.kind, run.record.subject)
        units.stop(run)
