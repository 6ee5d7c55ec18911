-- What a dump does not bring back under a new name: owner, rights, settings, comment and locale of this database, as
-- one JSON object. `columns` has those of pg_database that its version has. Run by psql.
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
             FROM pg_db_role_setting s WHERE s.setdatabase = d.oid))
  FROM pg_database d
  JOIN pg_tablespace t ON t.oid = d.dattablespace
 WHERE d.datname = current_database();
