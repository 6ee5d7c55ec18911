-- database: CHARACTER SET latin1 COLLATE latin1_german2_ci COMMENT 'Zürich''s "shop"; old'
SET NAMES utf8mb4;
CREATE TABLE `tübe` (`größe` VARCHAR(20), c CHAR(8) CHARACTER SET cp1251, u VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  two VARCHAR(9) CHARACTER SET ucs2, bin BLOB);
INSERT INTO `tübe` VALUES ('Äpfel', 'Привет', '🐘''', 'ü日', x'fffe00');
CREATE TABLE plain (n TEXT) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
INSERT INTO plain VALUES ('日本語; ''x'''), ('\\'), ('a\0b\Zc');
CREATE VIEW `ansicht ä` AS SELECT `größe`, 'ä日' AS wort FROM `tübe`;
CREATE FUNCTION umlaut() RETURNS VARCHAR(9) CHARACTER SET utf8mb4 DETERMINISTIC RETURN 'ß🐘';
SET NAMES latin1;
CREATE PROCEDURE of_latin1() SELECT 'x';
SET NAMES utf8mb4;
CREATE TABLE _c (a INT);
CREATE TABLE `a%b` (a INT);
