"""The statements of the emitter, together since they share one order of locks: schedules, then triggers, then records.
Rows that are locked are skipped, and looked at again at the next tick.
"""

from jobs.states import UNFINISHED, Status, WaitingFor
from schedules.models import Overlap

_UNFINISHED = ", ".join(str(status.value) for status in UNFINISHED)

# A batch that was begun with a count is counted to its end, however its schedule has changed since.
_PROVIDED = "(s.provider <> '' AND t.frozen_config IS NULL)"

# Existing triggers are left alone, except a provider's: the provider is asked again, and emits the records that are
# missing. A batch in the middle of its chunks does not count as a provider's.
INTEND = """
INSERT INTO schedules_trigger AS known
       (schedule_id, trigger_at, seen_at, events, skipped_for, finished_at, asked_by)
SELECT r.schedule_id, r.trigger_at, %(now)s::timestamptz, 0, r.skipped_for,
       CASE WHEN r.skipped_for <> '' THEN %(now)s::timestamptz END, ''
  FROM ROWS FROM (unnest(%(schedule_id)s::bigint[]), unnest(%(trigger_at)s::timestamptz[]),
                  unnest(%(skipped_for)s::text[]))
       WITH ORDINALITY AS r(schedule_id, trigger_at, skipped_for, number)
 ORDER BY r.number
    ON CONFLICT (schedule_id, trigger_at) DO UPDATE
   SET events = 0, emitted_at = NULL, finished_at = NULL, skipped_for = '', frozen_config = NULL
 WHERE known.schedule_id = ANY(%(asked_again)s::bigint[])
   AND (known.frozen_config IS NULL OR known.emitted_at IS NOT NULL)
"""

MOVE_WATERMARKS = """
UPDATE schedules_schedule s
   SET next_trigger_at = r.next_trigger_at
  FROM unnest(%(schedule_id)s::bigint[], %(next_trigger_at)s::timestamptz[]) AS r(schedule_id, next_trigger_at)
 WHERE s.origin_id = r.schedule_id
"""

# Served by `trigger_unfinished`, as is the next one.
WHAT_IS_UNEMITTED = f"""
SELECT bool_or({_PROVIDED}), bool_or(NOT {_PROVIDED}),
       array_agg(DISTINCT s.origin_id) FILTER (WHERE s.overlap <> '{Overlap.ALLOW}' AND t.events = 0)
  FROM schedules_trigger t
  JOIN schedules_schedule s ON s.origin_id = t.schedule_id
 WHERE t.finished_at IS NULL AND t.emitted_at IS NULL
   AND (%(only)s::bigint[] IS NULL OR t.id = ANY(%(only)s::bigint[]))
"""

# The condition for a schedule whose batches do not overlap: another one is under way, or is before this one in the
# queue.
WAITS = """
       EXISTS (
       SELECT
         FROM schedules_trigger other
        WHERE other.schedule_id = t.schedule_id AND other.finished_at IS NULL AND other.id <> t.id
          AND (other.emitted_at IS NOT NULL OR other.events > 0 OR other.trigger_at < t.trigger_at))
"""

# The least emitted first: a huge batch takes turns with the small ones. Triggers on time come before those caught up.
UNEMITTED = f"""
SELECT t.id, t.schedule_id, t.trigger_at, t.seen_at, t.events, t.frozen_config
  FROM schedules_trigger t
  JOIN schedules_schedule s ON s.origin_id = t.schedule_id
 WHERE t.finished_at IS NULL AND t.emitted_at IS NULL AND {_PROVIDED} = %(provided)s::boolean
   AND (t.events > 0 OR s.overlap = '{Overlap.ALLOW}' OR NOT {WAITS})
   AND t.id <> ALL(%(set_aside)s::bigint[])
   AND (%(only)s::bigint[] IS NULL OR t.id = ANY(%(only)s::bigint[]))
 ORDER BY t.events, t.seen_at - t.trigger_at > %(on_time_for)s::interval, t.trigger_at, t.id
 LIMIT %(limit)s
   FOR NO KEY UPDATE OF t, s SKIP LOCKED
"""

# Asked again once the schedules are locked: a batch that began between the first question and the locks is seen now.
WAITING = f"""
SELECT t.id
  FROM schedules_trigger t
  JOIN schedules_schedule s ON s.origin_id = t.schedule_id
 WHERE t.id = ANY(%(ids)s::bigint[]) AND t.events = 0 AND s.overlap <> '{Overlap.ALLOW}' AND {WAITS}
"""

