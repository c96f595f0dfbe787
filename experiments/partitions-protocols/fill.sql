insert into test select generate_series(1,:rows), md5(random()::text), clock_timestamp();
