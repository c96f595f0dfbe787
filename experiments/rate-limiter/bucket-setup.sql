create :kind usage (caller int primary key, tokens float8 not null, at timestamptz not null);
create function is_within_limit() returns boolean language sql as $$
  select coalesce(min(tokens), 0) >= 0 and coalesce(max(tokens), 0) <= :limit from usage
$$;
