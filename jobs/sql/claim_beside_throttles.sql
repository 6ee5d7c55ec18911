-- The claim beside throttles: jobs/throttles.py has the protocol and its reasons. Status: 1 ready, 2 running.

-- How many records each of `p_throttles` lets through (NULL: of all). All counts go once over the lanes and are summed by
-- throttle: counted by each throttle and lane, a claim beside 200 lanes with 2,000 running records took 5 s. What runs
-- is read from the index `backlog_running_lane`: reading the rows took twice as long; by lane and queue, as it is
-- sorted, since comparing the queue of each record with `p_feeding` costs more. What has answered and is ready in
-- `p_feeds`, the queue that the claim's queue feeds (NULL: none), is served by `backlog_claim_order`; 30 is
-- `throttles.AHEAD_SECONDS`. A bucket dated later than the present has seen the clock set back: without the lock,
-- under which a claim dates it anew, it does not count. Plain SQL, so that PostgreSQL plans it as a part of the claim.
CREATE OR REPLACE FUNCTION jobs_room(
    p_feeding text[], p_feeds text, p_present timestamptz, p_locked boolean, p_throttles bigint[] DEFAULT NULL)
RETURNS TABLE (throttle_id bigint, rate double precision, tokens double precision, room bigint)
LANGUAGE sql STABLE
AS $$
WITH in_lane AS MATERIALIZED (
    SELECT b.lane, b.queue, count(*) AS running, 0::bigint AS ready
      FROM jobs_backlogrecord b
     WHERE b.status = 2 AND b.lane <> 0
     GROUP BY b.lane, b.queue
 UNION ALL
    SELECT l.id, '', 0, answered.count
      FROM jobs_lane l
     CROSS JOIN LATERAL (
           SELECT count(*) AS count
             FROM jobs_backlogrecord b
            WHERE b.status = 1 AND b.queue = p_feeds AND b.lane = l.id) AS answered
     WHERE p_feeds IS NOT NULL
), in_throttle AS (
    SELECT named.id, sum(named.running)::bigint AS running, sum(named.ready)::bigint AS ready
      FROM (SELECT in_lane.running, in_lane.ready, unnest(l.throttle_ids) AS id
              FROM in_lane
              JOIN jobs_lane l ON l.id = in_lane.lane
             WHERE in_lane.queue <> ALL(p_feeding)) AS named
     WHERE p_throttles IS NULL OR named.id = ANY(p_throttles)
     GROUP BY named.id
), bucket AS (
    SELECT t.id, t.max_in_flight, t.rate, p_locked OR p_feeds IS NOT NULL OR t.tokens_at <= p_present AS counts,
           jobs_tokens(t.tokens, t.tokens_at, t.rate, t.burst, p_present) AS tokens
      FROM jobs_throttle t
     WHERE p_throttles IS NULL OR t.id = ANY(p_throttles)
)
SELECT b.id, b.rate, b.tokens,
       LEAST(b.max_in_flight + CASE WHEN p_feeds IS NULL THEN 0 ELSE (b.max_in_flight + 1) / 2 END
             - COALESCE(taken.running, 0),
             CASE WHEN b.counts THEN
             floor(b.tokens + CASE WHEN p_feeds IS NULL THEN 0 ELSE 30 * b.rate END)::bigint END)
       - COALESCE(taken.ready, 0)
  FROM bucket b
  LEFT JOIN in_throttle taken ON taken.id = b.id
$$;

-- Claims up to `p_limit` records of `p_queue` that every throttle lets through, but not from the lanes `p_tried`.
-- Returns them, or one row without a record, and in every row: the throttles that ready records of the queue name; and
-- the lanes that were tried, with `p_tried` if there are more with room; NULL if none has.
CREATE OR REPLACE FUNCTION jobs_claim_beside_throttles(
    p_queue text, p_limit integer, p_worker bigint, p_token uuid, p_lease double precision, p_feeding text[],
    p_feeds text, p_tried integer[], p_now timestamptz)
RETURNS TABLE (record jobs_backlogrecord, named_throttles bigint[], tried integer[])
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    lanes integer[];
    rated boolean := FALSE;
    wanted bigint[];
    present timestamptz := COALESCE(p_now, clock_timestamp());
