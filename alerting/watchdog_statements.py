"""The invariants that are looked at in the tables, each as rows of (kind, subject, policy, name, since, text).

`late_before`: what should have happened before then and has not is late; null for a while after no process looked, when
nothing is. An invariant is one row, with an example, or a row for each schedule.
"""

from typing import Final

from alerting.models import AlertKind
from jobs.states import UNFINISHED, Status, WaitingFor

MOST_SCHEDULES: Final = 100
LONGEST_WAIT: Final = "750 days"
"""Two years are the longest that a window stays closed; nothing else waits for longer."""

_UNFINISHED = ", ".join(str(int(status)) for status in UNFINISHED)


def _utc(column: str) -> str:
    return f"to_char({column} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') || ' UTC'"


def _broken(subject: str, name: str, since: str, text: str, rest: str) -> str:
    return f"SELECT '{AlertKind.WATCHDOG}', 'watchdog:{subject}', NULL::bigint, '{name}', {since}, {text}\n{rest}"


SCHEDULES: Final = f"""
(SELECT '{AlertKind.SCHEDULE}', 'schedule:' || s.origin_id, p.id, o.name, s.next_trigger_at,
       CASE WHEN s.next_trigger_at IS NULL THEN 'it has no next trigger'
            WHEN s.next_trigger_at < %(late_before)s
            THEN 'it should have fired at ' || {_utc("s.next_trigger_at")}
            ELSE 'its next trigger is ' || {_utc("s.next_trigger_at")} || ', beyond that of its cron' END
  FROM schedules_schedule s
  JOIN jobs_origin o ON o.id = s.origin_id
  LEFT JOIN sources_policy p ON p.schedule_id = s.origin_id
  LEFT JOIN unnest(%(schedules)s::bigint[], %(next_at)s::timestamptz[]) AS n(schedule_id, next_at)
    ON n.schedule_id = s.origin_id
 WHERE s.enabled
   AND (s.next_trigger_at IS NULL OR s.next_trigger_at < %(late_before)s OR s.next_trigger_at > n.next_at)
 ORDER BY s.origin_id
 LIMIT {MOST_SCHEDULES})
"""

# An unemitted trigger of a schedule that queues may wait for the batch before it.
TRIGGERS: Final = f"""
(SELECT '{AlertKind.SCHEDULE}', 'trigger:' || t.id, NULL::bigint, o.name, t.seen_at,
       'its trigger of ' || {_utc("t.trigger_at")} || ' puts nothing on the backlog'
  FROM schedules_trigger t
  JOIN schedules_schedule s ON s.origin_id = t.schedule_id
  JOIN jobs_origin o ON o.id = s.origin_id
 WHERE t.finished_at IS NULL AND t.emitted_at IS NULL AND t.events = 0 AND s.overlap <> 'queue' AND s.enabled
   AND t.seen_at < %(late_before)s
 ORDER BY t.id
 LIMIT {MOST_SCHEDULES})
"""

UNPROMOTED: Final = _broken(
    "unpromoted", "records are not made ready", "r.run_after", "'record #' || r.id || ' should be ready since then'",
    f"""
  FROM (SELECT id, run_after FROM jobs_backlogrecord
         WHERE status = {Status.WAITING} ORDER BY run_after LIMIT 1) AS r
 WHERE r.run_after < %(late_before)s""",
)  # fmt: skip

ENDLESS: Final = _broken(
    "endless", "a record waits without an end", "NULL::timestamptz",
    "'record #' || r.id || ' waits until ' || r.run_after::text",
    f"""
  FROM (SELECT id, run_after FROM jobs_backlogrecord
         WHERE status = {Status.WAITING} ORDER BY run_after DESC LIMIT 1) AS r
 WHERE r.run_after > %(now)s::timestamptz + interval '{LONGEST_WAIT}'""",
)  # fmt: skip

HELD: Final = _broken(
    "held", "records wait for a breaker that lets none through", "NULL::timestamptz",
    "'record #' || min(r.id) || ' waits for breaker ' || COALESCE(min(r.breaker_id)::text, 'none')",
    f"""
  FROM jobs_backlogrecord r
  LEFT JOIN jobs_breaker b ON b.id = r.breaker_id
 WHERE r.status = {Status.WAITING} AND r.waiting_for = {WaitingFor.BREAKER}
   AND (b.id IS NULL OR b.probe_at IS NULL
        OR b.probe_at > %(now)s::timestamptz + %(longest_probe)s * interval '1 second'
        OR (b.probe_at < %(late_before)s AND b.trial_id IS NULL))
HAVING count(*) > 0""",
)  # fmt: skip

