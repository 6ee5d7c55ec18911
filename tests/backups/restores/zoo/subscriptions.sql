-- What takes rows from another server, by a connection with a password.
CREATE TABLE orders AS SELECT n FROM generate_series(1, 10) n;
CREATE SUBSCRIPTION zoo_taken CONNECTION 'host=127.0.0.1 port=1 dbname=x password=hunter2' PUBLICATION part
  WITH (connect = false, slot_name = NONE);
-- named by a login: SUBSCRIPTION zoo_taken
-- named to 15: SUBSCRIPTION zoo_taken
