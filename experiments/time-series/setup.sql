-- Old data lies in pieces of one minute, the oldest with the highest number; what comes in now lies behind them.
create table piece (number int primary key, begins timestamptz not null, ends timestamptz not null);
create table start (at timestamptz not null);
insert into start values (date_trunc('minute', now()));
