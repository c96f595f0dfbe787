do $$
declare
  t text;
  n int := 0;
begin
  for i in 1..:rows loop
    select info into t from test where id = i;
    n := n + (length(t) = 32)::int;
  end loop;
  if n <> :rows then
    raise exception '% rows', n;
  end if;
end $$;
