-- An extension that the embedded server does not have, and a table that needs it.
-- of: 15
CREATE EXTENSION "uuid-ossp";
CREATE TABLE things (id uuid DEFAULT uuid_generate_v4());
INSERT INTO things DEFAULT VALUES;
CREATE TABLE plain AS SELECT 1 AS n;
-- named to 18: EXTENSION uuid-ossp; COMMENT EXTENSION "uuid-ossp"; TABLE public.things; TABLE DATA public.things
-- not here: EXTENSION uuid-ossp
