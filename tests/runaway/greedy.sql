-- Statements that want much memory, one a line.
SELECT array_length(string_to_array(repeat('x,',50000000),NULL),1)
SELECT array_length(array_agg(g),1) FROM generate_series(1,50000000) g
SELECT ('['||repeat('1,',75000000)||'1]')::json IS NULL
SELECT ('['||repeat('1,',75000000)||'1]')::jsonb IS NULL
SELECT 1 WHERE 5 NOT IN (SELECT g+10 FROM generate_series(1,20000000) g)
SELECT length(concat(repeat('a',250000000),repeat('b',250000000),repeat('c',250000000),repeat('d',250000000),repeat('e',250000000)))
SELECT length(repeat('x',1000000000))
SELECT repeat('a',100000000),repeat('b',100000000),repeat('c',100000000),repeat('d',100000000),repeat('e',100000000),repeat('f',100000000),repeat('g',100000000),repeat('h',100000000),repeat('i',100000000),repeat('j',100000000)
SELECT array_length(array_fill(1,ARRAY[100000000]),1)
DO $$ DECLARE a int[] := ARRAY[1]; BEGIN LOOP a := a || a; END LOOP; END $$
DO $$ DECLARE s text := 'x'; BEGIN LOOP s := s || s; END LOOP; END $$
SELECT count(pg_notify('c',repeat('x',5000)||g)) FROM generate_series(1,300000) g
CREATE TABLE IF NOT EXISTS runaway_g(t text); INSERT INTO runaway_g SELECT repeat('x',900000000)
SELECT array_length(regexp_split_to_array(repeat('a,',30000000),','),1)
SELECT array_length(array_agg(ARRAY[g,g,g]),1) FROM generate_series(1,20000000) g
SELECT string_agg(repeat('x',1000),'') IS NULL FROM generate_series(1,900000) g
SELECT jsonb_agg(repeat('x',1000)) IS NULL FROM generate_series(1,250000) g
SELECT json_agg(repeat('x',1000)) IS NULL FROM generate_series(1,900000) g
SELECT count(*) FROM (SELECT DISTINCT repeat('x',1000)||g FROM generate_series(1,2000000) g) q
SELECT count(*) FROM (SELECT repeat('x',1000)||g AS a FROM generate_series(1,2000000) g ORDER BY 1) q
WITH RECURSIVE r(n,t) AS (SELECT 1,repeat('x',10000) UNION ALL SELECT n+1,t FROM r WHERE n<1000000) SELECT count(*) FROM r
SELECT xx, array_agg(g) FROM (SELECT g%10 AS xx, repeat('y',100)||g AS g FROM generate_series(1,10000000) g) q GROUP BY xx
SELECT lag(t,1) OVER (ORDER BY g) IS NULL FROM (SELECT g,repeat('x',1000) AS t FROM generate_series(1,2000000) g) q
DO $$ DECLARE a text[]; BEGIN FOR i IN 1..2000000 LOOP a[i] := repeat('x',1000); END LOOP; END $$
SELECT range_agg(int4range(g,g+1)) IS NULL FROM generate_series(1,100000000,2) g
SELECT to_tsvector('simple',(SELECT string_agg('w'||g,' ') FROM generate_series(1,20000000) g)) IS NULL
