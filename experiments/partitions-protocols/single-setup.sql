create unlogged table test (id int primary key, info text, crt_time timestamp);
