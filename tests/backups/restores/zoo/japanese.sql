-- Names and rows in an encoding of several bytes.
-- database: CREATE DATABASE zoo_japanese ENCODING 'EUC_JP' LOCALE 'C' TEMPLATE template0
SET client_encoding = 'UTF8';
CREATE TABLE 商品 (名 text PRIMARY KEY, kind text DEFAULT '日本');
INSERT INTO 商品 VALUES ('東京'), ('大阪');
CREATE VIEW 見る AS SELECT 名 FROM 商品 WHERE kind = '日本';
COMMENT ON TABLE 商品 IS '漢字';
CREATE FUNCTION 足す(n integer) RETURNS text LANGUAGE sql AS $$SELECT '東'::text$$;
CREATE TABLE 注文 AS SELECT n, '東' || n AS 名 FROM generate_series(1, 3) n;
CREATE MATERIALIZED VIEW 後 AS SELECT 1 AS n;
CREATE FUNCTION share(integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $$BEGIN RETURN (SELECT n FROM public.後) + $1; END$$;
CREATE INDEX by_share ON 注文 (share(n)) WHERE 名 <> '大阪';
