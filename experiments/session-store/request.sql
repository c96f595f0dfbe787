-- A request reads its session, and writes it back with a new end.
\set id random(1, :rows)
select data from session where id = :id and expires_at > now();
insert into session (id, data, expires_at) values (:id, jsonb_build_object('user', :id::bigint, 'visits', 1), now() + interval '2 seconds')
on conflict (id) do update set
  data = jsonb_set(session.data, '{visits}', to_jsonb((session.data ->> 'visits')::int + 1)),
  expires_at = excluded.expires_at;
