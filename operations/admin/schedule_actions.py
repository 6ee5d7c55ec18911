"""Trigger now, pause and resume in the admin: first a question, then the verb, and a line in the schedule's history."""

from collections.abc import Callable

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from jobs.formatting import storable
from operations.admin.asking import AsksFirst, asked, is_confirmed, question
from operations.admin.base import moment
from schedules import verbs
from schedules.facts import describe_trigger
from schedules.models import Schedule
from schedules.obstacles import obstacle_to_editing

TRIGGER_MEANS = (
    "A batch goes on the backlog now, beside what its cron triggers. It keeps to the window, stagger, throttle and "
    "overlap of its schedule."
)
PAUSE_MEANS = "It triggers nothing until it is resumed. What it has emitted already goes on."
RESUME_MEANS = "It triggers again from now on. What it would have triggered while it was paused is not caught up."

Verb = Callable[[Schedule, str], str]


def _trigger(schedule: Schedule, by: str) -> str:
    return describe_trigger(verbs.trigger_now(schedule, by))


def _pause(schedule: Schedule, by: str) -> str:
    _stands_alone(schedule)
    if not schedule.enabled:
        return "it was paused before"
    verbs.pause(schedule)
    return "it triggers nothing any more"


def _resume(schedule: Schedule, by: str) -> str:
    _stands_alone(schedule)
    if schedule.enabled:
        return "it was not paused"
    verbs.resume(schedule)
    schedule.refresh_from_db()
    return f"it triggers next at {moment(schedule.next_trigger_at)} UTC"


def _stands_alone(schedule: Schedule) -> None:
    """Raises: ValueError for the schedule of a policy, whose dates and records change with it."""
    if obstacle := obstacle_to_editing(schedule):
        raise ValueError(obstacle)


class ScheduleActions(AsksFirst[Verb]):
    """Trigger now, pause and resume, from the list and from a schedule's page."""

    called = "schedule"
    actions = ("trigger_now", "pause", "resume")
    actions_detail = ("trigger_this", "pause_this", "resume_this")

    def idle_verbs(self, row: Schedule) -> set[str]:
        """All of them for the schedule of a policy, which is operated there."""
        if obstacle_to_editing(row):
            return set(self.actions_detail)
        return {"resume_this" if row.enabled else "pause_this"}

    trigger_now, trigger_this = asked("trigger_now", "Trigger now", TRIGGER_MEANS, _trigger, "play_arrow")
    pause, pause_this = asked("pause", "Pause", PAUSE_MEANS, _pause, "pause")
    resume, resume_this = asked("resume", "Resume", RESUME_MEANS, _resume, "resume")

    def ask_or_do(
        self, request: HttpRequest, rows: QuerySet[Schedule], name: str, means: str, verb: Verb
    ) -> HttpResponse | None:
        """The question, or None once the answer was yes and it is done."""
        schedules = list(rows.order_by("name"))
        if not is_confirmed(request):
            lines = [f"{each}: `{each.cron}` in {each.zone}{'' if each.enabled else ', paused'}" for each in schedules]
            return question(request, name, means, lines)
        for schedule in schedules:
            try:
                text, level = verb(schedule, str(request.user)), messages.SUCCESS
            except ValueError as error:
                text, level = str(error), messages.ERROR
            except Schedule.DoesNotExist:
                text, level = "it was deleted meanwhile", messages.ERROR
            else:
                self.log_change(request, schedule, storable(f"{name}: {text}."))  # type: ignore[attr-defined]
            self.message_user(request, f"{name}: {schedule}: {text}.", level)  # type: ignore[attr-defined]
        return None
