"""Who uses a retry policy, as far as it must be known to say why it cannot be deleted."""

from django.db.models import QuerySet
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs import conf
from jobs.models import BacklogRecord, RetryPolicy, Schedule
from jobs.states import FINISHED, UNFINISHED
from jobs.telling import span

MOST_NAMES = 20
MOST_COUNTED = 1_000
"""Records have no index by retry policy: counting all would read the whole backlog."""


def uses_of(policy: RetryPolicy) -> list[SafeString | str]:
    """A sentence for each kind of user, with what to do about it; empty: nothing uses the policy."""
    schedules = list(Schedule.objects.filter(retry_policy=policy).order_by("name")[: MOST_NAMES + 1])
    found: list[SafeString | str] = [_of_schedule(policy, schedule) for schedule in schedules[:MOST_NAMES]]
    if len(schedules) > MOST_NAMES:
        found.append("… and further schedules")
    records = BacklogRecord.objects.filter(retry_policy=policy)
    if unfinished := _counted(records.filter(status__in=UNFINISHED)):
        found.append(f"{policy}: {unfinished} on the backlog; let them end, or cancel them")
    if finished := _counted(records.filter(status__in=FINISHED)):
        found.append(
            f"{policy}: {finished} that ended under it; each is deleted {span(conf.keep_finished().total_seconds())} "
            "after its end, and until then the policy can be renamed, but not deleted"
        )
    return found


def _of_schedule(policy: RetryPolicy, schedule: Schedule) -> SafeString:
    where = reverse("admin:jobs_schedule_change", args=[schedule.pk])
    return format_html(
        '{}: the schedule <a href="{}" class="text-link">{}</a>; choose another retry policy there, or in its policy',
        policy, where, schedule,
    )  # fmt: skip


def _counted(records: QuerySet[BacklogRecord]) -> str:
    """How many records, as `3 records`; empty for none."""
    count = records.order_by()[: MOST_COUNTED + 1].count()
    if count > MOST_COUNTED:
        return f"more than {MOST_COUNTED:,} records"
    return f"{count:,} record{'s' if count > 1 else ''}" if count else ""