# Nothing of the queue runs, no throttle caps the record, nothing of its exclusive key runs, and what it feeds is idle.
UNCLAIMED: Final = _broken(
    "unclaimed", "ready records are not claimed", "min(r.run_after)",
    "'record #' || min(r.id) || ' in queue ' || min(q.name)",
    f"""
  FROM unnest(%(served)s::text[], %(fed)s::text[]) AS q(name, feeds)
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
HAVING count(*) > 0""",
)  # fmt: skip

# One probe of `backlog_claim_order` a queue.
UNSERVED: Final = _broken(
    "unserved", "no worker serves a queue that has ready records", "NULL::timestamptz", "string_agg(queue, ', ')",
    f"""
  FROM (WITH RECURSIVE found AS (
            (SELECT queue FROM jobs_backlogrecord WHERE status = {Status.READY} ORDER BY queue LIMIT 1)
            UNION ALL
            SELECT (SELECT b.queue FROM jobs_backlogrecord b
                     WHERE b.status = {Status.READY} AND b.queue > found.queue ORDER BY b.queue LIMIT 1)
              FROM found WHERE found.queue IS NOT NULL)
        SELECT queue FROM found WHERE queue IS NOT NULL) AS queues
 WHERE %(is_late)s AND queue <> ALL(%(served)s::text[])
HAVING count(*) > 0""",
)  # fmt: skip

UNCLOSED: Final = _broken(
    "unclosed", "windows that have closed are not closed", "min(r.closes_at)", "'record #' || min(r.id)",
    f"""
  FROM (SELECT id, closes_at FROM jobs_backlogrecord
         WHERE status = {Status.READY} AND closes_at IS NOT NULL ORDER BY closes_at LIMIT 1) AS r
 WHERE r.closes_at < %(late_before)s AND NOT EXISTS (SELECT FROM jobs_hold)
HAVING count(*) > 0""",
)  # fmt: skip

# A rescue waits until it has seen a lease unchanged for nearly a lease.
LEASES: Final = _broken(
    "leases", "a lease has ended, or has no end", "NULL::timestamptz",
    "'record #' || min(r.id) || ' is leased until ' || min(r.lease_expires_at)::text",
    f"""
  FROM ((SELECT id, lease_expires_at FROM jobs_backlogrecord
          WHERE status = {Status.RUNNING} ORDER BY lease_expires_at LIMIT 1)
        UNION ALL
        (SELECT id, lease_expires_at FROM jobs_backlogrecord
          WHERE status = {Status.RUNNING} ORDER BY lease_expires_at DESC LIMIT 1)) AS r
 WHERE r.lease_expires_at < %(late_before)s::timestamptz - %(lease)s * interval '2 seconds'
    OR r.lease_expires_at > %(now)s::timestamptz + %(lease)s * interval '2 seconds'
HAVING count(*) > 0""",
)  # fmt: skip

DUE: Final = _broken(
    "due", "due assignments have no record", "NULL::timestamptz",
    "count(*) || ', as that of ' || min(s.name)",
    f"""
  FROM unnest(%(schedules)s::bigint[], %(began)s::timestamptz[]) AS n(schedule_id, began)
  JOIN sources_policy p ON p.schedule_id = n.schedule_id
  JOIN sources_assignment a ON a.policy_id = p.id
  JOIN sources_source s ON s.id = a.source_id
 WHERE s.paused_at IS NULL AND s.retired_at IS NULL
   AND (a.next_backup_at IS NULL OR a.next_backup_at < %(late_before)s) AND a.inserted_at < %(late_before)s
   AND NOT EXISTS (
       SELECT FROM jobs_backlogrecord b
        WHERE b.kind = 'backup' AND b.subject = 'assignment:' || a.id AND b.status IN ({_UNFINISHED}))
   AND NOT EXISTS (
       SELECT FROM jobs_backlogrecord b
        WHERE b.origin_id = n.schedule_id AND b.trigger_at = n.began AND b.subject = 'assignment:' || a.id)
HAVING count(*) > 0""",
)  # fmt: skip

