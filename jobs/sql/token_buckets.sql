-- What lies in a bucket at an instant; NULL without a rate. A clock that was set back adds nothing.
CREATE OR REPLACE FUNCTION jobs_tokens(
    p_tokens double precision, p_tokens_at timestamptz, p_rate double precision, p_burst integer,
    p_present timestamptz)
RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
SELECT CASE WHEN p_rate IS NOT NULL THEN
       LEAST(COALESCE(p_burst, GREATEST(1, p_rate)),
             p_tokens + p_rate * GREATEST(0, extract(epoch FROM p_present - p_tokens_at)::double precision))
       END
$$;

-- A new bucket is full; one that gets its first rate by an edit is empty. Whatever the edit, what flowed in by the old
-- rate is counted, and no tokens are written but these: those that a program read are old. An edit wakes the workers. A
-- claim updates no column that is named here. NaN and infinity are above a million; they would make every claim fail.
CREATE OR REPLACE FUNCTION jobs_throttle_edited() RETURNS trigger
LANGUAGE plpgsql
AS $$
DECLARE
    present CONSTANT timestamptz := clock_timestamp();
    kept double precision := 'infinity';
BEGIN
    IF NEW.rate > 1000000 THEN
        RAISE check_violation USING MESSAGE = 'the rate of a throttle is a number up to 1000000, not ' || NEW.rate;
    END IF;
    IF TG_OP = 'UPDATE' THEN
        kept := COALESCE(jobs_tokens(OLD.tokens, OLD.tokens_at, OLD.rate, OLD.burst, present), 0);
        IF (NEW.max_in_flight, NEW.rate, NEW.burst) IS DISTINCT FROM (OLD.max_in_flight, OLD.rate, OLD.burst) THEN
            PERFORM pg_notify('jobs_ready', '*');
        END IF;
    END IF;
    NEW.tokens := COALESCE(jobs_tokens(kept, present, NEW.rate, NEW.burst, present), 0);
    NEW.tokens_at := present;
    RETURN NEW;
END
$$;
CREATE OR REPLACE TRIGGER throttle_edited BEFORE INSERT OR UPDATE OF name, max_in_flight, rate, burst ON jobs_throttle
   FOR EACH ROW EXECUTE FUNCTION jobs_throttle_edited();