BEGIN
    IF EXISTS (SELECT FROM jobs_pausedqueue WHERE name = p_queue) OR EXISTS (SELECT FROM jobs_hold WHERE id = 1) THEN
        RETURN;
    END IF;

    -- Without locks, so no more than a hint: the lanes that hold ready records and have room. One probe of
    -- `backlog_claim_order` a lane, however many records wait in it. The first `p_limit` records are in those lanes
    -- whose first ones are the first; only their throttles are locked.
    WITH first AS MATERIALIZED (
        SELECT l.id AS lane, l.throttle_ids, row_number() OVER (
                   ORDER BY b.priority DESC, b.rank_day ASC NULLS FIRST, b.tried_at ASC NULLS FIRST,
                            b.expected_seconds ASC NULLS FIRST, b.id) AS place
          FROM jobs_lane l
         CROSS JOIN LATERAL (
               SELECT b.priority, b.rank_day, b.tried_at, b.expected_seconds, b.id
                 FROM jobs_backlogrecord b
                WHERE b.status = 1 AND b.queue = p_queue AND b.lane = l.id
                  AND (b.closes_at IS NULL OR b.closes_at > present)
                ORDER BY b.priority DESC, b.rank_day ASC NULLS FIRST, b.tried_at ASC NULLS FIRST,
                         b.expected_seconds ASC NULLS FIRST, b.id
                LIMIT 1) AS b
    ), named AS MATERIALIZED (
        SELECT n.lane, n.place, n.id, room.room
          FROM (SELECT lane, place, unnest(throttle_ids) AS id FROM first) AS n
          LEFT JOIN jobs_room(p_feeding, p_feeds, present, FALSE) AS room ON room.throttle_id = n.id
    ), roomy AS (
        SELECT lane, place, id, room
          FROM named
         WHERE lane <> ALL(p_tried) AND lane NOT IN (SELECT lane FROM named WHERE room <= 0)
    ), open_lane AS (
        SELECT place, min(lane) AS lane
          FROM (SELECT lane, place, room, row_number() OVER (PARTITION BY id ORDER BY place) AS rank FROM roomy) AS ranked
         GROUP BY place
        HAVING bool_or(rank > room) IS NOT TRUE
         ORDER BY place
         LIMIT p_limit + 1
    )
    SELECT (array_agg(lane ORDER BY place))[1:p_limit], CASE WHEN count(*) > p_limit THEN p_tried END,
           ARRAY(SELECT DISTINCT id FROM named)
      INTO lanes, tried, named_throttles
      FROM open_lane;
    tried := tried || lanes;
    wanted := ARRAY(SELECT DISTINCT unnest(throttle_ids) FROM jobs_lane WHERE id = ANY(lanes));

    IF lanes IS NOT NULL AND p_feeds IS NULL THEN
        SELECT bool_or(locked.rate IS NOT NULL)
          INTO rated
          FROM (SELECT rate
                  FROM jobs_throttle
                 WHERE id = ANY(wanted)
                 ORDER BY id
                   FOR UPDATE) AS locked;
        -- The locks may have been waited for.
        IF EXISTS (SELECT FROM jobs_pausedqueue WHERE name = p_queue) OR EXISTS (SELECT FROM jobs_hold WHERE id = 1) THEN
            RETURN;
        END IF;
    END IF;

    -- A statement of its own after the locks: its snapshot shows what their last holder took, in flight and of tokens.
    present := COALESCE(p_now, clock_timestamp());
    RETURN QUERY
    WITH throttle AS MATERIALIZED (
        SELECT * FROM jobs_room(p_feeding, p_feeds, present, TRUE, wanted) WHERE lanes IS NOT NULL
    ), open_lane AS (
        SELECT 0 AS id, '{}'::bigint[] AS throttle_ids, p_limit::bigint AS room
     UNION ALL
        SELECT l.id, l.throttle_ids, LEAST(min(throttle.room), p_limit)
          FROM jobs_lane l
         CROSS JOIN LATERAL unnest(l.throttle_ids) AS named(id)
          LEFT JOIN throttle ON throttle.throttle_id = named.id
         WHERE l.id = ANY(lanes)
         GROUP BY l.id
    ), head AS MATERIALIZED (
        SELECT h.*, o.throttle_ids
          FROM open_lane o
         CROSS JOIN LATERAL (
               SELECT b.ctid AS place, b.id, b.priority, b.rank_day, b.tried_at, b.expected_seconds
                 FROM jobs_backlogrecord b
                WHERE b.status = 1 AND b.queue = p_queue AND b.lane = o.id
                  AND (b.closes_at IS NULL OR b.closes_at > present)
                ORDER BY b.priority DESC, b.rank_day ASC NULLS FIRST, b.tried_at ASC NULLS FIRST,
                         b.expected_seconds ASC NULLS FIRST, b.id
                LIMIT GREATEST(o.room, 0)
                  FOR UPDATE SKIP LOCKED) AS h
    ), too_many AS (
        SELECT ranked.id
          FROM (SELECT head.id, throttle.room,
                       row_number() OVER (
                           PARTITION BY throttle.throttle_id
                           ORDER BY head.priority DESC, head.rank_day ASC NULLS FIRST, head.tried_at ASC NULLS FIRST,
                                    head.expected_seconds ASC NULLS FIRST, head.id) AS rank
                  FROM head
                 CROSS JOIN LATERAL unnest(head.throttle_ids) AS named(id)
                  JOIN throttle ON throttle.throttle_id = named.id) AS ranked
         WHERE ranked.rank > ranked.room
    ), claimed AS (
        UPDATE jobs_backlogrecord
           SET status = 2, attempt = attempt + 1, started_at = present, leased_by_id = p_worker,
               lease_token = p_token, lease_expires_at = present + p_lease * interval '1 second'
         WHERE status = 1
           AND ctid = ANY(ARRAY(
               SELECT head.place
                 FROM head
                WHERE head.id NOT IN (SELECT too_many.id FROM too_many)
                ORDER BY head.priority DESC, head.rank_day ASC NULLS FIRST, head.tried_at ASC NULLS FIRST,
                         head.expected_seconds ASC NULLS FIRST, head.id
                LIMIT p_limit))
        RETURNING jobs_backlogrecord
    ), spent AS (
        SELECT named.id, count(*) AS count
          FROM claimed
          JOIN jobs_lane l ON l.id = (claimed.jobs_backlogrecord).lane
         CROSS JOIN LATERAL unnest(l.throttle_ids) AS named(id)
         GROUP BY named.id
    ), paid AS (
        UPDATE jobs_throttle
           SET tokens_at = present, tokens = throttle.tokens - COALESCE(spent.count, 0)
          FROM throttle
          LEFT JOIN spent ON spent.id = throttle.throttle_id
         WHERE rated AND throttle.rate IS NOT NULL
           AND jobs_throttle.id = throttle.throttle_id
    )
    SELECT claimed.jobs_backlogrecord, named_throttles, tried
      FROM (SELECT) AS one
      LEFT JOIN claimed ON TRUE;
END
$$;
