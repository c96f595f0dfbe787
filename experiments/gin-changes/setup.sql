create function gen_rand_str(integer) returns text language sql strict as $function$
  select string_agg(a[random()*6+1],'') from generate_series(1,$1), (select array['a','b','c','d','e','f',' ']) t(a);
$function$;
create table texts (n int primary key, t text);
-- In one session: the same texts for everybody.
select setseed(0.25);
insert into texts select n, gen_rand_str(512) from generate_series(1, :rows) n;
create table test(id int, info tsvector, crt_time timestamp);
insert into test select n, to_tsvector(t), now() from texts;
create index idx_test_info on test using gin (info);
create index idx_test_id on test (id);
vacuum analyze test;
