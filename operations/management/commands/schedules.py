import shlex
from argparse import ArgumentParser
from functools import partial
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.db import transaction
from django.db.models import Q
from rich.console import Group
from rich.text import Text

from jobs.formatting import moment
from jobs.models import BacklogRecord
from jobs.states import UNFINISHED
from operations import rescheduling
from operations.backlog.facts import as_json
from operations.capacity import capacity_view, messages_view
from operations.management.base import VerbCommand, without_its_log_lines
from operations.management.schedule_fields import RELATED, change_fields, describe_problems, find_schedule, new_schedule
from operations.schedule_arguments import add_arguments
from operations.schedule_tables import facts_view, list_view, past_view, triggers_view
from schedules import batches, verbs
from schedules.capacity import check
from schedules.capacity_report import facts_of, messages
from schedules.facts import describe_trigger, schedule_facts, trigger_facts, trigger_times
from schedules.models import Schedule, Trigger
from schedules.validation import obstacle_to_deleting, obstacle_to_editing, obstacle_to_triggering

WHO = "a person at the command line"
LOST = "Its triggers are deleted with it, and with them launch and lag of what it delivered."
"""Its events stay, for as long as finished records are kept."""


class Command(VerbCommand):
    help = (
        "Look at schedules, add, change and remove them; trigger, pause, resume and cancel them. Alone: the list. Exit "
        "codes: 0; 1 when it was refused, as for a schedule whose events are unfinished; 2 for bad usage, or when the "
        "database does not answer."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_arguments(parser)

    def describe_problems(self, error: ValidationError, options: dict[str, Any]) -> str:
        return describe_problems(error, options["verb"])

    def _list(self, options: dict[str, Any]) -> None:
        found = list(Schedule.objects.select_related(*RELATED).order_by("name"))
        if options["json"]:
            self.stdout.write(as_json([schedule_facts(schedule) for schedule in found]))
        elif found:
            self.print_out(list_view(found))
        else:
            self.stdout.write("There is no schedule yet; `manage.py schedules add --help` shows how to add one.")

    def _show(self, options: dict[str, Any]) -> None:
        schedule = find_schedule(options["name"])
        found, facts = check(schedule), schedule_facts(schedule)
        if options["json"]:
            self.stdout.write(as_json(facts | {"next_triggers": trigger_times(schedule, found.next_triggers)}))
        else:
            coming = triggers_view(schedule, found.next_triggers)
            self.print_out(Group(facts_view(facts), coming, messages_view(messages(found))))

    def _plan(self, options: dict[str, Any]) -> None:
        schedule = find_schedule(options["name"])
        found = check(schedule)
        if options["json"]:
            self.stdout.write(as_json(facts_of(found)))
        else:
            self.print_out(Group(Text(f"The plan of {schedule}"), capacity_view(found)))

    def _add(self, options: dict[str, Any]) -> None:
        schedule = new_schedule(options)
        with transaction.atomic():
            schedule.save()
            verbs.saved(schedule, None)
        self._saved(schedule, "added", options)

    def _set(self, options: dict[str, Any]) -> None:
        schedule = find_schedule(options["name"])
        _refuse_as_usage(obstacle_to_editing(schedule))
        cron_before = schedule.cron
        changed = change_fields(schedule, options)
        with transaction.atomic():
            # not its watermark, which an emitter may have moved meanwhile
            schedule.save(update_fields=sorted(changed))
            verbs.saved(schedule, changed)
            if "retry_policy" in changed:
                transaction.on_commit(partial(rescheduling.follow, schedule))
        told = f"changed: {', '.join(sorted(changed))}" if changed else "nothing to change"
        if "cron" in changed:
            told += f"\ncron: {cron_before} → {schedule.cron}"
        self._saved(schedule, told, options)

    def _trigger(self, options: dict[str, Any]) -> None:
        schedule = find_schedule(options["name"])
        _refuse_as_usage(obstacle_to_triggering(schedule))
        with without_its_log_lines():
            trigger = verbs.trigger_now(schedule, WHO)
        if options["json"]:
            self.stdout.write(as_json(_trigger_facts([trigger])[0]))
        else:
            self.stdout.write(f"{schedule}: {describe_trigger(trigger)}")

    def _pause(self, options: dict[str, Any]) -> None:
        schedule = find_schedule(options["name"])
        _refuse_as_usage(obstacle_to_editing(schedule))
        changed = schedule.enabled
        if changed:
            verbs.pause(schedule)
        told = "it triggers nothing until it is resumed" if changed else "it was paused before"
        self._report(schedule, told, changed, options)

    def _resume(self, options: dict[str, Any]) -> None:
        schedule = find_schedule(options["name"])
        _refuse_as_usage(obstacle_to_editing(schedule))
        changed = not schedule.enabled
        if changed:
            verbs.resume(schedule)
            schedule.refresh_from_db()
        told = f"it triggers next at {moment(schedule.next_trigger_at)} UTC" if changed else "it was not paused"
        self._report(schedule, told, changed, options)

    def _cancel(self, options: dict[str, Any]) -> None:
        schedule = find_schedule(options["name"])
        _refuse_as_usage(obstacle_to_editing(schedule))
        found = _batches_under_way(schedule)
        if not found:
            self._report(schedule, "no batch of it is under way", False, options, batches=0, cancelled=0)
            return
        many = f"{len(found):,} {'batches' if len(found) > 1 else 'batch'}"
        if not options["yes"] and not self.is_confirmed(f"Cancel {many} of {schedule}?"):
            self.stdout.write("nothing was changed")
            return
        # the latest first: a queued one does not begin when the one before it ends
        cancelled = sum(verbs.cancel_batch(trigger) for trigger in found)
        told = f"{many} cancelled; unfinished events taken off the backlog, or told to stop: {cancelled:,}"
        self._report(schedule, told, True, options, batches=len(found), cancelled=cancelled)

    def _remove(self, options: dict[str, Any]) -> None:
        schedule = find_schedule(options["name"])
        _refuse_as_usage(obstacle_to_editing(schedule))
        _refuse(_obstacle_to_removing(schedule))
        if not options["yes"] and not self.is_confirmed(f"Delete the schedule {schedule}? {LOST}"):
            self.stdout.write("nothing was changed")
            return
        with transaction.atomic():
            # an emitter may have put a batch on the backlog meanwhile; behind the lock none can
            _refuse(_obstacle_to_removing(Schedule.objects.select_for_update().get(pk=schedule.pk)))
            Schedule.objects.get(pk=schedule.pk).delete()
        self._report(schedule, "it is deleted; its finished records stay in the list of records", True, options)

    def _triggers(self, options: dict[str, Any]) -> None:
        schedule = find_schedule(options["name"])
        found = list(Trigger.objects.filter(schedule=schedule)[: options["limit"]])
        facts = _trigger_facts(found)
        if options["json"]:
            self.stdout.write(as_json(facts))
        elif facts:
            self.print_out(past_view(facts))
        else:
            self.stdout.write(f"{schedule} has triggered nothing yet.")

    def _saved(self, schedule: Schedule, told: str, options: dict[str, Any]) -> None:
        found = check(schedule)
        if options["json"]:
            self.stdout.write(as_json(schedule_facts(schedule) | {"plan": facts_of(found)}))
            return
        self.stdout.write(f"{schedule}: {told}")
        self.print_out(messages_view(messages(found)))

    def _report(self, schedule: Schedule, told: str, changed: bool, options: dict[str, Any], **more: int) -> None:
        facts = {"name": schedule.name, "changed": changed, "told": told} | more
        self.stdout.write(as_json(facts) if options["json"] else f"{schedule}: {told}")


def _batches_under_way(schedule: Schedule) -> list[Trigger]:
    """Those that are queued, being emitted or have unfinished events, the latest first."""
    unfinished = BacklogRecord.objects.filter(origin=schedule, trigger_at__isnull=False, status__in=UNFINISHED)
    of_events = unfinished.order_by().values("trigger_at")
    return list(
        Trigger.objects.filter(Q(finished_at=None, emitted_at=None) | Q(trigger_at__in=of_events), schedule=schedule)
    )


def _trigger_facts(triggers: list[Trigger]) -> list[dict[str, Any]]:
    progress = batches.progress(triggers)
    return [trigger_facts(trigger, progress.get(trigger.pk)) for trigger in triggers]


def _refuse(obstacle: str) -> None:
    if obstacle:
        raise CommandError(obstacle, returncode=1)


def _refuse_as_usage(obstacle: str) -> None:
    if obstacle:
        raise CommandError(obstacle, returncode=2)


def _obstacle_to_removing(schedule: Schedule) -> str:
    obstacle = obstacle_to_deleting(schedule)
    if obstacle and not obstacle_to_editing(schedule):
        obstacle += f": `manage.py schedules cancel {shlex.quote(schedule.name)}`"
    return obstacle
