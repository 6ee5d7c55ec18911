-- A table and an index in a tablespace that other servers do not have.
-- first: ALTER ROLE admin SET allow_in_place_tablespaces = on; CREATE TABLESPACE zoo_space_VERSION LOCATION ''
CREATE TABLE far (n integer) TABLESPACE zoo_space_VERSION;
INSERT INTO far VALUES (1);
CREATE TABLE near (n integer);
CREATE INDEX far_away ON near (n) TABLESPACE zoo_space_VERSION;
-- named to 15 of 18: TABLESPACE zoo_space_18
-- named to 18 of 15: TABLESPACE zoo_space_15
