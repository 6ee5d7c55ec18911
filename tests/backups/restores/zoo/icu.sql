-- A locale provider that the embedded server is built without.
-- of: 15
-- database: CREATE DATABASE zoo_icu LOCALE_PROVIDER icu ICU_LOCALE 'de' LOCALE 'C.UTF-8' ENCODING 'UTF8' TEMPLATE template0
CREATE TABLE words AS SELECT 'grün' AS word;
CREATE INDEX by_word ON words (word);
-- named to 18: DATABASE locale de of its provider (made with that of libc)
