-- Labels of a provider that no server has loaded.
CREATE TABLE orders AS SELECT n FROM generate_series(1, 10) n;
SET allow_system_table_mods = on;
INSERT INTO pg_seclabel SELECT 'orders'::regclass, 'pg_class'::regclass, number, 'zoo', 'secret'
  FROM generate_series(0, 1) number;
-- named: SECURITY LABEL public.TABLE orders
