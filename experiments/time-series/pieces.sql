create function fill_pieces() returns void language plpgsql as $$
declare
  which int;
begin
  for which in select n from generate_series(1, :pieces) n where not exists (select from piece where number = n) loop
    insert into piece select which, at - which * interval '1 minute', at - (which - 1) * interval '1 minute' from start;
    perform add_piece(which);
    insert into metric select begins + n * interval '1 minute' / :rows, n % 1000, random()
      from piece, generate_series(0, :rows - 1) n where number = which;
  end loop;
end $$;
create function retire_oldest() returns int language plpgsql as $$
declare
  which int := (select max(number) from piece);
begin
  if which is not null then
    perform retire_piece(which);
    delete from piece where number = which;
  end if;
  return which;
end $$;
-- Of the old pieces all rows are there or none.
create function is_whole() returns boolean language sql as $$
  select count(*) = :rows * (select count(*) from piece) from metric where at < (select at from start)
$$;
