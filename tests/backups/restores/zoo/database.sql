-- The database itself: encoding, owner, rights, comment, limit, settings, also of a role in it.
-- first: CREATE ROLE zoo_owner; CREATE ROLE zoo_reader LOGIN
-- database: CREATE DATABASE zoo_database OWNER zoo_owner ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0 CONNECTION LIMIT 7
SET client_encoding = 'UTF8';
CREATE TABLE words AS SELECT 'grün' AS word;
COMMENT ON DATABASE zoo_database IS 'it''s grün';
REVOKE ALL ON DATABASE zoo_database FROM PUBLIC;
GRANT CONNECT ON DATABASE zoo_database TO zoo_reader WITH GRANT OPTION;
ALTER DATABASE zoo_database SET search_path = "$user", public, 'it''s';
ALTER DATABASE zoo_database SET my.setting = 'a, "b"';
ALTER ROLE zoo_reader IN DATABASE zoo_database SET work_mem = '5MB';
ALTER DATABASE zoo_database SET log_min_duration_statement = 5;
-- named: DATABASE setting log_min_duration_statement
CREATE MATERIALIZED VIEW later AS SELECT 1 AS n;
CREATE FUNCTION share(text) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $$BEGIN RETURN (SELECT n FROM public.later) + length($1); END$$;
CREATE INDEX by_share ON words (share(word)) WHERE word <> 'Grün';
