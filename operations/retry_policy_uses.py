"""Who uses a retry policy, as far as it must be known to say why it cannot be deleted."""

from dataclasses import dataclass

from django.db.models import QuerySet

from jobs import conf
from jobs.durations import span
from jobs.models import BacklogRecord, RetryPolicy
from jobs.states import FINISHED, UNFINISHED
from schedules.models import Schedule

MOST_NAMES = 20
MOST_COUNTED = 1_000
"""Records have no index by retry policy: counting all would read the whole backlog."""


@dataclass(frozen=True)
class Use:
    """A sentence that says who uses a policy, with what to do about it: `before`, the `schedule` if it is one, `after`.

    It has no full stop.
    """

    before: str
    schedule: Schedule | None = None
    after: str = ""

    def __str__(self) -> str:
        return f"{self.before}{self.schedule or ''}{self.after}"


def uses_of(policy: RetryPolicy) -> list[Use]:
    """Each schedule, and the records that are unfinished, and finished; empty: nothing uses the policy."""
    schedules = list(Schedule.objects.filter(retry_policy=policy).order_by("name")[: MOST_NAMES + 1])
    advice = "; choose another retry policy there, or in its policy"
    found = [Use(f"{policy}: the schedule ", schedule, advice) for schedule in schedules[:MOST_NAMES]]
    if len(schedules) > MOST_NAMES:
        found.append(Use("… and further schedules"))
    records = BacklogRecord.objects.filter(retry_policy=policy)
    if unfinished := _counted(records.filter(status__in=UNFINISHED)):
        found.append(Use(f"{policy}: {unfinished} on the backlog; let them end, or cancel them"))
    if finished := _counted(records.filter(status__in=FINISHED)):
        kept_for = span(conf.keep_finished().total_seconds())
        found.append(
            Use(
                f"{policy}: {finished} that ended under it; each is deleted {kept_for} after its end, and until then "
                "the policy can be renamed, but not deleted"
            )
        )
    return found


def _counted(records: QuerySet[BacklogRecord]) -> str:
    """How many records, as `3 records`; empty for none."""
    count = records.order_by()[: MOST_COUNTED + 1].count()
    if count > MOST_COUNTED:
        return f"more than {MOST_COUNTED:,} records"
    return f"{count:,} record{'s' if count > 1 else ''}" if count else ""
