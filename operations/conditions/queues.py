"""Conditions of the queue that are read from the summary of the backlog, which is made once for all conditions."""

import json
from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from typing import Any

from jobs import conf
from jobs.states import Status
from operations.backlog.attention import OVERDUE_SECONDS, findings
from operations.backlog.summary_statements import QUEUES_WITH_READY
from operations.finding import COUNT_TO, Condition, Finding, Look, add

FINE = {
    "workers": "a worker is alive",
    "silent_workers": "no worker fell silent",
    "dead_letters": "no record has given up",
    "unserved_queues": "every queue that holds records has a living worker",
    "unpromoted": "records that have waited long enough are made ready",
    "on_hold": "nothing is on hold",
    "paused_queues": "no queue is paused",
    "open_breakers": "no breaker is open",
    "unknown_kinds": "every unfinished record is of a kind known here",
}

ALIVE = "stopped_at IS NULL AND heartbeat_at > %(alive_since)s"

# A queue is served together with the one that it feeds.
UNSERVED = f"""
WITH held AS MATERIALIZED (
    SELECT value AS name FROM ({QUEUES_WITH_READY}) AS ready
     UNION
    SELECT queue FROM (SELECT queue FROM jobs_backlogrecord
                        WHERE status = {Status.WAITING} ORDER BY run_after LIMIT {COUNT_TO + 1}) AS waiting
     UNION
    SELECT queue FROM jobs_backlogrecord WHERE status = {Status.RUNNING}
), served AS MATERIALIZED (
    SELECT DISTINCT jsonb_object_keys(queues) AS name FROM jobs_worker WHERE {ALIVE}
)
SELECT name FROM held WHERE name NOT IN (SELECT name FROM served) OR NOT %(feeds)s::jsonb ? name
 UNION ALL
SELECT name FROM held WHERE %(feeds)s::jsonb ->> name NOT IN (SELECT name FROM served)
"""

UNPROMOTED = f"""
SELECT FROM (SELECT run_after FROM jobs_backlogrecord
              WHERE status = {Status.WAITING} ORDER BY run_after LIMIT 1) AS first
 WHERE run_after <= %(overdue)s
"""


def _facts(look: Look) -> dict[str, Any]:
    return {
        "alive_since": look.now - timedelta(seconds=conf.lease_seconds()),
        "overdue": look.now - timedelta(seconds=OVERDUE_SECONDS),
        "feeds": json.dumps({name: rule.feeds for name, rule in conf.queue_rules().items()}),
    }


ALERT_WHERE = {
    "workers": f"SELECT WHERE NOT EXISTS (SELECT FROM jobs_worker WHERE {ALIVE})",
    "unserved_queues": UNSERVED,
    "unpromoted": UNPROMOTED,
    "on_hold": "SELECT FROM jobs_hold",
    "open_breakers": "SELECT FROM jobs_breaker WHERE opened_at IS NOT NULL",
}


def _alert_where(kind: str, look: Look) -> tuple[str, dict[str, Any]]:
    return ALERT_WHERE[kind], _facts(look)


def _of_kind(kind: str, look: Look) -> Iterable[Finding]:
    return (each for each in findings(look.summary) if each.kind == kind)


for name, fine in FINE.items():
    where = partial(_alert_where, name) if name in ALERT_WHERE else None
    add(Condition(name, partial(_of_kind, name), fine, alert_where=where))
