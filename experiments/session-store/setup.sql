create :kind session (id bigint primary key, data jsonb not null, expires_at timestamptz not null);
insert into session select n, jsonb_build_object('user', n, 'visits', 1), now() + interval '2 seconds' from generate_series(1, :rows) n;
