-- The document fills the table from a series of numerics (1 to 1e+8), hence the cast.
CREATE :kind tab(c1 INTEGER);
INSERT INTO tab SELECT generate_series(1, :rows::numeric);
VACUUM ANALYZE tab;
SELECT COUNT(*) FROM tab;
UPDATE tab SET c1 = (c1 + 1);
VACUUM ANALYZE tab;
DELETE FROM tab;
DROP TABLE tab;
