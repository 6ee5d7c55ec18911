-- What comes back whole: one of each kind.
CREATE SCHEMA "Odd ""schema";
CREATE TYPE mood AS ENUM ('sad', 'o''k', 'happy');
CREATE DOMAIN email AS text CHECK (VALUE LIKE '%@%');
CREATE TYPE pair AS (a integer, b text);
CREATE TYPE span AS RANGE (subtype = integer);
CREATE SEQUENCE counter START 5 INCREMENT 3;
SELECT nextval('counter'), nextval('counter');
CREATE TABLE "Odd ""schema"."odd ""table" ("col (a)" integer PRIMARY KEY, "b,c" text COLLATE "C");
INSERT INTO "Odd ""schema"."odd ""table" VALUES (1, E'line\nline\t\\.'), (2, NULL), (3, '');
CREATE TABLE people (
  id integer GENERATED ALWAYS AS IDENTITY (START 100) PRIMARY KEY, mail email, mood mood DEFAULT 'sad', pairs pair[],
  twice integer GENERATED ALWAYS AS (age * 2) STORED, age integer NOT NULL DEFAULT nextval('counter'), during span,
  UNIQUE (mail), EXCLUDE USING gist (during WITH &&)
);
INSERT INTO people (mail, pairs, during) SELECT n || '@x', ARRAY[ROW(n, 'b')::pair], span(n, n + 1)
  FROM generate_series(1, 50) n;
CREATE TABLE orders (id bigserial PRIMARY KEY, person integer REFERENCES people ON DELETE CASCADE DEFERRABLE);
INSERT INTO orders (person) SELECT 100 + n FROM generate_series(0, 49) n;
CREATE TABLE measures (at date NOT NULL, value numeric) PARTITION BY RANGE (at);
CREATE TABLE measures_1 PARTITION OF measures FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');
CREATE TABLE measures_rest PARTITION OF measures DEFAULT;
CREATE INDEX measures_at ON measures (at);
INSERT INTO measures SELECT date '2025-12-01' + n, n FROM generate_series(1, 60) n;
CREATE TABLE animals (name text);
CREATE TABLE dogs (age integer) INHERITS (animals);
INSERT INTO animals VALUES ('cat'); INSERT INTO dogs VALUES ('dog', 3);
CREATE UNLOGGED TABLE cached AS SELECT 1 AS n;
CREATE VIEW adults WITH (security_barrier) AS SELECT * FROM people WHERE age > 18;
CREATE MATERIALIZED VIEW totals AS SELECT count(*) FROM people;
CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER stamped BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION stamp();
CREATE RULE quiet AS ON DELETE TO orders WHERE OLD.id < 0 DO INSTEAD NOTHING;
CREATE PROCEDURE tidy() LANGUAGE sql AS 'DELETE FROM public.cached';
CREATE AGGREGATE total (integer) (SFUNC = int4pl, STYPE = integer);
CREATE OPERATOR === (LEFTARG = integer, RIGHTARG = integer, FUNCTION = int4eq);
CREATE CAST (mood AS integer) WITH INOUT;
CREATE STATISTICS people_stats ON age, mood FROM people;
CREATE TEXT SEARCH CONFIGURATION simple_copy (COPY = simple);
ALTER TABLE people ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY of_adults ON people USING (age > 0);
SELECT lo_from_bytea(20000, '\x00ff5c2e'), lo_from_bytea(20001, decode(repeat('ab', 100000), 'hex'));
COMMENT ON TABLE people IS 'line
\! line; pg_restore: error: nothing';
COMMENT ON COLUMN people.age IS 'in years';
ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC;
REVOKE ALL ON FUNCTION stamp() FROM PUBLIC;

CREATE COLLATION plain FROM "C";
CREATE TABLE words (word text COLLATE plain, posix text COLLATE "POSIX");
INSERT INTO words VALUES ('ä', 'b');
