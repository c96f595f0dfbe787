do $$
declare
  x int8 := 0;
  last int8 := 10 * :rows;
begin
  for i in 1..last loop
    x := x + i;
  end loop;
  if x <> last * (last + 1) / 2 then
    raise exception 'the sum is %', x;
  end if;
end $$;
