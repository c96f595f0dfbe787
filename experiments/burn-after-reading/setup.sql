create table message (id bigint generated always as identity primary key, body text not null);
insert into message (body) select 'message ' || n from generate_series(1, :rows) n;
create table opening (waiting bigint not null);
insert into opening values (:rows);
vacuum analyze message;
