drop table if exists documents;
drop function if exists gen_rand_str(integer);
create function gen_rand_str(integer) returns text language sql strict as $function$
  select string_agg(a[random()*6+1],'') from generate_series(1,$1), (select array['a','b','c','d','e','f',' ']) t(a);
$function$;
create table documents (id int, info tsvector);
select setseed(0.25);
insert into documents select n, to_tsvector(gen_rand_str(512)) from generate_series(1, :rows / 40) n;
create index documents_info on documents using gin (info);
create view measured as select pg_relation_size('documents_info') as bytes;
