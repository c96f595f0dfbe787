-- Blocks of twenty seats, of which no more than ten may be taken. The first blocks are the ones that everybody wants.
create table block (id int primary key);
insert into block select n from generate_series(1, :blocks) n;
create table seat (block int not null, number int not null, holder int, primary key (block, number));
insert into seat select b, n, null from generate_series(1, :blocks) b, generate_series(1, 20) n;
vacuum analyze block;
vacuum analyze seat;
