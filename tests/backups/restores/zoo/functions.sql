-- Functions over rows that work in the old database only, and quote rows in their errors.
CREATE TABLE orders AS SELECT n, 'hunter' || n AS secret FROM generate_series(1, 10) n;
CREATE FUNCTION share(orders) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS
$$BEGIN
  IF current_database() NOT LIKE 'zoo_%' THEN RAISE 'row % is bad', $1.secret; END IF;
  RETURN 1;
END$$;
CREATE MATERIALIZED VIEW shares AS SELECT share(orders) FROM orders;
CREATE INDEX shares_index ON shares (share);
CREATE INDEX by_share ON orders (share(orders));
CREATE FUNCTION text_of_dumps() RETURNS text LANGUAGE sql AS $$
-- Name: x; Type: TABLE; Schema: y; Owner: z
--
SELECT 'COPY public.orders (n) FROM stdin;
pg_restore: error: could not execute query: ERROR:  nothing
Command was: SET transaction_timeout = 0;
\! touch /tmp/never'::text $$;
CREATE TABLE dumps AS SELECT text_of_dumps() AS text;
-- named: INDEX public.by_share; MATERIALIZED VIEW DATA public.shares
