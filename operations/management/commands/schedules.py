import sys
from argparse import ArgumentParser
from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.db.models import Q
from rich.console import Group, RenderableType
from rich.text import Text

from declarations.service import Edit
from declarations.surfaces import pausing
from declarations.surfaces.commands.declared_commands import DeclaredCommand
from declarations.surfaces.terminal import columns, table
from external.durations import span
from external.formatting import moment
from jobs.conf import PROGRAM
from jobs.models import BacklogRecord
from jobs.states import UNFINISHED
from jobs.zones import in_zone
from operations import schedule_verbs
from operations.backlog.arguments import number
from operations.capacity import capacity_view, messages_view
from schedules import batches, verbs
from schedules.capacity import check
from schedules.capacity_report import messages, plan_of
from schedules.editing import Schedules
from schedules.facts import STATES, describe_trigger, paused_words, schedule_facts, trigger_facts, trigger_times
from schedules.models import Schedule, Trigger
from schedules.time_limits import LONGEST_LOOK_SECONDS

WHO = "a user at the command line"
OF_SECONDS = ("window_for", "catch_up_for")
"""The durations among the facts of a schedule."""

SHOWN = 100
"""Rows of the list, unless another number is given."""
LIST = columns("name", "cron", "zone", "events>", "window", "stagger", "goes to", "throttle", "next trigger (UTC)")
NEXT = columns("next triggers", "UTC", "window closes")
PAST = columns("trigger (UTC)", "state", "events>", *(f"{name}>" for name in STATES), "window closes (UTC)", "")

OF_SEVERAL = {
    "trigger": "put a batch on the backlog now",
    "pause": "trigger nothing until it is resumed; records on the backlog continue",
    "resume": "trigger again; triggers that were missed while it was paused are not caught up",
}
LOST = " Its triggers are deleted with it, and with them launch and lag of its deliveries; records stay."


class Command(DeclaredCommand):
    help = (
        "Look at schedules, add, change and remove them; trigger, pause, resume and cancel them. Alone: the list. Exit "
        "codes: 0; 1 when it was refused, such as for a schedule whose events are unfinished; 2 for bad usage, or when "
        "the database does not answer."
    )

    service = Schedules
    examples = {
        "add": "nightly --cron '0 3 * * *' --zone Europe/Berlin --endpoint hooks --event-count 1000 --window-for 1h "
        "--stagger even --set payload_template='{\"shard\": \"$number\"}'",
        "set": "nightly --window-for 2h --throttle slow",
        "triggers": "nightly --limit 50",
    }  # fmt: skip

    def add_more_verbs(self, verbs: Any) -> None:
        added = {verb: self.add_each(verbs, verb, what) for verb, what in OF_SEVERAL.items()}
        pausing.add_options(added["pause"])
        cancels = self.add_each(verbs, "cancel", "cancel its batches under way; it continues to trigger")
        cancels.add_argument("--yes", action="store_true", help="do it without asking")
        triggers = self.add_named(verbs, "triggers", "list its triggers, the latest first")
        triggers.add_argument(
            "--limit", type=number("number", 10_000), default=20, metavar="N", help="at most this many (20)"
        )
        self.add_each(verbs, "plan", "show the load of its next seven days, and whether each batch completes in time")

    def list_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--limit", type=number("number", 100_000), metavar="N", help=f"({SHOWN}; --json: all)")

    def _list(self, options: dict[str, Any]) -> None:
        limit = options.get("limit") or (sys.maxsize - 1 if self.json else SHOWN)
        found = list(self.rows()[: limit + 1])
        empty = f"There are no schedules yet; `{PROGRAM} schedules add --help` shows how to add one."
        shown = found[:limit]
        facts = list(map(schedule_facts, shown)) if self.json else ()
        self.answer(facts, lambda: table(LIST, map(_row, shown)) if shown else empty)
        if len(found) > limit and not self.json:
            self.stdout.write("there are more: ask with --limit")

    def _show(self, options: dict[str, Any]) -> None:
        schedule = self.found(options)
        found, facts = check(schedule, seconds=LONGEST_LOOK_SECONDS), schedule_facts(schedule)
        self.answer(
            facts | {"next_triggers": trigger_times(schedule, found.next_triggers)},
            lambda: Group(
                _facts_view(facts), _next_view(schedule, found.next_triggers), messages_view(messages(found))
            ),
        )

    def _plan(self, options: dict[str, Any]) -> None:
        schedule = self.found(options)
        found = check(schedule, seconds=LONGEST_LOOK_SECONDS)
        self.answer(asdict(plan_of(found)), lambda: Group(Text(f"The plan of {schedule}"), capacity_view(found)))

    def edited(self, edit: Edit, options: dict[str, Any]) -> None:
        """Report an edit with the schedule's capacity: whether each batch completes in its window."""
        schedule, found = edit.row, check(edit.row, seconds=LONGEST_LOOK_SECONDS)
        changes = f"changed: {', '.join(sorted(edit.changed or ()))}" if edit.changed else "nothing to change"
        done = f"{schedule}: {'added' if edit.changed is None else changes}"
        facts = schedule_facts(schedule) | {"plan": asdict(plan_of(found))}
        self.answer(facts, done, lambda: messages_view(messages(found)))

    def _trigger(self, options: dict[str, Any]) -> None:
        schedule = self.found(options)
        trigger = verbs.trigger_now(schedule, WHO)
        self.answer(_trigger_facts([trigger])[0], f"{schedule}: {describe_trigger(trigger)}")

    def _pause(self, options: dict[str, Any]) -> None:
        schedule = self.found(options)
        self._report(schedule, *schedule_verbs.pause(schedule, **pausing.asked(options)))

    def _resume(self, options: dict[str, Any]) -> None:
        schedule = self.found(options)
        self._report(schedule, *schedule_verbs.resume(schedule))

    def _cancel(self, options: dict[str, Any]) -> None:
        schedule = self.found(options)
        schedule_verbs.check_no_policy(schedule)
        found = _batches_under_way(schedule)
        if not found:
            self._report(schedule, False, "none of its batches is under way", batches=0, cancelled=0)
            return
        many = f"{len(found):,} {'batches' if len(found) > 1 else 'batch'}"
        if not self.is_agreed(options, f"Cancel {many} of {schedule}?"):
            return
        # the latest first: a queued one does not begin when the one before it ends
        cancelled = sum(verbs.cancel_batch(trigger) for trigger in found)
        text = f"{many} cancelled; unfinished events taken off the backlog, or asked to stop: {cancelled:,}"
        self._report(schedule, True, text, batches=len(found), cancelled=cancelled)

    def lost(self, row: Schedule) -> str:
        return LOST

    def _triggers(self, options: dict[str, Any]) -> None:
        schedule = self.found(options)
        found = list(Trigger.objects.filter(schedule=schedule)[: options["limit"]])
        self.list_out(_trigger_facts(found), PAST, _past_row, f"{schedule} has triggered nothing yet.")

    def _report(self, schedule: Schedule, changed: bool, text: str, **more: int) -> None:
        self.answer({"name": schedule.name, "changed": changed, "message": text} | more, f"{schedule}: {text}")


