create :kind usage (caller int not null, second timestamptz not null, requests int not null, primary key (caller, second));
create function is_within_limit() returns boolean language sql as $$ select coalesce(max(requests), 0) <= :limit from usage $$;
