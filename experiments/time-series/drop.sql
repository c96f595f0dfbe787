create function retire_piece(which int) returns void language plpgsql as $$
begin
  execute format('drop table metric_%s', which);
end $$;
