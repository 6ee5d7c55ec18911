-- Owners and rights of roles.
-- first: CREATE ROLE zoo_owner; CREATE ROLE zoo_reader LOGIN; CREATE ROLE "zoo ""odd"; GRANT zoo_reader TO zoo_owner
CREATE TABLE orders AS SELECT n FROM generate_series(1, 10) n;
ALTER TABLE orders OWNER TO zoo_owner;
GRANT SELECT ON orders TO zoo_reader, "zoo ""odd";
CREATE SCHEMA own AUTHORIZATION zoo_owner;
ALTER DEFAULT PRIVILEGES FOR ROLE zoo_owner IN SCHEMA own GRANT SELECT ON TABLES TO zoo_reader;
CREATE POLICY readers ON orders TO zoo_reader USING (true);
GRANT USAGE ON SCHEMA own TO "zoo ""odd";
