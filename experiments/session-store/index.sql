create index session_expires_at on session (expires_at);
