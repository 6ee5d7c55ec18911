-- A locale provider that versions below 17 do not have.
-- of: 18
-- database: CREATE DATABASE zoo_builtin LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8' ENCODING 'UTF8' TEMPLATE template0
CREATE TABLE words AS SELECT 'grün' AS word;
-- named to 15: DATABASE locale C.UTF-8 of its provider (made with that of libc)
