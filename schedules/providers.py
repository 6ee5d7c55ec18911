"""What yields the batches of triggers besides their own events, as assignments: apps register it by name."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime

from django.db import transaction

from jobs.handlers import registry
from jobs.prepared import execute
from jobs.set_aside import isolate
from schedules.chunks import Emitted, failing, get_on, locked, schedules_of, skip
from schedules.events import Step, Unemitted, beginning
from schedules.models import Schedule, Stagger
from schedules.statements import COUNT_RECORDS

Provide = Callable[[Sequence[tuple[Schedule, datetime]], datetime], int]

known: dict[str, Provide] = {}

PROVIDED_AT_ONCE = 100
"""Triggers in one call: some 0.1 s for policies of a few assignments each."""


def add_provider(name: str, provide: Provide, catch_up: Callable[[], int] | None = None) -> None:
    """Register what yields the batches of triggers: `provide([(schedule, trigger_at)], now) -> records`.

    It is given each schedule once at most, in one transaction with what notes that they were emitted. Asked again
    for a trigger, it puts there what is not there yet.

    `catch_up() -> records` emits what became due in mid-period and was missed.
    """
    known[name] = provide
    if catch_up:
        registry.add_periodic(catch_up)


def emit_provided(now: datetime, only: Sequence[int] | None = None) -> Emitted:
    """Let the providers put the batches of their unemitted triggers on the backlog: one call each, for any number.

    A trigger for which one raises is set aside, and holds up no other.
    """
    with transaction.atomic():
        found = locked(only, PROVIDED_AT_ONCE, now, provided=True)
        schedules = schedules_of(found)
        by_provider: dict[str, dict[int, Unemitted]] = defaultdict(dict)
        for trigger in sorted(found, key=lambda trigger: trigger.trigger_at):
            # of one schedule one at a time, the oldest first
            by_provider[schedules[trigger.schedule_id].provider].setdefault(trigger.schedule_id, trigger)
        got_on = [_provide(name, list(of_it.values()), schedules, now) for name, of_it in by_provider.items()]
    return Emitted(sum(each.records for each in got_on), sum(each.triggers for each in got_on))


def _provide(name: str, triggers: list[Unemitted], schedules: dict[int, Schedule], now: datetime) -> Emitted:
    if name not in known:
        reason = f"there is no provider {name!r} here: is its app installed?"
        skip(dict.fromkeys(triggers, reason), schedules, now)
        return Emitted(0, len(triggers))
    records = 0

    def provide(some: Sequence[Unemitted]) -> None:
        nonlocal records
        records += known[name]([(schedules[each.schedule_id], each.trigger_at) for each in some], now)

    bad = isolate(triggers, provide, lambda trigger: f"cannot emit a trigger of {schedules[trigger.schedule_id]}")
    failing.put([trigger.id for trigger in bad], now)
    emitted = [trigger for trigger in triggers if trigger not in bad]
    if emitted:
        _complete(emitted, schedules, now)
    return Emitted(records, len(emitted))


def _complete(triggers: list[Unemitted], schedules: dict[int, Schedule], now: datetime) -> None:
    which = {
        "id": [trigger.id for trigger in triggers],
        "schedule_id": [trigger.schedule_id for trigger in triggers],
        "trigger_at": [trigger.trigger_at for trigger in triggers],
    }
    counts: dict[int, int] = dict(execute(COUNT_RECORDS, which).fetchall())
    steps = [
        Step(
            each.id, counts[each.id], None, each.seen_at, beginning(each.trigger_at, each.seen_at), Stagger.NONE.value,
            schedules[each.schedule_id].late, None, complete=True,
        )
        for each in triggers
    ]  # fmt: skip
    get_on(steps, now)
