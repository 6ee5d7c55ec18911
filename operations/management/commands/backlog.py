import sys
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from django.core.management.base import CommandError
from django.db import transaction
from rich.console import Console, RenderableType
from rich.live import Live

from declarations.surfaces import pausing
from declarations.surfaces.commands.base import patiently
from declarations.surfaces.commands.nouns import NounCommand
from external.formatting import moment
from jobs.backlog import cancel, pause_queue, resume_queue, retry
from jobs.backlog.rows import BATCH, in_batches
from jobs.clock import database_clock
from jobs.conf import PROGRAM
from jobs.models import Attempt, BacklogRecord
from jobs.models.record import CLAIM_ORDER
from jobs.prepared_statements import storable
from jobs.states import FINISHED, Status
from operations.backlog import arguments
from operations.backlog.arguments import find_endpoint, find_schedule, is_id, no_schedule
from operations.backlog.at_work import at_work
from operations.backlog.dead_letters import dead_letters, facts_of
from operations.backlog.facts import attempt_facts, record_facts, summary_facts
from operations.backlog.known_names import check_names
from operations.backlog.reason import texts
from operations.backlog.reasons import explain
from operations.backlog.rendering import dead_letters_view, describe, record_view, records_view, summary_view
from operations.backlog.selection import FILTERS, Rows, filtered, locked_batches, with_answers
from operations.backlog.summary import summary
from operations.backlog.verbs import Verb, carried_out, counted, describe_counts
from operations.backlog.verbs import describe as describe_result

SHOWN_IN_A_DRY_RUN = 20
WITHOUT_A_STATUS = {"cancel": ["unfinished"], "retry": ["failed"]}
ENDED = {str(status.label) for status in FINISHED}
ASK_FOR_LESS = "ask for less: --status, --since, or the name of a schedule that is there"
LEFT_ALONE = {"cancel": {*FINISHED}, "retry": {Status.RUNNING, Status.SUCCEEDED}}
"""Statuses in which a verb changes nothing: there is nothing to ask."""
VERBS: dict[str, Verb] = {"cancel": cancel, "retry": retry}


