create function texts_and_numerics(n int) returns text language plpgsql as $$
declare
  line text := '';
  amount numeric := 0;
  longest int := 0;
begin
  for i in 1..n loop
    line := line || chr(65 + i % 26) || i;
    if length(line) > 60 then
      line := substr(line, 20) || lower(left(line, 5));
    end if;
    longest := greatest(longest, length(line));
    amount := round((amount + i * 1.25) / 1.5, 4);
    if amount > 1000000 then
      amount := amount - 999999.5;
    end if;
  end loop;
  return longest || ' ' || amount || ' ' || md5(line);
end $$;
