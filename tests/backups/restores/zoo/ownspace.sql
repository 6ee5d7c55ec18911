-- A database whose own tablespace other servers do not have.
-- first: ALTER ROLE admin SET allow_in_place_tablespaces = on; CREATE TABLESPACE zoo_own_VERSION LOCATION ''
-- database: CREATE DATABASE zoo_ownspace TABLESPACE zoo_own_VERSION TEMPLATE template0
CREATE TABLE near (n integer PRIMARY KEY);
INSERT INTO near VALUES (1);
-- named to 15 of 18: DATABASE tablespace zoo_own_18
-- named to 18 of 15: DATABASE tablespace zoo_own_15