# Served by `trigger_unfinished`. Triggers that a user asked for stay, and those that are being emitted are locked.
TOO_LONG_QUEUED = """
SELECT t.id, t.schedule_id, t.trigger_at, t.seen_at, t.events
  FROM unnest(%(schedule_ids)s::bigint[]) AS s(id)
 CROSS JOIN LATERAL (
       SELECT id
         FROM schedules_trigger
        WHERE schedule_id = s.id AND finished_at IS NULL AND emitted_at IS NULL AND events = 0 AND asked_by = ''
        ORDER BY trigger_at DESC
       OFFSET %(longest)s) AS early
  JOIN schedules_trigger t ON t.id = early.id
   FOR NO KEY UPDATE OF t SKIP LOCKED
"""

# Triggers that have waited for longer than their schedule makes up for. Those that a user asked for have no such limit.
EXPIRED_IN_QUEUE = f"""
SELECT t.id, t.schedule_id, t.trigger_at, t.seen_at, t.events
  FROM schedules_trigger t
  JOIN schedules_schedule s ON s.origin_id = t.schedule_id
 WHERE t.schedule_id = ANY(%(schedule_ids)s::bigint[]) AND t.finished_at IS NULL AND t.emitted_at IS NULL
   AND t.events = 0 AND t.asked_by = '' AND s.overlap = '{Overlap.QUEUE}'
   AND t.seen_at < %(now)s::timestamptz - %(on_time_for)s::interval
   AND t.trigger_at < %(now)s::timestamptz
                      - GREATEST(s.catch_up_for * interval '1 second', %(on_time_for)s::interval)
   AND s.catch_up_for IS NOT NULL
 ORDER BY t.id
 LIMIT 1000
   FOR NO KEY UPDATE OF t SKIP LOCKED
"""

# If events of a trigger are out already, these are its batch.
SKIP = """
UPDATE schedules_trigger t
   SET skipped_for = CASE WHEN t.events = 0 THEN r.reason ELSE '' END,
       emitted_at = CASE WHEN t.events > 0 THEN %(now)s::timestamptz END,
       finished_at = CASE WHEN t.events = 0 THEN %(now)s::timestamptz END,
       frozen_config = NULL
  FROM unnest(%(id)s::bigint[], %(reason)s::text[]) AS r(id, reason)
 WHERE t.id = r.id
"""

# The payloads come as one JSON array: the server takes them apart in a fraction of the time that adapting the elements
# of an array one by one takes here. The order of insertion is the claim's "prior order".
INSERT_EVENTS = f"""
INSERT INTO jobs_backlogrecord
       (kind, queue, subject, payload, status, waiting_for, run_after, closes_at, priority, failures, last_error,
        attempt, origin_id, trigger_at, retry_policy_id, lane)
SELECT b.kind, b.queue, b.event_ids || r.number, r.payload,
       CASE WHEN b.begins_at + r.milliseconds * interval '1 millisecond' > %(now)s::timestamptz
            THEN {Status.WAITING} ELSE {Status.READY} END,
       CASE WHEN b.begins_at + r.milliseconds * interval '1 millisecond' > %(now)s::timestamptz
            THEN {WaitingFor.START} END,
       b.begins_at + r.milliseconds * interval '1 millisecond', b.closes_at, b.priority, 0, '', 0,
       b.schedule_id, b.trigger_at, b.retry_policy_id, b.lane
  FROM ROWS FROM (jsonb_array_elements(%(payloads)s::jsonb), unnest(%(batches)s::int[]), unnest(%(numbers)s::int[]),
                  unnest(%(milliseconds)s::bigint[]))
       WITH ORDINALITY AS r(payload, batch, number, milliseconds, place)
  JOIN ROWS FROM (unnest(%(kind)s::text[]), unnest(%(queue)s::text[]), unnest(%(event_ids)s::text[]),
                  unnest(%(begins_at)s::timestamptz[]), unnest(%(closes_at)s::timestamptz[]),
                  unnest(%(priority)s::int[]), unnest(%(schedule_id)s::bigint[]), unnest(%(trigger_at)s::timestamptz[]),
                  unnest(%(retry_policy_id)s::bigint[]), unnest(%(lane)s::int[]))
       WITH ORDINALITY
       AS b(kind, queue, event_ids, begins_at, closes_at, priority, schedule_id, trigger_at, retry_policy_id, lane,
            batch)
    ON b.batch = r.batch
 ORDER BY r.place
    ON CONFLICT DO NOTHING
"""

