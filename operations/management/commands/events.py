from argparse import SUPPRESS, ArgumentParser
from datetime import datetime
from typing import Any

from django.core.management.base import CommandError

from delivery.models import Event
from jobs.clock import database_clock
from jobs.durations import span
from jobs.formatting import moment
from operations.backlog.facts import as_json
from operations.backlog.reasons import reasons
from operations.backlog.rendering import Column, plain, table
from operations.event_arguments import DEFAULT_LIMIT, add_filters, find_endpoint, find_event, find_schedule, no_schedule
from operations.event_list import (
    Answer,
    State,
    answered,
    attempt_facts,
    attempts_of,
    endpoint_names,
    facts_of,
    in_state,
    latest_first,
    launch_instants,
    of_schedule_named,
    shown_payload,
    with_answers,
)
from operations.management.base import VerbCommand, patiently

ASK_FOR_LESS = "ask for less: --state, --since, or the name of a schedule that is there"


class Command(VerbCommand):
    help = (
        "Events: what was delivered, when and with which answer, and what is still to be delivered. Alone, or with "
        "list: the latest first. Exit codes: 0; 1 when no event matched; 2 for bad usage, or when the database does "
        "not answer."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print JSON")
        verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
        lists = verbs.add_parser("list", help="list events", description="List events, the latest first.")
        for listing in (parser, lists):
            add_filters(listing, SUPPRESS if listing is lists else None)
        shows = verbs.add_parser("show", help="show one event", description="Show one event with each attempt.")
        shows.add_argument("id", metavar="ID", help="of the event, as 7-20260302T120000Z-3, or of its record")
        for verb in (lists, shows):
            verb.add_argument("--json", action="store_true", default=SUPPRESS, help="print JSON")

    def _list(self, options: dict[str, Any]) -> None:
        state = State(options["state"]) if options["state"] else None
        events = with_answers(Event.objects.all())
        events = in_state(events, state) if state else events
        if options["answer"]:
            events = answered(events, Answer(options["answer"]))
        if options["kind"]:
            events = events.filter(kind=options["kind"])
        schedule = find_schedule(options["schedule"]) if options["schedule"] else None
        if schedule:
            events = events.filter(origin=schedule, trigger_at__isnull=False)
        elif options["schedule"]:
            events = of_schedule_named(events, options["schedule"])
        if options["endpoint"]:
            events = events.filter(payload__endpoint=find_endpoint(options["endpoint"]))
        if options["since"]:
            named = "finished_at" if state and state != State.UNFINISHED else "inserted_at"
            events = events.filter(**{f"{named}__gte": options["since"]})
        with patiently(ASK_FOR_LESS):
            shown = list(latest_first(events, state)[: options["limit"] or DEFAULT_LIMIT])
        if not shown and options["schedule"] and not schedule:
            raise no_schedule(options["schedule"])
        launches, names = launch_instants(shown), endpoint_names(shown)
        found = [facts_of(event, launches[event.pk], names) for event in shown]
        if options["json"]:
            self.stdout.write(as_json(found))
        elif found:
            self.print_out(table(COLUMNS, map(_row, found)))
        if not found:
            raise CommandError("no event matches", returncode=1)

    def _show(self, options: dict[str, Any]) -> None:
        event = find_event(options["id"])
        why = reasons(event, database_clock())
        facts = facts_of(event, launch_instants([event])[event.pk], endpoint_names([event]))
        attempts = [attempt_facts(attempt) for attempt in attempts_of(event)]
        if options["json"]:
            self.stdout.write(as_json(facts | {"why": why, "payload": shown_payload(event), "attempts": attempts}))
            return
        for name, value in (facts | {"why": "; ".join(why)}).items():
            if value not in (None, ""):
                said = moment(value) + " UTC" if isinstance(value, datetime) else value
                self.stdout.write(f"{name.replace('_', ' ')}: {plain(said).plain}")
        if not attempts:
            self.stdout.write("No attempts yet.")
            return
        rows = (
            (
                each["number"], moment(each["started_at"]), each["outcome"], each["code"] or "",
                span(each["seconds"]), each["worker_id"] or "", each["error"],
            )
            for each in attempts
        )  # fmt: skip
        self.print_out(table(ATTEMPT_COLUMNS, rows))


COLUMNS = [
    Column("record", number=True), Column("event"), Column("state"), Column("launch (UTC)"), Column("delivered (UTC)"),
    Column("lag", number=True), Column("code", number=True), Column("answered in", number=True),
    Column("attempts", number=True), Column("error"),
]  # fmt: skip
ATTEMPT_COLUMNS = [
    Column("attempt", number=True), Column("started (UTC)"), Column("outcome"), Column("code", number=True),
    Column("answered in", number=True), Column("worker", number=True), Column("error"),
]  # fmt: skip


def _row(facts: dict[str, Any]) -> tuple[object, ...]:
    waiting = f" for {facts['waiting_for']}" if facts["waiting_for"] else ""
    state = f"{facts['status']}{waiting}" if facts["state"] == State.UNFINISHED else facts["state"]
    return (
        facts["id"], facts["event_id"], state, moment(facts["launch_at"]), moment(facts["delivered_at"]),
        span(facts["lag"]), facts["code"] or "", span(facts["seconds"]), facts["attempts"] or "",
        facts["error"][:120],
    )  # fmt: skip
