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
