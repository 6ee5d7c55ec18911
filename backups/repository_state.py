"""The state of a repository as the records that work on it find it: free room, its first backup, whether it can be
written to, and the outcome for a record that finds it busy.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.db.models.functions import Now

from backups import locations, repository_orders
from external.processes.orders import NoAnswer
from external.processes.runner import StopSignal
from jobs.clock import database_clock
from jobs.outcomes import Postponed
from jobs.states import WaitingFor
from sources.models import Repository
from storage.places import directory_process
from storage.places.location import Location
from storage.points.store import StorageFailed

AT_ONCE = 8
"""Repositories on remotes that are asked at the same time, each by a process."""
START_SECONDS = 10.0
"""Time for a process to start, on a host that is busy."""
ROOM_HOLDS_FOR = timedelta(minutes=1)

BUSY_FOR = timedelta(seconds=60)
"""The time until a record tries again that has found its repository busy."""


def note_room(repository: Repository, room: tuple[int, int] | None) -> None:
    """Store the free bytes and the total: at most once a minute, since many of its backups end together."""
    if room:
        stale = Q(room_seen_at=None) | Q(room_seen_at__lt=Now() - ROOM_HOLDS_FOR)
        rows = Repository.objects.filter(stale, pk=repository.pk)
        rows.update(room_free=room[0], room_total=room[1], room_seen_at=Now())


def note_made(repository: Repository) -> None:
    """Store that a first backup exists: from then on an empty place means that its disk is missing."""
    if repository.made_at is None:
        place = {"location": repository.location, "remote": repository.remote}  # an edit may have come between
        Repository.objects.filter(pk=repository.pk, made_at=None, **place).update(made_at=Now())


def not_writable(repository: Repository, stop: StopSignal | None = None) -> str | None:
    """The reason why nothing can be written to a repository now. None if it can be written to."""
    try:
        location = locations.location_of(repository)
    except StorageFailed as error:
        return str(error)
    return repository_orders.reason_for(*_writing_to(location), stop, **_facts_of(repository))


def not_writable_of(rows: Iterable[Repository]) -> dict[str, str]:
    """The same of many, by their names: directories in one process, the others eight at a time."""
    found: dict[str, str | None] = {}
    here, there = dict[str, dict[str, Any]](), dict[str, Callable[[], str | None]]()
    for each in rows:
        found[each.name] = None
        try:
            question, location = _writing_to(locations.location_of(each))  # in this thread, which has the database
        except StorageFailed as error:
            found[each.name] = str(error)
            continue
        if isinstance(location, str):
            here[each.name] = {"location": location} | _facts_of(each)
        else:
            there[each.name] = partial(repository_orders.reason_for, question, location, **_facts_of(each))
    with ThreadPoolExecutor(AT_ONCE) as threads:
        asked = {name: threads.submit(ask) for name, ask in there.items()}
        found |= of_directories("not_written", here)
    found |= {name: each.result() for name, each in asked.items()}
    return {name: why for name, why in found.items() if why}


def of_directories(question: str, asked: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    """Problems of directories, by their names in `asked`, which has the `location` of each and the other arguments of
    the question. One on a dead share is such a problem, and delays no other.
    """
    if not asked:
        return {}
    seconds = repository_orders.ANSWER_SECONDS
    facts = {"question": question, "asked": dict(asked), "seconds": seconds}
    known, stop, failed = dict[str, str | None](), threading.Event(), None

    def take(line: dict[str, Any]) -> None:
        known.update(line["known"])
        stop.set()

    how: dict[str, Any] = {"silent_for": seconds + START_SECONDS, "take": take}
    try:
        known |= repository_orders.give(directory_process.PROGRAM, "of_each", facts, stop, **how)
    except NoAnswer as error:
        failed = error
    for name in asked.keys() - known.keys():
        place = asked[name]["location"]
        known[name] = (
            repository_orders.why_unanswered(failed, place, seconds)
            if failed and not known
            else repository_orders.silent(place, seconds)
        )
    return {name: why for name in asked if (why := known[name])}


def _writing_to(location: Location) -> tuple[str, str | Location]:
    """The question whether anything can be written there. A process that loads less answers it of a directory."""
    return ("not_written", str(location.directory)) if location.directory else ("not_writable", location)


def _facts_of(repository: Repository) -> dict[str, Any]:
    return {"reserve": settings.RESERVE_PERCENT, "made": repository.made_at is not None}


def busy(why: str) -> Postponed:
    """The outcome of a record that finds a repository, or the part of it that it needs, taken by another record."""
    return Postponed(database_clock() + BUSY_FOR, WaitingFor.RECHECK, f"{why}; looked at again at")
