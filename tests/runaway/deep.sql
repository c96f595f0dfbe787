-- Statements that nest deeply, one a line. {TEXT*N} stands for TEXT so many times.
SELECT {1+*2000}1
SELECT {1+*100000}1
SELECT count(*) FROM (SELECT 1 {UNION ALL SELECT 1 *1000}) q
SELECT {(*5000}1{)*5000}
SELECT {(SELECT *2000}1{)*2000}
SELECT * FROM {(SELECT * FROM *2000}(SELECT 1) q{) q*2000}
SELECT {CASE WHEN false THEN 0 ELSE *5000}7{ END*5000}
SELECT {NOT *20000}true
SELECT {abs(*20000}1{)*20000}
SELECT {ARRAY[*2000}1{]*2000}
SELECT true{ AND true*50000}
SELECT 'a'{||'a'*20000}
SELECT {COALESCE(NULL,*10000}1{)*10000}
DO $$ {BEGIN *298}NULL; {END; *298}$$
DO $$ {BEGIN *50000}NULL; {END; *50000}$$
DO $$ BEGIN {IF true THEN *20000}NULL; {END IF; *20000}END $$
DO $$ DECLARE j jsonb:='1'; BEGIN FOR i IN 1..2000 LOOP j:=jsonb_build_object('a',j); END LOOP; PERFORM jsonb_pretty(j); END $$
DO $$ DECLARE j jsonb:='1'; BEGIN FOR i IN 1..20000 LOOP j:=jsonb_build_object('a',j); END LOOP; PERFORM jsonb_pretty(j); END $$
SELECT (repeat('[',5000)||repeat(']',5000))::jsonb::text = ''
SELECT repeat('[',1000000)::json
SELECT repeat('{"a":',1000000)::jsonb
SELECT (repeat('(',100000)||'1')::jsonpath
SELECT ('$'||repeat('.a',100000))::jsonpath IS NULL
SELECT (repeat('(',100000)||'a')::tsquery
SELECT (repeat('!',100000)||'a')::tsquery
SELECT 'a' ~ (repeat('(',100000)||'a'||repeat(')',100000))
SELECT (repeat('{',100000)||'1')::int[]
CREATE OR REPLACE FUNCTION runaway_f(n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN runaway_f(n+1); END $$; SELECT runaway_f(1)
CREATE OR REPLACE FUNCTION runaway_s(n int) RETURNS int LANGUAGE sql AS $$ SELECT CASE WHEN n<0 THEN 0 ELSE runaway_s(n+1) END $$; SELECT runaway_s(1)
CREATE OR REPLACE FUNCTION runaway_e(n int) RETURNS int LANGUAGE plpgsql AS $$ DECLARE r int; BEGIN EXECUTE 'select runaway_e($1)' INTO r USING n+1; RETURN r; END $$; SELECT runaway_e(1)
CREATE OR REPLACE FUNCTION runaway_x(n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN runaway_x(n+1); EXCEPTION WHEN OTHERS THEN RETURN runaway_x(n+1); END $$; SELECT runaway_x(1)
CREATE TABLE IF NOT EXISTS runaway_t(a int); CREATE OR REPLACE FUNCTION runaway_tf() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO runaway_t VALUES (1); RETURN NEW; END $$; CREATE OR REPLACE TRIGGER t AFTER INSERT ON runaway_t FOR EACH ROW EXECUTE FUNCTION runaway_tf(); INSERT INTO runaway_t VALUES (1)
DO $$ BEGIN EXECUTE 'WITH c0 AS MATERIALIZED (SELECT 1 AS a)' || (SELECT string_agg(format(', c%s AS MATERIALIZED (SELECT a+1 AS a FROM c%s)',g,g-1),'' ORDER BY g) FROM generate_series(1,5000) g) || ' SELECT a FROM c5000'; END $$
DO $$ BEGIN EXECUTE 'SELECT a3000 FROM (SELECT 1 AS a0) t0' || (SELECT string_agg(format(', LATERAL (SELECT a%s+1 AS a%s) t%s',g-1,g,g),'' ORDER BY g) FROM generate_series(1,3000) g); END $$
EXPLAIN SELECT {(SELECT *1000}1{)*1000}
PREPARE runaway_p AS SELECT {1+*5000}1
CREATE OR REPLACE VIEW runaway_v AS SELECT {1+*5000}1 AS a; SELECT pg_get_viewdef('runaway_v') = ''
