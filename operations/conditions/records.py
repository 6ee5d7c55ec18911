"""Records that do not progress: a waiting record has an end and is made ready at it, and a ready one is claimed.

The statements use no code of the claims or the tick, which they judge: a date that no emitter moves is an error in no
log. They are bounded by the rows that an index yields first, and a record that may rightly wait for hours, behind a
throttle, an exclusive key or a busy queue, is not judged.
"""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from external.formatting import first_line
from jobs import conf
from jobs.conf import PROGRAM
from jobs.states import Status, WaitingFor
from jobs.window_ends import LOOK_AGAIN_AFTER, SET_ASIDE
from operations.finding import COUNT_TO, Case, Look, Severity, condition, rows

LONGEST_WAIT = "750 days"
"""Two years are the longest that a window stays closed; nothing else waits for longer."""

# Served by `backlog_waiting_until`: it is looked at again within the hour.
WITH_AN_ERROR = f"""
SELECT id, last_error
  FROM (SELECT id, last_error, waiting_for, closes_at
          FROM jobs_backlogrecord
         WHERE status = {Status.WAITING} AND run_after <= %(now)s + %(again)s
         ORDER BY run_after
         LIMIT {COUNT_TO}) AS soon
 WHERE waiting_for = {WaitingFor.WINDOW} AND closes_at <= %(now)s AND last_error LIKE %(pattern)s
"""


@condition(
    "every record can be read",
    "set aside, so that all others continue: {}",
    "correct or cancel these records; they are examined again within an hour. If nothing is wrong with them, "
    "the log of the workers has the error: is the same version installed on all hosts?",
    severity=Severity.PROBLEM,
)
def set_aside(look: Look) -> Iterator[Case]:
    """Records that no step of the tick can deal with: they hold up nothing, and wait."""
    for pk, error in rows(WITH_AN_ERROR, now=look.now, again=LOOK_AGAIN_AFTER, pattern=f"{SET_ASIDE}%"):
        yield Case(f"record:{pk}", f"record {pk}: {first_line(str(error).removeprefix(SET_ASIDE))}")


ENDLESS = f"""
SELECT id, run_after::text
  FROM (SELECT id, run_after FROM jobs_backlogrecord
         WHERE status = {Status.WAITING} ORDER BY run_after DESC LIMIT 1) AS last
 WHERE run_after > %(now)s::timestamptz + interval '{LONGEST_WAIT}'
"""


@condition(
    "every record that waits has an end",
    "{}",
    f"`{PROGRAM} backlog retry ID` makes it ready now, `{PROGRAM} backlog cancel ID` ends it",
    severity=Severity.PROBLEM,
    alert_where=lambda look: (ENDLESS, {"now": look.now}),
)
def endless(look: Look) -> Iterator[Case]:
    """The record that waits longest, if no valid wait can be that long."""
    for pk, until in rows(ENDLESS, now=look.now):
        yield Case(f"record:{pk}", f"record {pk} waits until {until}")


HELD = f"""
SELECT min(r.id), COALESCE(min(r.breaker_id)::text, 'none')
  FROM jobs_backlogrecord r
  LEFT JOIN jobs_breaker b ON b.id = r.breaker_id
 WHERE r.status = {Status.WAITING} AND r.waiting_for = {WaitingFor.BREAKER}
   AND (b.id IS NULL OR b.probe_at IS NULL
        OR b.probe_at > %(now)s::timestamptz + %(longest_probe)s * interval '1 second'
        OR (b.probe_at < %(late_before)s AND b.trial_id IS NULL))
HAVING count(*) > 0
"""


@condition(
    "every breaker that holds records lets a trial through",
    "{}",
    f"`{PROGRAM} backlog retry ID` tries one; if that ends nothing, look at the logs of the workers",
    severity=Severity.PROBLEM,
    alert_where=lambda look: (HELD, _of_breakers(look)),
)
def stuck_at_breakers(look: Look) -> Iterator[Case]:
    """Records that wait for a breaker which is closed, gone, or tries nothing."""
    for pk, breaker in rows(HELD, **_of_breakers(look)):
        yield Case(f"breaker:{breaker}", f"record {pk} waits for breaker {breaker}, which lets none through")


def _of_breakers(look: Look) -> dict[str, Any]:
    longest = 2 * conf.breaker_longest_seconds()
    return {"now": look.now, "late_before": look.late_before, "longest_probe": longest}


