-- A database without an encoding: bytes that are no UTF-8, in rows and in a name.
-- database: CREATE DATABASE zoo_ascii ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0
SET client_encoding = 'SQL_ASCII';
CREATE TABLE words (word text);
INSERT INTO words VALUES (E'caf\xe9'), (E'\xff\xfe');
DO $$BEGIN EXECUTE 'CREATE TABLE ' || quote_ident(convert_from('\x636166e9', 'SQL_ASCII')) || ' AS SELECT 1 AS n'; END$$;
