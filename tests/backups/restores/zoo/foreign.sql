-- Tables at other servers, also as partitions, and who is known there.
-- first: CREATE ROLE zoo_reader LOGIN
CREATE EXTENSION file_fdw;
CREATE SERVER files FOREIGN DATA WRAPPER file_fdw;
CREATE FOREIGN TABLE hosts (line text) SERVER files OPTIONS (program 'echo x');
CREATE EXTENSION postgres_fdw;
CREATE SERVER elsewhere TYPE 'x' version '1' FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '1');
CREATE USER MAPPING FOR PUBLIC SERVER elsewhere OPTIONS (user 'y', password 'hunter3');
CREATE USER MAPPING FOR zoo_reader SERVER elsewhere OPTIONS (user 'x', password 'hunter2');
CREATE TABLE parted (n integer) PARTITION BY RANGE (n);
CREATE TABLE near PARTITION OF parted FOR VALUES FROM (0) TO (10);
CREATE FOREIGN TABLE far PARTITION OF parted FOR VALUES FROM (10) TO (20) SERVER elsewhere OPTIONS (table_name 'x');
INSERT INTO parted VALUES (1);
GRANT USAGE ON FOREIGN SERVER elsewhere TO zoo_reader;
CREATE FOREIGN DATA WRAPPER own;
-- named by a login: FOREIGN DATA WRAPPER own; SERVER files; SERVER elsewhere; USER MAPPING USER MAPPING public SERVER elsewhere; USER MAPPING USER MAPPING zoo_reader SERVER elsewhere; FOREIGN TABLE public.hosts; FOREIGN TABLE public.far; TABLE ATTACH public.far; ACL FOREIGN SERVER elsewhere
