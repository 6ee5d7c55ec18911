"""*Test connection*: is a source there, and may its engine read it? Asked by a user who waits, so in bounded time."""

import threading
from dataclasses import asdict, dataclass

from backups import repository_orders
from backups.specifications import refused_in_clear, specification_of
from engines.limits import InTime
from sealing.lookup import SecretNotFound
from sources.availability import probes
from sources.models import Source
from storage.points.store import StorageStopped

ANSWER_SECONDS = 5.0
LOOK_SECONDS = 8.0
END_SECONDS = 4.0
"""Time for the process to start and to end."""


@dataclass(frozen=True)
class ConnectionTest:
    """The result of a test, in a sentence for users."""

    works: bool
    text: str


def try_source(source: Source) -> ConnectionTest:
    """Ask the source as a worker would, then let its engine look at it from this host. Takes 20 s at the longest."""
    answer = probes.ask_now(source, ANSWER_SECONDS)
    if not answer.present:
        return ConnectionTest(False, f"{answer.text}.")
    try:
        specification = specification_of(source)
    except SecretNotFound as error:
        return ConnectionTest(False, f"{answer.text}, but {error}.")
    if refusal := refused_in_clear(specification):
        return ConnectionTest(False, f"{answer.text}, but it {refusal}.")
    order = {"source": asdict(specification), "seconds": LOOK_SECONDS}
    in_time = InTime(threading.Event(), LOOK_SECONDS + END_SECONDS)
    try:
        found = repository_orders.ask("try_source", source.name, in_time, **order)
    except StorageStopped:
        return ConnectionTest(False, f"{answer.text}, but its engine had no result within {LOOK_SECONDS:g} s.")
    except (repository_orders.RepositorySilent, OSError) as error:
        return ConnectionTest(False, f"{answer.text}, but its engine could not be tried: {error}.")
    if "problem" in found:
        return ConnectionTest(False, f"{answer.text}, but {found['problem']}.")
    return ConnectionTest(True, f"{answer.text}, and {found['text']}.")
