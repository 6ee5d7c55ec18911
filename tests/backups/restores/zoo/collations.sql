-- Collations that the embedded server is built without, and that a drill makes as C.
-- of: 15
CREATE TABLE plain AS SELECT 1 AS n;
CREATE COLLATION german (provider = icu, locale = 'de-u-co-phonebk');
CREATE TABLE words (word text COLLATE german);
INSERT INTO words VALUES ('ä');
CREATE TABLE swiss (word text COLLATE "de-CH-x-icu" PRIMARY KEY);
INSERT INTO swiss VALUES ('ä');
-- named to 18: COLLATION public.german; TABLE public.words; TABLE DATA public.words; TABLE public.swiss; TABLE DATA public.swiss; CONSTRAINT public.swiss swiss_pkey
-- notes: COLLATION public.german; COLLATION pg_catalog."de-CH-x-icu"
-- foreseen to 18: COLLATION pg_catalog.de-CH-x-icu
