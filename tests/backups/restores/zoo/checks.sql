-- Rows that a CHECK keeps out of a new table. The first one lets them in once the other table is filled.
CREATE TABLE orders AS SELECT n FROM generate_series(1, 10) n;
CREATE FUNCTION is_filled() RETURNS boolean LANGUAGE sql AS 'SELECT count(*) > 5 FROM public.orders';
CREATE TABLE checked (n integer CHECK (is_filled()));
INSERT INTO checked VALUES (11), (12);
CREATE TABLE here (secret text CHECK (current_database() LIKE 'zoo_%'));
INSERT INTO here VALUES ('hunter2');
CREATE TABLE later (secret text);
INSERT INTO later VALUES ('hunter2');
ALTER TABLE later ADD CHECK (now() < '2026-01-01'::timestamptz) NOT VALID;
-- named: TABLE DATA public.here
-- doubtful: TABLE DATA public.here
