create index idx_test_info on test using gin (info);
alter index idx_test_info set (gin_pending_list_limit = :pending_kb);
