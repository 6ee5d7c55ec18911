"""Raises alerts and ends them: one statement a round, which writes nothing if nothing changed.

An alert whose finding is gone is calm. It is over once it has been calm for as long as its kind wants, so that a
finding which comes and goes within minutes is one alert; it continues if the finding is there again before a route has
heard that it was over. An alert of a source that was paused or deleted ends without a message. A condition that could
not be examined is not calm: its alerts stay as they are.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Count, QuerySet

from alerting import messages
from alerting.alert_rows import ALL
from alerting.messages import MOST_NAMED
from alerting.models import Alert, AlertKind, AlertMessage
from jobs import conf
from jobs.conf import PROGRAM

AT_ONCE = 5000
"""New alerts of a round: the rest is raised by the next."""

FLUTTERING = (
    AlertKind.WATCHDOG, AlertKind.SCHEDULE, AlertKind.WORKER, AlertKind.REPOSITORY, AlertKind.BREAKER, AlertKind.SPACE,
)  # fmt: skip
"""Kinds that come and go: routes hear of them if the next round still finds them, and of their end after CALM_FOR."""
CALM_FOR = timedelta(minutes=5)

SHOWN_ELSEWHERE = (
    AlertKind.FAILING, AlertKind.OVERDUE, AlertKind.NEVER, AlertKind.WORKER, AlertKind.REPOSITORY, AlertKind.BREAKER,
    AlertKind.HOLD, AlertKind.CHECK, AlertKind.DRILL, AlertKind.HELD_BACK,
)  # fmt: skip
"""Kinds that pages and commands show next to alerts, from the tables as they are now."""

# `alert_to_announce` and `one_open_alert_per_subject` serve it; the conditions read the assignments once.
LOOK = f"""
WITH holds(kind, subject, policy_id, name, since, text) AS MATERIALIZED ({ALL}
), reopened AS (
UPDATE alerting_alert a
   SET ended_at = NULL, calm_since = NULL, since = COALESCE(h.since, %(now)s), text = left(h.text, 500)
  FROM holds h
 WHERE a.kind = h.kind AND a.subject = h.subject AND a.ended_at IS NOT NULL AND a.known_to <> '{{}}'
RETURNING 1
), raised AS (
INSERT INTO alerting_alert (kind, subject, policy_id, name, since, text, raised_at)
SELECT kind, subject, policy_id, left(name, 300), COALESCE(since, %(now)s), left(text, 500), %(now)s
  FROM holds h
 WHERE NOT EXISTS (
       SELECT
         FROM alerting_alert a
        WHERE a.kind = h.kind AND a.subject = h.subject AND (a.ended_at IS NULL OR a.known_to <> '{{}}'))
 LIMIT {AT_ONCE}
    ON CONFLICT DO NOTHING
RETURNING 1
), moving AS (
SELECT a.id, h.kind IS NULL AS calm, LEAST(a.calm_since, %(now)s) AS calm_since
  FROM alerting_alert a
  LEFT JOIN holds h ON h.kind = a.kind AND h.subject = a.subject
 WHERE a.ended_at IS NULL
   AND CASE WHEN h.kind IS NOT NULL THEN a.calm_since IS NOT NULL
            ELSE NOT EXISTS (
                 SELECT
                   FROM unnest(%(unexamined_kinds)s::text[], %(unexamined_subjects)s::text[]) AS u(kind, begins)
                  WHERE u.kind = a.kind AND starts_with(a.subject, u.begins)) END
), moved AS (
UPDATE alerting_alert a
   SET calm_since = CASE WHEN m.calm THEN m.calm_since END,
       ended_at = CASE WHEN m.calm AND (a.kind <> ALL(%(fluttering)s::text[]) OR m.calm_since <= %(calm_before)s)
                       THEN %(now)s END
  FROM moving m
 WHERE a.id = m.id
   AND (NOT m.calm OR a.calm_since IS DISTINCT FROM m.calm_since OR a.kind <> ALL(%(fluttering)s::text[])
        OR m.calm_since <= %(calm_before)s)
RETURNING 1
)
SELECT (SELECT count(*) FROM reopened) + (SELECT count(*) FROM raised) + (SELECT count(*) FROM moved),
       (SELECT 1
          FROM alerting_alert
         WHERE (ended_at IS NULL OR known_to <> '{{}}')
           AND CASE WHEN ended_at IS NULL THEN NOT known_to @> routes.ids ELSE known_to && routes.ids END
         ORDER BY kind
         LIMIT 1) IS NOT NULL,
       (SELECT next_at FROM alerting_alertmessage WHERE next_at IS NOT NULL ORDER BY next_at LIMIT 1) IS NOT NULL
  FROM (SELECT COALESCE(array_agg(id), '{{}}') AS ids FROM alerting_alertroute WHERE enabled) AS routes
