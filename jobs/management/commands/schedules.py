import shlex
import sys
from argparse import ArgumentParser
from functools import partial
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.db.models import Q
from django.db.utils import Error
from rich.console import Group, RenderableType
from rich.text import Text

from jobs import rescheduling
from jobs.backlog.facts import as_json
from jobs.backlog.rendering import text_of
from jobs.models import BacklogRecord, Schedule, Trigger
from jobs.schedules import batches, verbs
from jobs.schedules.plan_arguments import CRON_FIELDS, NAMED, OPTIONS, add_arguments, cron_of, named
from jobs.schedules.plan_facts import plan_facts, schedule_facts, told_trigger, trigger_facts, trigger_times
from jobs.schedules.plan_figures import told_plan
from jobs.schedules.plan_rendering import (
    facts_view,
    list_view,
    past_view,
    plan_view,
    said_view,
    triggers_view,
)
from jobs.schedules.validation import OF_POLICIES, obstacle_to_deleting, obstacle_to_editing
from jobs.states import UNFINISHED
from jobs.telling import moment

SHOWN_NAMES = 20
RELATED = ("endpoint", "throttle", "retry_policy")
WHO = "a person at the command line"


class Command(BaseCommand):
    help = (
        "Look at schedules, add, change and remove them; trigger, pause, resume and cancel them. Alone: the list. Exit "
        "codes: 0; 1 when it was refused, as for a schedule whose events are unfinished; 2 for bad usage, or when the "
        "database does not answer."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['verb'] or 'list'}")(options)
        except ValidationError as error:
            raise CommandError(_told_problems(error, options["verb"]), returncode=2) from error
        except ValueError as error:
            raise CommandError(f"{error}", returncode=2) from error
        except Error as error:
            raise CommandError(
                f"{str(error).strip()}\nIs the database running, and were its migrations applied (manage.py migrate)?",
                returncode=2,
            ) from error

    def _list(self, options: dict[str, Any]) -> None:
        found = list(Schedule.objects.select_related(*RELATED).order_by("name"))
        if options["json"]:
            self.stdout.write(as_json([schedule_facts(schedule) for schedule in found]))
        elif found:
            self._print(list_view(found))
        else:
            self.stdout.write("There is no schedule yet; `manage.py schedules add --help` shows how to add one.")

    def _show(self, options: dict[str, Any]) -> None:
        schedule = _schedule(options["name"])
        (plan, said), facts = told_plan(schedule), schedule_facts(schedule)
        if options["json"]:
            self.stdout.write(as_json(facts | {"next_triggers": trigger_times(plan)}))
        else:
            self._print(Group(facts_view(facts), triggers_view(plan), said_view(said)))

    def _plan(self, options: dict[str, Any]) -> None:
        self._tell_plan(_schedule(options["name"]), options)

    def _add(self, options: dict[str, Any]) -> None:
        schedule = Schedule(name=options["name"])
        if _is_taken(schedule.name):
            raise ValueError(
                f"{schedule.name}: there is one already; change it with `schedules set`, as `manage.py schedules set "
                f"{shlex.quote(schedule.name)} --window 7200`"
            )
        chosen = _chosen(options)
        missing = []
        if "cron" not in chosen:
            missing.append("--cron is missing: when does it trigger? As --cron '0 3 * * *', or --hour 3,6,9")
        if not (chosen.get("endpoint") or chosen.get("kind") or chosen.get("provider")):
            missing.append("--endpoint is missing: where are its events delivered?")
        if missing:
            raise ValueError("\n".join(missing))
        if not chosen.get("provider"):
            chosen.setdefault("event_count", 1)
        if "kind" not in chosen and chosen.get("endpoint"):
            chosen["kind"] = chosen["endpoint"].kind
        _put(schedule, chosen)
        schedule.full_clean()
        with transaction.atomic():
            schedule.save()
            verbs.saved(schedule, None)
        self._saved(schedule, "added", options)

    def _set(self, options: dict[str, Any]) -> None:
        schedule = _schedule(options["name"])
        _refuse(obstacle_to_editing(schedule))
        chosen = _chosen(options, schedule.cron)
        if "new_name" in options:
            chosen["name"] = options["new_name"]
            if chosen["name"] != schedule.name and _is_taken(chosen["name"]):
                raise ValueError(f"--name: there is a schedule {chosen['name']!r} already")
        if not chosen:
            raise ValueError(
                "say what to change, as --window 7200; `manage.py schedules set --help` shows what there is"
            )
        if chosen.get("provider"):
            chosen.setdefault("event_count", None)
        changed = {field for field, value in chosen.items() if getattr(schedule, field) != value}
        cron_before = schedule.cron
        _put(schedule, chosen)
        schedule.full_clean()
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
        schedule = _schedule(options["name"])
        trigger = verbs.trigger_now(schedule, WHO)
        if options["json"]:
            self.stdout.write(as_json(_trigger_facts([trigger])[0]))
        else:
            self.stdout.write(f"{schedule}: {told_trigger(trigger)}")

    def _pause(self, options: dict[str, Any]) -> None:
        schedule = _schedule(options["name"])
        _refuse(obstacle_to_editing(schedule))
        changed = schedule.enabled
        if changed:
            verbs.pause(schedule)
        told = "it triggers nothing until it is resumed" if changed else "it was paused before"
        self._told(schedule, told, changed, options)

    def _resume(self, options: dict[str, Any]) -> None:
        schedule = _schedule(options["name"])
        _refuse(obstacle_to_editing(schedule))
        changed = not schedule.enabled
        if changed:
            verbs.resume(schedule)
            schedule.refresh_from_db()
        told = f"it triggers next at {moment(schedule.next_trigger_at)} UTC" if changed else "it was not paused"
        self._told(schedule, told, changed, options)

    def _cancel(self, options: dict[str, Any]) -> None:
        schedule = _schedule(options["name"])
        _refuse(obstacle_to_editing(schedule))
        found = _batches_under_way(schedule)
        if not found:
            self._told(schedule, "no batch of it is under way", False, options, batches=0, cancelled=0)
            return
        many = f"{len(found):,} {'batches' if len(found) > 1 else 'batch'}"
        if not options["yes"] and not self._confirmed(f"Cancel {many} of {schedule}?"):
            self.stdout.write("nothing was changed")
            return
        # the latest first: a queued one does not begin when the one before it ends
        cancelled = sum(verbs.cancel_batch(trigger) for trigger in found)
        told = f"{many} cancelled; unfinished events taken off the backlog, or told to stop: {cancelled:,}"
        self._told(schedule, told, True, options, batches=len(found), cancelled=cancelled)

    def _remove(self, options: dict[str, Any]) -> None:
        schedule = _schedule(options["name"])
        _refuse(_obstacle_to_removing(schedule))
        if not options["yes"] and not self._confirmed(f"Delete the schedule {schedule}?"):
            self.stdout.write("nothing was changed")
            return
        with transaction.atomic():
            # an emitter may have put a batch on the backlog meanwhile; behind the lock none can
            _refuse(_obstacle_to_removing(Schedule.objects.select_for_update().get(pk=schedule.pk)))
            Schedule.objects.get(pk=schedule.pk).delete()
        self._told(schedule, "it is deleted; its finished records stay in the list of records", True, options)

    def _triggers(self, options: dict[str, Any]) -> None:
        schedule = _schedule(options["name"])
        found = list(Trigger.objects.filter(schedule=schedule)[: options["limit"]])
        facts = _trigger_facts(found)
        if options["json"]:
            self.stdout.write(as_json(facts))
        elif facts:
            self._print(past_view(facts))
        else:
            self.stdout.write(f"{schedule} has triggered nothing yet.")

    def _saved(self, schedule: Schedule, told: str, options: dict[str, Any]) -> None:
        plan, said = told_plan(schedule)
        if options["json"]:
            self.stdout.write(as_json(schedule_facts(schedule) | {"plan": plan_facts(plan, said)}))
            return
        self.stdout.write(f"{schedule}: {told}")
        self._print(said_view(said))

    def _tell_plan(self, schedule: Schedule, options: dict[str, Any]) -> None:
        plan, said = told_plan(schedule)
        if options["json"]:
            self.stdout.write(as_json(plan_facts(plan, said)))
        else:
            self._print(Group(Text(f"The plan of {schedule}"), plan_view(plan, said)))

    def _told(self, schedule: Schedule, told: str, changed: bool, options: dict[str, Any], **more: int) -> None:
        facts = {"name": schedule.name, "changed": changed, "told": told} | more
        self.stdout.write(as_json(facts) if options["json"] else f"{schedule}: {told}")

    def _confirmed(self, question: str) -> bool:
        """Ask the person at the terminal. Raises: CommandError when nobody is there."""
        if not sys.stdin.isatty():
            raise CommandError(f"{question} Nobody is there to ask: add --yes", returncode=2)
        try:
            return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
        except (EOFError, KeyboardInterrupt):
            self.stdout.write("")
            return False

    def _print(self, renderable: RenderableType) -> None:
        self.stdout.write(text_of(renderable, terminal=self.stdout.isatty()))