DATES: Final = _broken(
    "dates", "dates of assignments cannot be right", "NULL::timestamptz",
    "count(*) || ', as those of ' || min(s.name)",
    """
  FROM unnest(%(schedules)s::bigint[], %(next_at)s::timestamptz[]) AS n(schedule_id, next_at)
  JOIN sources_policy p ON p.schedule_id = n.schedule_id
  JOIN sources_assignment a ON a.policy_id = p.id
  JOIN sources_source s ON s.id = a.source_id
 WHERE s.paused_at IS NULL AND s.retired_at IS NULL
   AND (a.next_backup_at > n.next_at
        OR a.last_backup_at > %(now)s::timestamptz + interval '1 hour'
        OR a.overdue_since > %(now)s::timestamptz + interval '1 hour'
        OR a.drill_planned_at > %(now)s::timestamptz + interval '1 hour'
        OR a.to_copy_since > %(now)s::timestamptz + interval '1 hour')
HAVING count(*) > 0""",
)  # fmt: skip

FUTURE: Final = _broken(
    "future", "something is dated in the future", "NULL::timestamptz", "string_agg(f.what, '; ')",
    f"""
  FROM (SELECT 'the heartbeat of worker ' || name FROM jobs_worker
         WHERE stopped_at IS NULL AND heartbeat_at > %(now)s::timestamptz + interval '1 minute'
        UNION ALL
        SELECT 'the tokens of throttle ' || name FROM jobs_throttle
         WHERE rate IS NOT NULL AND tokens_at > %(now)s::timestamptz + interval '1 minute'
        UNION ALL
        SELECT 'the sweep of ' || max_age_days || ' days' FROM jobs_sweep
         WHERE swept_at > %(now)s::timestamptz + interval '1 minute'
        UNION ALL
        SELECT 'the check of assignment ' || min(assignment_id) FROM sources_checkround
         WHERE planned_at > %(now)s::timestamptz + interval '1 hour' HAVING count(*) > 0
        UNION ALL
        SELECT 'the copy of assignment ' || min(assignment_id) FROM sources_copy
         WHERE planned_at > %(now)s::timestamptz + interval '1 hour' HAVING count(*) > 0
        UNION ALL
        SELECT 'the wait of record #' || min(r.id) FROM jobs_attempt t
          JOIN jobs_backlogrecord r ON r.id = t.record_id AND r.attempt = t.number
         WHERE t.ended_at > %(now)s::timestamptz + interval '1 minute' AND r.status = {Status.WAITING}
           AND r.waiting_for NOT IN ({WaitingFor.WINDOW}, {WaitingFor.SNOOZE}, {WaitingFor.SWEEP})
           AND r.run_after > %(now)s::timestamptz + interval '1 minute'
        HAVING count(*) > 0
        UNION ALL
        SELECT 'the last prune of repository ' || name FROM sources_repository
         WHERE pruned_at > %(now)s::timestamptz + interval '1 hour'
        ) AS f(what)
HAVING count(*) > 0""",
)  # fmt: skip

NO_WORKER: Final = _broken(
    "no_worker", "no worker is alive", "max(heartbeat_at)",
    "'nothing is backed up: start a worker, or look at its log'",
    """
  FROM jobs_worker
HAVING %(is_late)s AND COALESCE(max(heartbeat_at) FILTER (WHERE stopped_at IS NULL), '-infinity')
       <= %(silent_before)s::timestamptz""",
)  # fmt: skip

PERIODIC: Final = _broken(
    "periodic", "the periodic tasks do not run", "max(stopped)",
    f"'the last tick of qcluster was ' || COALESCE({_utc('max(stopped)')}, 'never') || ': start it, or see its log'",
    """
  FROM django_q_task
 WHERE func = 'jobs.periodic.tick' AND success
HAVING %(is_late)s AND COALESCE(max(stopped), '-infinity') < %(ticked_before)s::timestamptz""",
)  # fmt: skip

ALL: Final = (
    SCHEDULES, TRIGGERS, UNPROMOTED, ENDLESS, HELD, UNCLAIMED, UNSERVED, UNCLOSED, LEASES, DUE, DATES, FUTURE,
    NO_WORKER, PERIODIC,
)  # fmt: skip
