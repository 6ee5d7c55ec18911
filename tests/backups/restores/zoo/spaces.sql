-- Tables, an index, a key, a partition and a materialized view in a tablespace that other servers do not have.
-- first: ALTER ROLE admin SET allow_in_place_tablespaces = on; CREATE TABLESPACE zoo_space_VERSION LOCATION ''
CREATE TABLE far (n integer) TABLESPACE zoo_space_VERSION;
INSERT INTO far VALUES (1);
CREATE TABLE near (n integer, m integer PRIMARY KEY USING INDEX TABLESPACE zoo_space_VERSION);
CREATE INDEX far_away ON near (n) TABLESPACE zoo_space_VERSION;
CREATE TABLE parted (n integer) PARTITION BY LIST (n) TABLESPACE zoo_space_VERSION;
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1);
CREATE MATERIALIZED VIEW counted TABLESPACE zoo_space_VERSION AS SELECT count(*) FROM far;
-- named to 15 of 18: TABLESPACE zoo_space_18
-- named to 18 of 15: TABLESPACE zoo_space_15