STORE_STEPS = """
UPDATE schedules_trigger t
   SET events = r.events, closes_at = r.closes_at, seen_at = r.seen_at, begins_at = r.begins_at,
       stagger = r.stagger, late = r.late,
       frozen_config = CASE WHEN NOT r.complete THEN COALESCE(t.frozen_config, r.frozen_config) END,
       emitted_at = CASE WHEN r.complete THEN %(now)s::timestamptz END,
       finished_at = CASE WHEN r.complete AND r.events = 0 THEN %(now)s::timestamptz END
  FROM unnest(%(id)s::bigint[], %(events)s::int[], %(closes_at)s::timestamptz[], %(seen_at)s::timestamptz[],
              %(begins_at)s::timestamptz[], %(stagger)s::text[], %(late)s::text[], %(frozen_config)s::jsonb[],
              %(complete)s::boolean[])
       AS r(id, events, closes_at, seen_at, begins_at, stagger, late, frozen_config, complete)
 WHERE t.id = r.id
"""

# Served by `one_record_per_trigger_and_subject`, as are the next two. ORDER BY keeps the planner at it.
COUNT_RECORDS = """
SELECT r.trigger_id, found.count
  FROM unnest(%(id)s::bigint[], %(schedule_id)s::bigint[], %(trigger_at)s::timestamptz[])
       AS r(trigger_id, schedule_id, trigger_at)
 CROSS JOIN LATERAL (
       SELECT count(*)
         FROM jobs_backlogrecord b
        WHERE b.origin_id = r.schedule_id AND b.trigger_at = r.trigger_at) AS found
"""

# The last by its subject: of events that are delivered in their order, one of the last to end.
FIND_WITNESSES = f"""
SELECT t.id, witness.id
  FROM schedules_trigger t
  LEFT JOIN LATERAL (
       SELECT b.id
         FROM jobs_backlogrecord b
        WHERE b.origin_id = t.schedule_id AND b.trigger_at = t.trigger_at AND b.status IN ({_UNFINISHED})
        ORDER BY b.subject DESC
        LIMIT 1) AS witness ON TRUE
 WHERE t.id = ANY(%(ids)s::bigint[])
"""

STILL_UNFINISHED = f"""
SELECT id FROM jobs_backlogrecord WHERE id = ANY(%(ids)s::bigint[]) AND status IN ({_UNFINISHED})
"""

# Records that wait beyond their close, such as in a backoff. Ready ones have their own index (`jobs.window_ends`).
LATE = f"""
SELECT b.id, t.id
  FROM schedules_trigger t
  JOIN jobs_backlogrecord b ON b.origin_id = t.schedule_id AND b.trigger_at = t.trigger_at
 WHERE t.id = ANY(%(ids)s::bigint[]) AND b.status = {Status.WAITING} AND b.closes_at <= %(now)s::timestamptz
   AND b.kind = ANY(%(without_windows)s::text[])
 ORDER BY b.id
 LIMIT %(limit)s
   FOR UPDATE OF b SKIP LOCKED
"""

PROGRESS = f"""
SELECT r.trigger_id,
       count(b.id) FILTER (WHERE b.status = {Status.WAITING}),
       count(b.id) FILTER (WHERE b.status = {Status.READY}),
       count(b.id) FILTER (WHERE b.status = {Status.RUNNING}),
       count(b.id) FILTER (WHERE b.status = {Status.SUCCEEDED}),
       count(b.id) FILTER (WHERE b.status = {Status.FAILED}),
       count(b.id) FILTER (WHERE b.status = {Status.CANCELLED})
  FROM unnest(%(id)s::bigint[], %(schedule_id)s::bigint[], %(trigger_at)s::timestamptz[])
       AS r(trigger_id, schedule_id, trigger_at)
  JOIN jobs_backlogrecord b ON b.origin_id = r.schedule_id AND b.trigger_at = r.trigger_at
 GROUP BY r.trigger_id
"""

PRUNE = """
DELETE FROM schedules_trigger
 WHERE ctid = ANY(ARRAY(
       SELECT ctid
         FROM schedules_trigger
        WHERE trigger_at < %(before)s AND finished_at < %(before)s
        ORDER BY trigger_at
        LIMIT %(limit)s
          FOR UPDATE SKIP LOCKED))
"""
