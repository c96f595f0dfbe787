-- Documents of thirty words out of two thousand, some of which are in most documents.
create table document (id int primary key, body text not null, words tsvector not null, views int not null default 0);
create function some_words(number int, how_many int) returns text language sql as $$
  select string_agg('w' || (1 + (2000 * random() ^ 3)::int % 2000), ' ') from generate_series(1, how_many + number * 0)
$$;
insert into document (id, body, words)
select id, body, to_tsvector('simple', body) from (select id, some_words(id, 30) as body from generate_series(1, :rows) id) made;
create index document_words on document using gin (words);
vacuum analyze document;
