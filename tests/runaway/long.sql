-- Statements that take long, one a line. {TEXT*N} stands for TEXT so many times.
SELECT (10::numeric^131000-1)/(10::numeric^65000-1)
SELECT mod(10::numeric^131000-1, 10::numeric^65000-1)
SELECT (10::numeric^65000-1)*(10::numeric^65000-1) > 0
SELECT ln(10::numeric^100000)
SELECT sqrt(10::numeric^131000)
SELECT gcd(10::numeric^60000-1, 10::numeric^59999-7)
SELECT exp(5000.123456789::numeric)
SELECT count(set_config('a.b'||g,'x',false)) FROM generate_series(1,1000000) g
SELECT length(jsonb_pretty(jsonb_agg(g))) FROM generate_series(1,3000000) g
SELECT jsonb_pretty(('['||repeat('{"a":[1,2,3]},',2000000)||'1]')::jsonb) IS NULL
SELECT length(to_tsvector('english',repeat('some words of a text ',5000000)))
SELECT array_length(array_fill(1,ARRAY[100000000]),1)
SELECT length(repeat('x',1000000000))
SELECT array_length(array_remove(array_fill(1,ARRAY[10000000]),2),1)
SELECT count(*) FROM generate_series(1,20) g WHERE repeat('abc',30000000+g) LIKE '%abd%'
SELECT count(*) FROM generate_series(1,20) g WHERE repeat('abc',30000000+g) ILIKE '%abd%'
SELECT array_length(string_to_array(repeat('x,',20000000),','),1)
SELECT md5(repeat('x',500000000))
SELECT length(decode(repeat('ab',100000000),'hex'))
SELECT length(encode(convert_to(repeat('ab',100000000),'UTF8'),'base64'))
SELECT length(encode(convert_to(repeat('ab',100000000),'UTF8'),'escape'))
SELECT length(decode(repeat('YWJj',50000000),'base64'))
SELECT length(upper(repeat('äb',100000000)))
SELECT sha512(convert_to(repeat('x',500000000),'UTF8'))
SELECT length(regexp_replace(repeat('abc ',10000000),'b','xx','g'))
SELECT count(*) FROM regexp_split_to_table(repeat('a,b ',5000000),',') s
SELECT count(*) FROM regexp_matches(repeat('ab',5000000),'a','g') m
SELECT ('['||repeat('1,',100000000)||'1]')::json IS NULL
SELECT ('['||repeat('1,',20000000)||'1]')::jsonb IS NULL
SELECT translate(repeat('abc',50000000),'abc','xyz') = ''
SELECT reverse(repeat('äbc',50000000)) = ''
SELECT replace(repeat('abc',50000000),'b','yy') = ''
SELECT position('zz' in repeat('abzc',100000000))
SELECT split_part(repeat('a,',100000000),',',99999999)
SELECT length(lpad('x',200000000,'äö'))
SELECT array_position(array_fill(1,ARRAY[20000000]),2)
SELECT array_length(array(SELECT unnest(array_fill(1,ARRAY[20000000]))),1)
SELECT array_to_string(array_fill(1,ARRAY[20000000]),',') = ''
SELECT array_fill(1,ARRAY[20000000])::text = ''
SELECT array_sort(array(SELECT (g*7919)%1000003 FROM generate_series(1,5000000) g)) IS NULL
SELECT ('{'||repeat('1,',20000000)||'1}')::int[] IS NULL
SELECT array_agg(g) IS NULL FROM generate_series(1,30000000) g
SELECT string_agg(g::text,',') IS NULL FROM generate_series(1,30000000) g
SELECT jsonb_agg(g) IS NULL FROM generate_series(1,10000000) g
SELECT jsonb_object_agg(g,g) IS NULL FROM generate_series(1,5000000) g
SELECT count(DISTINCT g) FROM generate_series(1,30000000) g
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY g) FROM generate_series(1,30000000) g
SELECT 1 WHERE 5 IN ({7,*500000}7)
SELECT count(*) FROM (VALUES {(1),*300000}(1)) v
SELECT '{x*50000000}' = ''
SELECT {1+*200000}1
SELECT length('{\x27\x27*20000000}')
SELECT count(*) FROM (SELECT 1 {UNION ALL SELECT 1 *30000}) q
DO $$ BEGIN {PERFORM 1; *100000} END $$
DO $$ BEGIN LOOP END LOOP; END $$
DO $$ DECLARE s text := ''; BEGIN LOOP s := s || 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'; END LOOP; END $$
DO $$ DECLARE a int[]; BEGIN LOOP a := a || 1; END LOOP; END $$
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r) SELECT count(*) FROM r
WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT n+1 FROM r) SELECT count(*) FROM r
SELECT count(*) FROM generate_series(1,100000) a, generate_series(1,100000) b
SELECT count(*) FROM generate_series(1,20000) a JOIN generate_series(1,20000) b ON a.a*b.b=7
SELECT sum(a) OVER (ORDER BY a ROWS BETWEEN 10000 PRECEDING AND CURRENT ROW) FROM generate_series(1,3000000) a
SELECT array_agg(a) OVER (ORDER BY a) FROM generate_series(1,100000) a
SELECT count(*) FROM (SELECT g FROM generate_series(1,30000000) g ORDER BY g DESC) q
SELECT repeat('x',20000000)
SELECT repeat('x',200000000)
SELECT repeat('x',100000000)::bytea
SELECT ts_headline('english',repeat('some words of a text ',1000000),'words & text'::tsquery) = ''
SELECT ts_rank(to_tsvector('english',repeat('some words of text ',100)),'some & words'::tsquery) FROM generate_series(1,3000000)
SELECT (repeat('a & ',200000)||'b')::tsquery IS NULL
SELECT 'a' ~ repeat('(a|b)*',5000)
SELECT repeat('a',30000000) ~ '(a|aa)*b$'
SELECT repeat('a',30) ~ '(a+)+\1b'
SELECT repeat('ab',30000000) SIMILAR TO '%(a|b)*c%'
SELECT hashtext(repeat('x',500000000))
SELECT repeat('a',300000000) = repeat('a',300000000)
SELECT repeat('a',100000000)||repeat('b',100000000) = ''
SELECT substr(repeat('äb',100000000),99999999,5)
SELECT length(quote_literal(repeat('''',100000000)))
SELECT length(format('%s%s%s',repeat('a',100000000),repeat('b',100000000),'c'))
SELECT to_char(g,'9999999999999D999') FROM generate_series(1,10000000) g
SELECT jsonb_path_query_array(('['||repeat('{"a":[1,2,3]},',300000)||'1]')::jsonb,'$.**') IS NULL
SELECT jsonb_path_exists(('['||repeat('1,',3000000)||'1]')::jsonb,'$[*] ? (@ == 2)')
SELECT range_agg(int4range(g,g+1)) IS NULL FROM generate_series(1,10000000,2) g
SELECT crc32(convert_to(repeat('x',300000000),'UTF8'))
SELECT levenshtein FROM (SELECT similarity(repeat('abcdefgh ',1000000),repeat('hgfedcba ',1000000)) AS levenshtein) q
SELECT factorial(30000) IS NULL
SELECT (repeat('9',130000))::numeric IS NULL
SELECT (10::numeric^130000)::text = ''
SELECT power(1.0000001::numeric, 1000000000::numeric)
SELECT bit_count(repeat('10',50000000)::varbit)
SELECT repeat('10',50000000)::varbit & repeat('01',50000000)::varbit IS NULL
SELECT xmin FROM pg_class, pg_attribute, pg_proc, pg_type
SELECT normalize(repeat('ä',30000000)) = ''
SELECT pg_get_viewdef('pg_stats') FROM generate_series(1,1000000)
SELECT count(random_normal()) FROM generate_series(1,100000000)
SELECT unistr(repeat('\0061',10000000)) = ''
SELECT initcap(repeat('ab ',50000000)) = ''
SELECT row_to_json(r) FROM (SELECT array_fill(1,ARRAY[5000000]) AS a) r
SELECT hash_array(array_fill(1,ARRAY[20000000]))
SELECT array_fill(1,ARRAY[10000000]) = array_fill(1,ARRAY[10000000])
SELECT array_fill(1,ARRAY[10000000]) @> array_fill(1,ARRAY[10000000])
SELECT width_bucket(7,array(SELECT generate_series(1,5000000)))
