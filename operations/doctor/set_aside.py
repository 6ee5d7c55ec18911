"""What the steps of the tick have set aside, since it cannot be read or raises: it holds up nothing, and waits."""

from datetime import datetime

from django.db.backends.utils import CursorWrapper

from jobs.closing import LOOK_AGAIN_AFTER, SET_ASIDE
from jobs.states import Status, WaitingFor
from operations.doctor.asking import COUNT_TO, rows
from operations.doctor.finding import Finding, listed, ok, problem
from schedules.cron import check_expression, check_zone
from schedules.models import Overlap

# By `backlog_waiting_until`: it is looked at again within the hour.
RECORDS = f"""
SELECT id, last_error
  FROM (SELECT id, last_error, waiting_for, closes_at
          FROM jobs_backlogrecord
         WHERE status = {Status.WAITING} AND run_after <= %(now)s + %(again)s
         ORDER BY run_after
         LIMIT {COUNT_TO}) AS soon
 WHERE waiting_for = {WaitingFor.WINDOW} AND closes_at <= %(now)s AND last_error LIKE %(said)s
"""

SCHEDULES = (
    "SELECT o.name, s.cron, o.zone FROM schedules_schedule s JOIN jobs_origin o ON o.id = s.origin_id "
    f"WHERE s.enabled ORDER BY o.id LIMIT {COUNT_TO}"
)

# By `trigger_unfinished`.
TRIGGERS = f"""
SELECT o.name, t.trigger_at
  FROM schedules_trigger t
  JOIN schedules_schedule s ON s.origin_id = t.schedule_id
  JOIN jobs_origin o ON o.id = t.schedule_id
 WHERE t.finished_at IS NULL AND t.emitted_at IS NULL AND t.events = 0 AND s.overlap = '{Overlap.ALLOW}'
   AND t.seen_at < %(now)s - interval '10 minutes'
 ORDER BY t.trigger_at
 LIMIT 100
"""


def set_aside(cursor: CursorWrapper, now: datetime) -> Finding:
    """Records, schedules and triggers that no step can deal with."""
    values = {"now": now, "again": LOOK_AGAIN_AFTER, "said": f"{SET_ASIDE}%"}
    records = {int(record): str(error).removeprefix(SET_ASIDE) for record, error in rows(cursor, RECORDS, values)}
    schedules = {str(name): wrong for name, cron, zone in rows(cursor, SCHEDULES) if (wrong := _problem_of(cron, zone))}
    triggers = [f"{name} of {at:%Y-%m-%d %H:%M} UTC" for name, at in rows(cursor, TRIGGERS, {"now": now})]
    if not (records or schedules or triggers):
        return ok("set_aside", "every record, schedule and trigger can be read")
    said = [f"record {record}: {error.splitlines()[0]}" for record, error in records.items()]
    said += [f"schedule {name} emits nothing: {wrong}" for name, wrong in schedules.items()]
    said += [f"the trigger {trigger} cannot be emitted" for trigger in triggers]
    return problem(
        "set_aside",
        f"set aside, so that all others go on: {listed(said)}",
        "correct or cancel what is named; it is looked at again within a minute, a record within an hour. Where "
        "nothing is wrong with it, the log of the workers has the error: is the same version installed on all hosts?",
        records=list(records),
        schedules=list(schedules),
        triggers=triggers,
    )


def _problem_of(cron: str, zone: str) -> str:
    try:
        check_expression(cron)
        check_zone(zone)
    except ValueError as error:
        return str(error)
    return ""
