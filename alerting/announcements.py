"""Informs routes of raised and ended alerts: one message a route, at most every five minutes.

A route learns of open alerts that it does not know yet, and of the ends of those that it knows: each once, and once
more if the message was given up. During its quiet hours nothing is sent; an alert that has ended by then was never
known to it, and is not mentioned. Both are one statement a route, which counts and names the first few of each kind,
and the message is stored in the same transaction. A row that is dated in the future was written by a clock that was
ahead, and delays nothing.
"""

from datetime import datetime, timedelta

from django.db import connection, transaction

from alerting import sending
from alerting.messages import MOST_NAMED, AlertGroup, message
from alerting.models import AlertKind, AlertRoute
from alerting.raising import AT_ONCE, FLUTTERING

APART = timedelta(minutes=5)
"""The time between two messages of a route, so that the alerts after a dead switch's first few come as one message."""

SETTLED_AFTER = timedelta(seconds=45)
"""The age at which an alert that may come and go is announced: two rounds have found it by then."""

# Served by `alert_to_announce`. An alert without a policy goes to all routes: if all routes were for some policies
# only, it would be lost.
ANNOUNCE = f"""
WITH changed AS (
UPDATE alerting_alert
   SET known_to = CASE WHEN ended_at IS NULL THEN known_to || %(route)s::bigint
                       ELSE array_remove(known_to, %(route)s::bigint) END
 WHERE CASE WHEN ended_at IS NULL
            THEN %(route)s <> ALL(known_to)
             AND (%(kinds)s::text[] = '{{}}' OR kind = ANY(%(kinds)s::text[]))
             AND (kind <> ALL(%(fluttering)s::text[])
                  OR (calm_since IS NULL AND (raised_at <= %(settled)s OR raised_at > %(now)s)))
             AND (policy_id IS NULL OR %(policies)s::bigint[] = '{{}}' OR policy_id = ANY(%(policies)s::bigint[]))
            ELSE known_to <> '{{}}' AND %(route)s = ANY(known_to) END
   AND (ended_at IS NULL OR known_to <> '{{}}')
RETURNING kind, ended_at IS NOT NULL AS over, name, CASE WHEN ended_at IS NULL THEN text ELSE '' END AS text,
          policy_id, raised_at, id
), numbered AS (
SELECT *, row_number() OVER (PARTITION BY kind, over ORDER BY raised_at, id) AS number FROM changed
), grouped AS (
SELECT kind, over, count(*) AS count,
       array_agg(name || CASE WHEN text <> '' THEN ': ' || text ELSE '' END ORDER BY number)
                 FILTER (WHERE number <= {MOST_NAMED}) AS names,
       array_agg(DISTINCT policy_id) AS policies,
       COALESCE(array_agg(id) FILTER (WHERE NOT over), '{{}}') AS raised
  FROM numbered
 GROUP BY kind, over
)
SELECT kind, over, count, names,
       ARRAY(SELECT o.name
               FROM sources_policy p
               JOIN jobs_origin o ON o.id = p.schedule_id
              WHERE p.id = ANY(policies)
              ORDER BY o.name),
       raised
  FROM grouped
"""


def announce(now: datetime) -> int:
    """Store a message for each route that has to be informed. Returns the number of messages."""
    routes = AlertRoute.objects.filter(enabled=True).order_by("pk").values_list("pk", flat=True)
    return sum(_announce_to(pk, now) for pk in routes)


@transaction.atomic
def _announce_to(pk: int, now: datetime) -> int:
    # of two processes that look at the same moment one announces
    route = AlertRoute.objects.select_for_update(skip_locked=True, no_key=True).filter(pk=pk, enabled=True).first()
    if route is None or sending.is_quiet(route, now) or (route.sent_at and now - APART < route.sent_at <= now):
        return 0
    policies = list(route.policies.values_list("pk", flat=True))
    fluttering = [str(kind) for kind in FLUTTERING]
    values = {"route": pk, "kinds": route.kinds, "policies": policies, "fluttering": fluttering}
    values |= {"now": now, "settled": now - SETTLED_AFTER}
    with connection.cursor() as cursor:
        cursor.execute(ANNOUNCE, values)
        rows = cursor.fetchall()
    groups = [AlertGroup(AlertKind(kind), *rest) for kind, *rest, _ in rows]
    if not groups:
        return 0
    AlertRoute.objects.filter(pk=pk).update(sent_at=now)
    found = message(groups)
    # a round raises at most this many, those of one kind before the next
    rest = "\n\nMore may follow in five minutes." if sum(each.count for each in groups) >= AT_ONCE else ""
    raises = [pk for *_, raised in rows for pk in raised]
    sending.put(route, found.title, found.body + rest, found.type, now=now, raises=raises)
    return 1
