"""Providers: code of other apps, registered by name, that yields the batches of triggers, such as due assignments."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime

from jobs.handlers import registry
from jobs.prepared_statements import execute
from jobs.set_aside import isolate
from schedules.events import beginning
from schedules.models import Schedule, Stagger
from schedules.statements import COUNT_RECORDS
from schedules.unemitted_triggers import Emission, TriggerStep, UnemittedTrigger, set_aside

Provide = Callable[[Sequence[tuple[Schedule, datetime]], datetime], int]

known: dict[str, Provide] = {}

PROVIDED_AT_ONCE = 100
"""Triggers per call: about 0.1 s for policies of a few assignments each."""


def add_provider(name: str, provide: Provide, catch_up: Callable[[], int] | None = None, due: str = "") -> None:
    """Register a provider: `provide([(schedule, trigger_at)], now)` puts batches on the backlog, and returns the number
    of their records.

    It gets each schedule once at most, in one transaction with the note that they were emitted. Asked again for a
    trigger, it adds the missing records.

    `catch_up()` emits assignments that became due in mid-period and were missed, and returns the number of records.
    `due`: the condition for that (`registry.add_periodic`).
    """
    known[name] = provide
    if catch_up:
        registry.add_periodic(catch_up, due=due)


def put_batches(found: Sequence[UnemittedTrigger], schedules: dict[int, Schedule], now: datetime) -> Emission:
    """Let the providers put the batches of these triggers on the backlog: one call each, for any number.

    A trigger for which its provider raises is set aside, and holds up no other. If a schedule has several triggers, the
    oldest is taken.
    """
    by_provider: dict[str, dict[int, UnemittedTrigger]] = defaultdict(dict)
    for trigger in sorted(found, key=lambda trigger: trigger.trigger_at):
        by_provider[schedules[trigger.schedule_id].provider].setdefault(trigger.schedule_id, trigger)
    records, steps, skipped = 0, list[TriggerStep](), dict[UnemittedTrigger, str]()
    for name, by_schedule in by_provider.items():
        triggers = list(by_schedule.values())
        if name not in known:
            skipped |= dict.fromkeys(triggers, f"there is no provider {name!r} here: is its app installed?")
            continue
        number, emitted = _provide(name, triggers, schedules, now)
        records += number
        steps += _complete(emitted, schedules)
    return Emission(records, frozenset(), steps, skipped)


def _provide(
    name: str, triggers: list[UnemittedTrigger], schedules: dict[int, Schedule], now: datetime
) -> tuple[int, list[UnemittedTrigger]]:
    """The number of new records, and the triggers for which the provider did not raise."""
    records = 0

    def provide(some: Sequence[UnemittedTrigger]) -> None:
        nonlocal records
        records += known[name]([(schedules[each.schedule_id], each.trigger_at) for each in some], now)

    bad = isolate(triggers, provide, lambda trigger: f"cannot emit a trigger of {schedules[trigger.schedule_id]}")
    set_aside(bad, now)
    return records, [trigger for trigger in triggers if trigger not in bad]


def _complete(triggers: list[UnemittedTrigger], schedules: dict[int, Schedule]) -> list[TriggerStep]:
    """The last step of these triggers, with the number of their records."""
    if not triggers:
        return []
    which = {
        "id": [trigger.id for trigger in triggers],
        "schedule_id": [trigger.schedule_id for trigger in triggers],
        "trigger_at": [trigger.trigger_at for trigger in triggers],
    }
    counts: dict[int, int] = dict(execute(COUNT_RECORDS, which).fetchall())
    return [
        TriggerStep(
            each.id, counts[each.id], None, each.seen_at, beginning(each.trigger_at, each.seen_at), Stagger.NONE.value,
            schedules[each.schedule_id].late, None, complete=True,
        )
        for each in triggers
    ]  # fmt: skip