# Nothing of the queue runs, no throttle caps the record, its exclusive key has no running record, and the fed queue is
# idle.
UNCLAIMED = f"""
SELECT min(r.id), min(q.name), min(r.run_after)
  FROM (SELECT DISTINCT served.name, %(feeds)s::jsonb ->> served.name AS feeds
          FROM jobs_worker
         CROSS JOIN LATERAL jsonb_object_keys(queues) AS served(name)
         WHERE stopped_at IS NULL AND heartbeat_at > %(alive_since)s) AS q
 CROSS JOIN LATERAL (
       SELECT id, run_after
         FROM jobs_backlogrecord b
        WHERE b.status = {Status.READY} AND b.queue = q.name AND b.lane = 0 AND b.run_after < %(late_before)s
          AND (b.closes_at IS NULL OR b.closes_at > %(now)s)
          AND NOT EXISTS (SELECT FROM jobs_backlogrecord x
                           WHERE x.exclusive_key = b.exclusive_key AND x.status = {Status.RUNNING})
        ORDER BY b.priority DESC, b.rank_day NULLS FIRST, b.tried_at NULLS FIRST, b.expected_seconds NULLS FIRST, b.id
        LIMIT 1) AS r
 WHERE NOT EXISTS (SELECT FROM jobs_hold)
   AND NOT EXISTS (SELECT FROM jobs_pausedqueue paused WHERE paused.name IN (q.name, q.feeds))
   AND NOT EXISTS (SELECT FROM jobs_backlogrecord b WHERE b.status = {Status.RUNNING} AND b.queue IN (q.name, q.feeds))
   AND NOT EXISTS (SELECT FROM jobs_backlogrecord b WHERE b.status = {Status.READY} AND b.queue = q.feeds)
HAVING count(*) > 0
"""


@condition(
    "ready records are claimed",
    "{}",
    "look at the logs of the workers that serve the queue, and start them again",
    severity=Severity.PROBLEM,
    alert_where=lambda look: (UNCLAIMED, _of_queues(look)),
)
def unclaimed(look: Look) -> Iterator[Case]:
    """A record that is ready for a minute at the head of a queue which is served and idle."""
    for pk, queue, since in rows(UNCLAIMED, **_of_queues(look)):
        yield Case(f"queue:{queue}", f"record {pk} in queue {queue} is ready, and no worker claims it", since)


def _of_queues(look: Look) -> dict[str, Any]:
    feeds = {name: rule.feeds for name, rule in conf.queue_rules().items()}
    alive_since = look.now - timedelta(seconds=conf.lease_seconds())
    return {
        "now": look.now,
        "late_before": look.late_before,
        "alive_since": alive_since,
        "feeds": json.dumps(feeds),
    }


UNCLOSED = f"""
SELECT id, closes_at
  FROM (SELECT id, closes_at FROM jobs_backlogrecord
         WHERE status = {Status.READY} AND closes_at IS NOT NULL ORDER BY closes_at LIMIT 1) AS first
 WHERE closes_at < %(late_before)s AND NOT EXISTS (SELECT FROM jobs_hold)
"""


@condition(
    "records are put off when their window has closed",
    "{}",
    "the workers do not tick; look at their logs",
    Severity.PROBLEM,
    lambda look: (UNCLOSED, {"late_before": look.late_before}),
)
def unclosed(look: Look) -> Iterator[Case]:
    """A ready record whose window closed a minute ago."""
    for pk, since in rows(UNCLOSED, late_before=look.late_before):
        yield Case(f"record:{pk}", f"the window of record {pk} has closed, and it is still ready", since)


FUTURE = f"""
SELECT 'worker:' || id, 'the heartbeat of worker ' || name FROM jobs_worker
 WHERE stopped_at IS NULL AND heartbeat_at > %(soon)s
UNION ALL
SELECT 'throttle:' || id, 'the tokens of throttle ' || name FROM jobs_throttle
 WHERE rate IS NOT NULL AND tokens_at > %(soon)s
UNION ALL
SELECT 'sweep:' || max_age_days, 'the sweep of ' || max_age_days || ' days' FROM jobs_sweep WHERE swept_at > %(soon)s
UNION ALL
SELECT 'records', 'the wait of record ' || min(r.id)
  FROM jobs_attempt t
  JOIN jobs_backlogrecord r ON r.id = t.record_id AND r.attempt = t.number
 WHERE t.ended_at > %(soon)s AND r.status = {Status.WAITING} AND r.run_after > %(soon)s
   AND r.waiting_for NOT IN ({WaitingFor.WINDOW}, {WaitingFor.SNOOZE}, {WaitingFor.SWEEP})
HAVING count(*) > 0
"""


@condition(
    "nothing in the queue is dated in the future",
    "dated in the future: {}",
    "a clock was ahead; these rows are corrected when that instant comes, or by hand",
    severity=Severity.PROBLEM,
    alert_where=lambda look: (FUTURE, {"soon": look.now + timedelta(minutes=1)}),
)
def future(look: Look) -> Iterator[Case]:
    """Instants that only a clock which was ahead can have written."""
    for subject, text in rows(FUTURE, soon=look.now + timedelta(minutes=1)):
        yield Case(subject, text)
