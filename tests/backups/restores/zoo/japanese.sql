-- Names and rows in an encoding of several bytes.
-- database: CREATE DATABASE zoo_japanese ENCODING 'EUC_JP' LOCALE 'C' TEMPLATE template0
SET client_encoding = 'UTF8';
CREATE TABLE 商品 (名 text PRIMARY KEY, kind text DEFAULT '日本');
INSERT INTO 商品 VALUES ('東京'), ('大阪');
CREATE VIEW 見る AS SELECT 名 FROM 商品 WHERE kind = '日本';
COMMENT ON TABLE 商品 IS '漢字';
CREATE FUNCTION 足す(n integer) RETURNS text LANGUAGE sql AS $$SELECT '東'::text$$;
