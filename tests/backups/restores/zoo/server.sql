-- Objects that only a superuser makes, or that other servers are bound to.
CREATE TABLE orders AS SELECT n FROM generate_series(1, 10) n;
CREATE FUNCTION stop_it() RETURNS event_trigger LANGUAGE plpgsql AS $$BEGIN NULL; END$$;
CREATE EVENT TRIGGER watching ON ddl_command_start EXECUTE FUNCTION stop_it();
CREATE PUBLICATION everything FOR ALL TABLES;
CREATE PUBLICATION part FOR TABLE orders;
CREATE SCHEMA own;
CREATE TABLE own.inside (n integer PRIMARY KEY, secret text);
CREATE PUBLICATION of_schema FOR TABLES IN SCHEMA own;
CREATE PUBLICATION filtered FOR TABLE own.inside (n) WHERE (n > 3) WITH (publish = 'insert');
ALTER EVENT TRIGGER watching DISABLE;
-- named by a login: EVENT TRIGGER watching