def _batches_under_way(schedule: Schedule) -> list[Trigger]:
    """The triggers that are queued, being emitted or have unfinished events, the latest first."""
    unfinished = BacklogRecord.objects.filter(origin=schedule, trigger_at__isnull=False, status__in=UNFINISHED)
    of_events = unfinished.order_by().values("trigger_at")
    return list(
        Trigger.objects.filter(Q(finished_at=None, emitted_at=None) | Q(trigger_at__in=of_events), schedule=schedule)
    )


def _trigger_facts(triggers: list[Trigger]) -> list[dict[str, Any]]:
    progress = batches.progress(triggers)
    return [trigger_facts(trigger, progress.get(trigger.pk)) for trigger in triggers]


def _row(schedule: Schedule) -> tuple[object, ...]:
    return (
        schedule.name, schedule.cron, schedule.zone, schedule.provider or f"{schedule.event_count or 0:,}",
        span(schedule.window_for or None), schedule.stagger if schedule.window_for else "",
        schedule.endpoint or schedule.kind, schedule.throttle or "",
        paused_words(schedule) or moment(schedule.next_trigger_at),
    )  # fmt: skip


def _past_row(facts: dict[str, Any]) -> tuple[object, ...]:
    """The row of a past trigger."""
    counts = (f"{facts[name]:,}" for name in ("events", *STATES))
    why = facts["skipped_for"] or (f"asked for by {facts['asked_by']}" if facts["asked_by"] else "")
    return moment(facts["trigger_at"]), facts["state"], *counts, moment(facts["closes_at"]), why


def _next_view(schedule: Schedule, triggers: Iterable[datetime]) -> RenderableType:
    """The next triggers: in the schedule's zone, in UTC, and when the window closes."""

    def shown(instant: datetime | None) -> str:
        return f"{in_zone(instant, schedule.period.tzinfo):%a %Y-%m-%d %H:%M}" if instant else ""

    found = trigger_times(schedule, triggers)
    return table(
        NEXT, ((shown(each["trigger_at"]), moment(each["trigger_at"]), shown(each["closes_at"])) for each in found)
    )


def _facts_view(facts: dict[str, Any]) -> RenderableType:
    """One line for each fact."""
    facts = facts | {name: f"{facts[name]} s" for name in OF_SECONDS if facts[name] is not None}
    at = facts["next_trigger_at"]
    facts["next_trigger_at"] = "paused" if not facts["enabled"] else f"{moment(at)} UTC" if at else ""
    facts["paused_until"] = f"{moment(end)} UTC" if (end := facts["paused_until"]) else ""
    return table(
        columns("", ""),
        ((name.replace("_", " "), value) for name, value in facts.items() if value not in (None, "")),
    )
