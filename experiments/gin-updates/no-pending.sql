create index idx_test_info on test using gin (info) with (fastupdate = off);
