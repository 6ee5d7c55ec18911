-- named: view dead_table
-- named: view dead_column
-- named: view dead_function
-- named: view over_dead
CREATE TABLE t (n INT, m INT);
INSERT INTO t VALUES (1, 2);
CREATE TABLE gone (n INT);
CREATE FUNCTION gone() RETURNS INT DETERMINISTIC RETURN 1;
CREATE VIEW dead_table AS SELECT n FROM gone;
CREATE VIEW dead_column AS SELECT m FROM t;
CREATE VIEW dead_function AS SELECT gone() AS g FROM t;
CREATE VIEW over_dead AS SELECT n FROM dead_table;
CREATE VIEW alive AS SELECT n FROM t;
DROP TABLE gone;
DROP FUNCTION gone;
ALTER TABLE t DROP COLUMN m;
CREATE PROCEDURE of_nothing() SELECT * FROM gone;
CREATE TRIGGER of_nothing BEFORE INSERT ON t FOR EACH ROW SET @a = (SELECT n FROM gone);
