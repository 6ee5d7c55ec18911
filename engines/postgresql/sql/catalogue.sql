-- What a dump of this database by this role would fail for, or leaves out: a JSON object a line. Run by psql.
-- `what`: unreadable, hidden (row-level security), sequence, large_object, foreign, unlogged, mapping: such an object;
-- readable, role, passwords (hidden ones), language (of messages, where that is not English): a fact. `name`: each part in quotes, as pg_dump's patterns take it: in the
-- encoding of the database, as hexadecimal digits. `shown`: as SQL writes it, in UTF-8 where PostgreSQL can convert.
SELECT current_setting('server_version_num')::int >= 100000 AS is_known,
       current_setting('server_version_num')::int >= 180000 AS has_large_object_rights,
       current_setting('server_version_num')::int >= 150000 AS has_rights_to_settings,
       getdatabaseencoding() NOT IN ('SQL_ASCII', 'MULE_INTERNAL') AS converts \gset
\if :converts
SET client_encoding = 'UTF8';
\endif
\if :is_known
\if :has_large_object_rights
\set lacks_object 'NOT has_largeobject_privilege(oid, \'SELECT\')'
\else
\set lacks_object 'NOT pg_has_role(lomowner, \'USAGE\') AND NOT EXISTS (SELECT FROM aclexplode(lomacl) granted WHERE granted.privilege_type = \'SELECT\' AND (granted.grantee = 0 OR pg_has_role(granted.grantee, \'USAGE\')))'
\endif
\if :has_rights_to_settings
\set may_set 'has_parameter_privilege(\'lc_messages\', \'SET\')'
\else
\set may_set 'current_setting(\'is_superuser\') = \'on\''
\endif
\set FETCH_COUNT 200
\set VERBOSITY verbose
SET statement_timeout = '60s';
SELECT json_build_object('what', 'role', 'shown', quote_ident(current_user));
-- the description of a setting is in the language of messages; lc_messages names that language in many ways
SELECT json_build_object('what', 'language', 'shown', current_setting('lc_messages'), 'may_set', :may_set)
  FROM pg_settings
 WHERE name = 'lc_messages' AND short_desc NOT LIKE 'Sets the language%';
SELECT json_build_object('what', 'passwords')
 WHERE NOT has_table_privilege('pg_catalog.pg_authid', 'SELECT');
SELECT json_build_object('what', 'readable', 'number', count(*))
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
   AND has_table_privilege(c.oid, 'SELECT') AND has_schema_privilege(n.oid, 'USAGE');
SELECT json_build_object(
         'what', what, 'name', encode(convert_to(name, getdatabaseencoding()), 'hex'),
         'shown', shown, 'schema', closed_schema)
  FROM (
    SELECT CASE
             WHEN c.relkind IN ('r', 'p') AND NOT (has_table_privilege(c.oid, 'SELECT') AND may_enter) THEN 'unreadable'
             WHEN c.relkind = 'r' AND row_security_active(c.oid) THEN 'hidden'
             WHEN c.relkind = 'r' AND c.relpersistence = 'u' AND pg_is_in_recovery() THEN 'unlogged'
             WHEN c.relkind = 'S' AND NOT has_sequence_privilege(c.oid, 'SELECT') THEN 'sequence'
             WHEN c.relkind = 'f' THEN 'foreign'
           END AS what,
           '"' || replace(n.nspname, '"', '""') || '"."' || replace(c.relname, '"', '""') || '"' AS name,
           format('%I.%I', n.nspname, c.relname) AS shown,
           CASE WHEN NOT may_enter THEN quote_ident(n.nspname) END AS closed_schema
      FROM pg_class c
      JOIN (SELECT oid, nspname, has_schema_privilege(oid, 'USAGE') AS may_enter FROM pg_namespace) n
        ON n.oid = c.relnamespace
     WHERE c.relkind IN ('r', 'p', 'S', 'f') AND c.relpersistence <> 't'
       AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
  ) found
 WHERE what IS NOT NULL
 ORDER BY what, name
 LIMIT 500;
SELECT json_build_object('what', 'large_object', 'shown', oid::text)
  FROM pg_largeobject_metadata
 WHERE current_setting('lo_compat_privileges') = 'off' AND :lacks_object
 ORDER BY oid
 LIMIT 21;
SELECT json_build_object('what', 'mapping', 'shown', format('%I at %I', usename, srvname))
  FROM pg_user_mappings
 WHERE umoptions IS NULL AND current_setting('is_superuser') = 'off'
 ORDER BY srvname, usename
 LIMIT 21;
\endif
