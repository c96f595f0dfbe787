create table visit (id int primary key, address text, note text);
create index visit_address on visit using hash (address);
insert into visit select i, 'https://example.org/' || i % 40, 'note ' || i from generate_series(1, 120) i;
analyze visit;
set enable_seqscan = off;
-- shown from here on
-- The rows of one key, which are compared with it.
SELECT id FROM visit WHERE address = 'https://example.org/7';
-- Several keys.
SELECT id FROM visit WHERE address IN ('https://example.org/1', 'https://example.org/2');
-- No order, and no range.
SELECT id FROM visit WHERE address > 'https://example.org/39';
-- Another column changes: the index is not touched.
UPDATE visit SET note = 'new' WHERE id = 3;
-- The key changes: an entry is retired, and one is added.
UPDATE visit SET address = 'https://example.org/new' WHERE id = 3;
DELETE FROM visit WHERE id = 4;
