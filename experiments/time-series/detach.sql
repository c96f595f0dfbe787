-- What is detached may be kept elsewhere; here it goes.
create function retire_piece(which int) returns void language plpgsql as $$
begin
  execute format('alter table metric detach partition metric_%s', which);
  execute format('drop table metric_%s', which);
end $$;