class Command(NounCommand):
    help = (
        "Look at the backlog and repair it. Alone: the records in each queue, the workers that serve it, and "
        "problems with their remedies; a + behind a number means that there are more. Exit codes: 0, 1 when no "
        "record matched, 2 for bad usage."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        arguments.add_summary(parser)

    def add_verbs(self, verbs: Any) -> None:
        arguments.add_verbs(verbs)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["verb"] and options["watch"]:
            raise CommandError(f"--watch shows the summary; leave out {options['verb']!r}", returncode=2)
        super().handle(*args, **options | {"verb": options["verb"] or "look"})

    def _look(self, options: dict[str, Any]) -> None:
        if options["watch"]:
            self._watch(options["watch"])
        else:
            self._sum_up()

    def _sum_up(self) -> None:
        found = summary()
        running = at_work(found.at)
        self.answer(summary_facts(found) | {"at_work": running}, lambda: summary_view(found, running))

    def _watch(self, seconds: float) -> None:
        try:
            if self.json or not self.stdout.isatty():
                while True:
                    self._sum_up()
                    self.stdout.flush()
                    time.sleep(seconds)
            with Live(_view(), console=Console(file=sys.__stdout__), auto_refresh=False, screen=True) as live:
                while True:
                    time.sleep(seconds)
                    live.update(_view(), refresh=True)
        except KeyboardInterrupt:
            self.stderr.write("")

    def _list(self, options: dict[str, Any]) -> None:
        asked = _asked(options)
        named = set(asked.get("status") or ())
        with patiently(ASK_FOR_LESS):
            records = with_answers(filtered(BacklogRecord.objects.select_related("origin"), asked))
            if options["order"] == "claim":
                if named - {"ready"}:
                    raise ValueError(
                        "--order claim is the order of ready records; leave out --status, or use --status ready"
                    )
                records = records.filter(status=Status.READY).order_by(*CLAIM_ORDER)
            else:
                records = records.order_by(*(["-finished_at"] if named and named <= ENDED else []), "-pk")
            shown = list(records[: options["limit"]])
        if not shown and "schedule_name" in asked:
            raise no_schedule(asked["schedule_name"])
        facts = record_facts(shown)
        if shown or self.json:
            self.answer(facts, lambda: records_view(facts))
        if not shown:
            raise CommandError("no record matches", returncode=1)

    def _errors(self, options: dict[str, Any]) -> None:
        asked = _asked(options)
        found = dead_letters(asked.get("kind"), asked.get("queue"))
        shown = replace(found, groups=found.groups[: options["limit"]])
        if shown.groups or self.json:
            self.answer(facts_of(shown), lambda: dead_letters_view(shown), describe(found, len(shown.groups)))
        if not shown.groups:
            raise CommandError("no failed record", returncode=1)

    def _show(self, options: dict[str, Any]) -> None:
        self.one_by_one(options["ids"], self._show_one)

    def _show_one(self, named: str) -> None:
        rows = with_answers(BacklogRecord.objects.all())
        rows = rows.filter(pk=int(named)) if is_id(named) else filtered(rows, {"subject": storable(named)})
        record = rows.order_by("-pk").first()
        if record is None:
            raise CommandError(f"there is no record {named}; `{PROGRAM} backlog list` shows some", returncode=1)
        [facts] = record_facts([record])
        facts["why"] = texts(explain(record, database_clock()).reasons)
        attempts = list(Attempt.objects.filter(record_id=record.pk).order_by("number"))
        self.answer(facts | {"attempts": list(map(attempt_facts, attempts))}, lambda: record_view(facts, attempts))

    def _pause(self, options: dict[str, Any]) -> None:
        asked = pausing.asked(options)
        end = f"until {moment(asked['until'])} UTC" if asked["until"] else "any more"
        words = f"nothing is claimed from it {end}; running records continue", "it was paused before"
        self._report(options["queues"], lambda queue: pause_queue(queue, **asked), *words, paused=True)

    def _resume(self, options: dict[str, Any]) -> None:
        self._report(options["queues"], resume_queue, "it is resumed", "it was not paused", paused=False)

    @transaction.atomic
    def _report(self, queues: list[str], change: Callable[[str], bool], done: str, idle: str, *, paused: bool) -> None:
        """Accept all names or none: a wrong name leaves the others as they are."""
        for queue in dict.fromkeys(queues):
            changed = change(queue)
            self.answer(
                {"queue": queue, "paused": paused, "changed": changed}, f"queue {queue}: {done if changed else idle}"
            )

    def _cancel(self, options: dict[str, Any]) -> None:
        self._change("cancel", options)

    def _retry(self, options: dict[str, Any]) -> None:
        self._change("retry", options)

    def _change(self, verb: str, options: dict[str, Any]) -> None:
        ids, asked = options["ids"], _asked(options, WITHOUT_A_STATUS[verb])
        if ids and (asked or options["all"]):
            raise ValueError(f"name the records to {verb} by id or by filters, not by both")
        if not ids and not asked and not options["all"]:
            raise ValueError(f"name the records to {verb}: ids, filters such as --status, or --all")
        records: Rows = BacklogRecord.objects.filter(pk__in=ids)
        with patiently(ASK_FOR_LESS):
            if not ids:
                records = filtered(BacklogRecord.objects.all(), {"status": WITHOUT_A_STATUS[verb]} | asked)
            counts = counted(records)
        if options["dry_run"]:
            self._show_dry_run(verb, records, counts)
        if not counts:
            missing = ", ".join(map(str, ids))
            raise CommandError(f"there is no record {missing}" if ids else "no record matches", returncode=1)
        if options["dry_run"]:
            return
        if not options["yes"] and not self.json and set(counts) <= LEFT_ALONE[verb]:
            self.stdout.write(f"nothing is left to {verb}: {describe_counts(counts)}")
            return
        question = f"{verb.capitalize()} {describe_counts(counts)}?"
        if not self.is_agreed(options, question, f"add --yes to {verb} them, or --dry-run to see them"):
            return
        batches = in_batches(ids) if ids else locked_batches(records, BATCH)
        total = len(ids) or counts.total()

        def progress(done: int) -> None:
            if total > BATCH:
                self.stderr.write(f"{done:,} of {total:,}", self.style.NOTICE)

        result = carried_out(VERBS[verb], batches, progress)
        self.answer(result, _describe_result(result))

    def _show_dry_run(self, verb: str, records: Rows, counts: "Counter[Status]") -> None:
        if counts or self.json:
            self.answer(
                {"would": verb, "counts": {status.label: count for status, count in counts.items()}},
                lambda: records_view(record_facts(with_answers(records).order_by("pk")[:SHOWN_IN_A_DRY_RUN])),
                f"would {verb} {describe_counts(counts)}; nothing was changed",
            )


def _view() -> "RenderableType":
    found = summary()
    return summary_view(found, at_work(found.at))


def _asked(options: dict[str, Any], otherwise: Sequence[str] = ()) -> dict[str, Any]:
    """The filters that were given; `otherwise`: the statuses that are meant when none was.

    Raises: ValueError for an unknown value, and for one that is not text.
    """
    asked = {name: value for name in FILTERS if (value := options.get(name)) is not None}
    for name, value in asked.items():
        if isinstance(value, str) and (not value or value != storable(value)):
            raise ValueError(f"--{name} is empty, or is not text in UTF-8; leave it out, or type it again")
    check_names(asked.get("kind"), asked.get("queue"))
    if "endpoint" in asked:
        asked["endpoint"] = find_endpoint(asked["endpoint"])
    if "schedule" in asked:
        asked |= find_schedule(asked.pop("schedule"))
    if "since" in asked and set(asked.get("status") or otherwise or ["ready"]) <= ENDED:
        asked["ended_since"] = asked.pop("since")
    return asked


def _describe_result(result: dict[str, Any]) -> str:
    lines = list(filter(None, describe_result(result).split(", ")))
    if superseded := result.get("superseded"):
        lines += [f"  {old}: record {new} of the same subject continues" for old, new in list(superseded.items())[:20]]
    if missing := result.get("missing"):
        lines.append(f"  there is no record {', '.join(map(str, missing[:20]))}")
    return "\n".join(lines) or "nothing was left to change"
