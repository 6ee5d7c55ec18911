-- What a dump does not bring back under a new name: owner, rights, settings, comment and locale of this database, as
-- one JSON object. `columns` has those of pg_database that its version has; `needs`, what a server has to have for this
-- database, so that a restore can ask for it before it fetches the dump. Run by psql.
SET statement_timeout = '60s';
SET client_encoding = 'UTF8';
SELECT json_build_object(
         'columns', to_jsonb(d) - 'datacl',
         'owner', pg_get_userbyid(d.datdba),
         'encoding', pg_encoding_to_char(d.encoding),
         'tablespace', t.spcname,
         'comment', shobj_description(d.oid, 'pg_database'),
         'rights', (
           SELECT json_agg(json_build_object(
                    'role', CASE WHEN a.grantee <> 0 THEN pg_get_userbyid(a.grantee) END,
                    'right', a.privilege_type, 'may_grant', a.is_grantable)
                    ORDER BY a.grantee, a.privilege_type)
             FROM aclexplode(d.datacl) a),
         'settings', (
           SELECT json_agg(json_build_object(
                    'role', CASE WHEN s.setrole <> 0 THEN pg_get_userbyid(s.setrole) END, 'values', s.setconfig)
                    ORDER BY s.setrole)
             FROM pg_db_role_setting s WHERE s.setdatabase = d.oid),
         'needs', json_build_object(
           'version', current_setting('server_version_num')::int,
           'bytes', pg_database_size(d.oid),
           'extensions', (SELECT json_agg(extname ORDER BY extname) FROM pg_extension WHERE extname <> 'plpgsql'),
           'tablespaces', (
             SELECT json_agg(s.spcname ORDER BY s.spcname) FROM pg_tablespace s
              WHERE s.oid IN (SELECT reltablespace FROM pg_class) AND s.spcname <> 'pg_global'),
           'collations', (
             SELECT json_agg(json_build_object('schema', n.nspname, 'name', c.collname, 'provider', c.collprovider)
                    ORDER BY n.nspname, c.collname)
               FROM pg_collation c JOIN pg_namespace n ON n.oid = c.collnamespace
              WHERE c.oid >= 16384 AND n.nspname <> 'pg_catalog' OR c.oid IN (
                    SELECT a.attcollation FROM pg_attribute a JOIN pg_class r ON r.oid = a.attrelid
                     WHERE r.oid >= 16384)),
           'event_triggers', (SELECT json_agg(evtname ORDER BY evtname) FROM pg_event_trigger),
           'subscriptions', (SELECT json_agg(subname ORDER BY subname) FROM pg_subscription WHERE subdbid = d.oid)))
  FROM pg_database d
  JOIN pg_tablespace t ON t.oid = d.dattablespace
 WHERE d.datname = current_database();
