-- What only version 18 knows.
-- of: 18
CREATE EXTENSION btree_gist;
CREATE TABLE virtual (n integer, twice integer GENERATED ALWAYS AS (n * 2) VIRTUAL);
INSERT INTO virtual VALUES (1), (2);
CREATE TABLE parent (n integer PRIMARY KEY);
CREATE TABLE child (n integer, CONSTRAINT unchecked FOREIGN KEY (n) REFERENCES parent NOT ENFORCED,
  CONSTRAINT positive CHECK (n > 0) NOT ENFORCED);
INSERT INTO child VALUES (-1);
CREATE TABLE rooms (n integer, during daterange, PRIMARY KEY (n, during WITHOUT OVERLAPS));
CREATE TABLE visits (room integer, during daterange, CONSTRAINT booked FOREIGN KEY (room, PERIOD during) REFERENCES rooms (n, PERIOD during));
INSERT INTO rooms VALUES (1, '[2026-01-01,2026-02-01)');
INSERT INTO visits VALUES (1, '[2026-01-05,2026-01-06)');
CREATE TABLE partly (n integer);
INSERT INTO partly VALUES (NULL);
ALTER TABLE partly ADD CONSTRAINT known NOT NULL n NOT VALID;
CREATE COLLATION fast (provider = builtin, locale = 'PG_UNICODE_FAST');
CREATE TABLE words (word text COLLATE fast);
INSERT INTO words VALUES ('grün');
CREATE TABLE plain AS SELECT 1 AS n;
-- named to 15: COLLATION public.fast; TABLE public.words; TABLE DATA public.words; TABLE public.virtual; TABLE DATA public.virtual; CHECK CONSTRAINT public.child positive; FK CONSTRAINT public.child unchecked; CONSTRAINT public.rooms rooms_pkey; FK CONSTRAINT public.visits booked; CONSTRAINT public.partly known