"""

# A source that an operator paused, retired, disabled or deleted is not *OK again*. Each alert looks up its assignment
# by the key: as NOT EXISTS, the planner would make a table of all assignments.
MUTE = """
UPDATE alerting_alert al
   SET ended_at = %(now)s, known_to = '{}'
 WHERE al.ended_at IS NULL
   AND al.subject LIKE 'assignment:%%'
   AND (SELECT a.id
          FROM sources_assignment a
          JOIN sources_source s ON s.id = a.source_id
          JOIN sources_policy p ON p.id = a.policy_id
          JOIN schedules_schedule schedule ON schedule.origin_id = p.schedule_id
         WHERE a.id = substr(al.subject, 12)::bigint AND s.paused_at IS NULL AND s.retired_at IS NULL
           AND schedule.enabled) IS NULL
"""


class FoundAlert(NamedTuple):
    """An alert as the conditions found it. `since`: None if it begins now."""

    kind: AlertKind
    subject: str
    name: str
    text: str
    since: datetime | None = None
    policy: int | None = None


class UnexaminedAlerts(NamedTuple):
    """The alerts of a kind whose subjects begin so, when the condition that finds them could not be examined."""

    kind: AlertKind
    begins: str = ""


class RaisedAlerts(NamedTuple):
    """The number of alerts that changed. `are_to_announce`: there may be some that a route does not know yet;
    `are_to_send`: there are messages that were not sent yet.
    """

    changed: int
    are_to_announce: bool
    are_to_send: bool


def look(
    now: datetime, found: Sequence[FoundAlert] = (), unexamined: Collection[UnexaminedAlerts] = ()
) -> RaisedAlerts:
    """Raise and end alerts: of assignments and workers, and those that conditions `found`. Those that are `unexamined`
    do not end.
    """
    values: dict[str, Any] = {
        "now": now,
        "silent_before": now - timedelta(seconds=conf.lease_seconds()),
        "calm_before": now - CALM_FOR,
        "fluttering": [str(kind) for kind in FLUTTERING],
        "kinds": [str(each.kind) for each in found],
        "subjects": [each.subject for each in found],
        "policies": [each.policy for each in found],
        "names": [each.name for each in found],
        "sinces": [each.since for each in found],
        "texts": [each.text for each in found],
        "unexamined_kinds": [str(each.kind) for each in unexamined],
        "unexamined_subjects": [each.begins for each in unexamined],
    }
    with connection.cursor() as cursor:
        cursor.execute(MUTE, {"now": now})
        muted: int = cursor.rowcount
        cursor.execute(LOOK, values)
        [[changed, is_unheard, are_to_send]] = cursor.fetchall()
        return RaisedAlerts(muted + changed, bool(changed) or is_unheard, are_to_send)


def open_alerts() -> Any:
    """Open alerts, the latest first."""
    return Alert.objects.filter(ended_at=None).select_related("policy__schedule")


def in_need(now: datetime) -> list[str]:
    """A sentence for each kind that no status, worker, breaker or hold shows, so that all is not well."""
    shown = Alert.objects.filter(ended_at=None, calm_since=None).exclude(kind__in=SHOWN_ELSEWHERE)
    counts = dict(shown.order_by("kind").values_list("kind").annotate(Count("pk")))
    return [_sentence(AlertKind(kind), count, shown.filter(kind=kind)) for kind, count in counts.items()]


def _sentence(kind: AlertKind, count: int, alerts: QuerySet[Alert]) -> str:
    names = ", ".join(alerts.values_list("name", flat=True)[:MOST_NAMED])
    more = " and more" if count > MOST_NAMED else ""
    return f"{messages.heading(kind, count)}: {names}{more}. `{PROGRAM} alerts` says why."


def prune(before: datetime) -> int:
    """Delete alerts that were over before then, and messages of that age."""
    sent = AlertMessage.objects.filter(made_at__lt=before, next_at=None).delete()[0]
    return sent + Alert.objects.filter(ended_at__lt=before).delete()[0]