def _schedule(name: str) -> Schedule:
    """Raises: ValueError naming the known ones."""
    rows = Schedule.objects.select_related(*RELATED)
    if "\0" not in name and (found := rows.filter(name=name).first()):
        return found
    known = list(Schedule.objects.order_by("name").values_list("name", flat=True)[: SHOWN_NAMES + 1])
    if not known:
        raise ValueError(f"there is no schedule {name!r}, nor any other; `manage.py schedules add` makes one")
    shown = ", ".join(known[:SHOWN_NAMES]) + (", …" if len(known) > SHOWN_NAMES else "")
    raise ValueError(f"there is no schedule {name!r}; the schedules are: {shown}")


def _is_taken(name: str) -> bool:
    return "\0" not in name and Schedule.objects.filter(name=name).exists()


def _batches_under_way(schedule: Schedule) -> list[Trigger]:
    """Those that are unfinished, the latest first; also one that had finished, and has an event tried again."""
    unfinished = BacklogRecord.objects.filter(schedule=schedule, trigger_at__isnull=False, status__in=UNFINISHED)
    of_events = unfinished.order_by().values("trigger_at")
    return list(Trigger.objects.filter(Q(finished_at=None) | Q(trigger_at__in=of_events), schedule=schedule))


def _chosen(options: dict[str, Any], cron: str = "") -> dict[str, Any]:
    """The fields that were named, with what they are to be; fields of the cron change the present `cron`.

    Raises: ValueError for unknown names, cron twice, or a provider that is not for it.
    """
    chosen = {field: options[field] for field in OPTIONS if field in options and field != "name"}
    if chosen.get("provider") == OF_POLICIES:
        raise ValueError(
            f"--provider: {OF_POLICIES} are those of a policy, which has a schedule of its own; make a policy instead"
        )
    for field in NAMED:
        if field in chosen:
            chosen[field] = named(field, chosen[field])
    if fields := {field: options[field] for field in CRON_FIELDS if field in options}:
        if "cron" in chosen:
            raise ValueError("say when by --cron or by its fields, not by both")
        chosen["cron"] = cron_of(fields, cron)
    return chosen


def _put(schedule: Schedule, chosen: dict[str, Any]) -> None:
    for field, value in chosen.items():
        setattr(schedule, field, value)


def _trigger_facts(triggers: list[Trigger]) -> list[dict[str, Any]]:
    progress = batches.progress(triggers)
    return [trigger_facts(trigger, progress.get(trigger.pk)) for trigger in triggers]


def _refuse(obstacle: str) -> None:
    if obstacle:
        raise CommandError(obstacle, returncode=1)


def _obstacle_to_removing(schedule: Schedule) -> str:
    obstacle = obstacle_to_deleting(schedule)
    if obstacle and not obstacle_to_editing(schedule):
        obstacle += f": `manage.py schedules cancel {shlex.quote(schedule.name)}`"
    return obstacle


def _told_problems(error: ValidationError, verb: str) -> str:
    if not hasattr(error, "error_dict"):
        return "; ".join(error.messages)
    labels = OPTIONS | ({"name": "NAME"} if verb == "add" else {})
    lines = [f"{labels.get(field, field)}: {' '.join(texts)}" for field, texts in error.message_dict.items()]
    return "\n".join(lines).replace("in window_for", f"with {OPTIONS['window_for']}")
