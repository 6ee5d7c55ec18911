-- Extensions that both servers have; a table, an index and rows of theirs.
CREATE EXTENSION hstore;
CREATE EXTENSION pg_trgm;
CREATE SCHEMA tools;
CREATE EXTENSION citext SCHEMA tools;
CREATE TABLE things (name tools.citext PRIMARY KEY, facts hstore);
INSERT INTO things VALUES ('Ä', 'a=>1'), ('b', NULL);
CREATE INDEX by_words ON things USING gin ((name::text) gin_trgm_ops);
CREATE EXTENSION postgres_fdw;
CREATE SERVER elsewhere FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '1');
CREATE USER MAPPING FOR CURRENT_USER SERVER elsewhere OPTIONS (user 'x', password 'hunter2');
CREATE FOREIGN TABLE far (n integer) SERVER elsewhere;
CREATE EXTENSION file_fdw;
-- named by a login: SERVER elsewhere; USER MAPPING USER MAPPING admin SERVER elsewhere; FOREIGN TABLE public.far
