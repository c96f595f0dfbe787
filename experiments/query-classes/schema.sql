-- The tables of the classes. All data are made by integer arithmetic, so that both servers have the same rows:
-- h and g are the number of the row multiplied by a constant, modulo 2^32, without the low bits; u is skewed by squares.

create table regions (id int primary key, name text not null, country text not null);
insert into regions select i, 'region ' || i, 'country ' || i % 7 from generate_series(1, 25) i;

create table customers (
  id int primary key, name text not null, email text not null, region_id int not null references regions,
  segment text not null, created date not null, referrer_id int, credit int not null);
insert into customers
select i, 'Customer ' || md5(i::text), 'C' || substr(md5(i::text), 1, 12) || '@Example.org', 1 + h % 25,
  (array['retail', 'trade', 'export', 'public', 'staff'])[1 + g % 5], date '2015-01-01' + (h % 3650)::int,
  case when i % 3 > 0 then 1 + (g % 100000)::int end, (h * g % 10000)::int
from (select i, ((i::bigint * 2654435761) % 4294967296) >> 7 as h, ((i::bigint * 1597334677) % 4294967296) >> 9 as g
  from generate_series(1, 100000) i) numbers;
create index customers_region on customers (region_id);
create index customers_lower_email on customers (lower(email));
create index customers_name on customers (name text_pattern_ops);
create index customers_created on customers (created);
create index customers_referrer on customers (referrer_id);

create table categories (id int primary key, name text not null, department_id int not null);
insert into categories select i, 'category ' || i, 1 + i % 12 from generate_series(1, 200) i;
create table departments (id int primary key, name text not null);
insert into departments select i, 'department ' || i from generate_series(1, 12) i;

create table products (
  id int primary key, sku text not null unique, name text not null, category_id int not null references categories,
  price numeric(10, 2) not null, attributes jsonb not null);
insert into products
select i, 'SKU' || lpad(i::text, 8, '0'), 'product ' || md5((i * 3)::text), 1 + h % 200,
  (100 + g % 99900)::numeric / 100,
  jsonb_build_object('colour', (array['red', 'green', 'blue', 'black', 'white'])[1 + h % 5], 'size', g % 50,
    'serial', 'n' || h % 20000, 'limited', i % 500 = 0)
from (select i, ((i::bigint * 2246822519) % 4294967296) >> 8 as h, ((i::bigint * 3266489917) % 4294967296) >> 8 as g
  from generate_series(1, 100000) i) numbers;
create index products_category on products (category_id);
create index products_attributes on products using gin (attributes);
create index products_serial on products ((attributes ->> 'serial'));

create table orders (
  id int primary key, customer_id int not null references customers, status text not null, placed date not null,
  due date not null, total numeric(10, 2) not null, channel int not null, note text);
insert into orders
select i, 1 + (h % 100000) * (h % 100000) / 100000,
  case when g % 1000 < 970 then 'done' when g % 1000 < 990 then 'shipped' when g % 1000 < 998 then 'open' else 'failed' end,
  date '2020-01-01' + i / 300, date '2020-01-01' + i / 300 + (g % 40)::int, (500 + h % 100000)::numeric / 100,
  1 + (g % 6)::int, case when i % 50 = 0 then 'note ' || h % 1000 end
from (select i, ((i::bigint * 2654435761) % 4294967296) >> 7 as h, ((i::bigint * 668265263) % 4294967296) >> 8 as g
  from generate_series(1, 500000) i) numbers;
create index orders_customer on orders (customer_id);
create index orders_placed on orders (placed, id);
create index orders_status on orders (status);
create index orders_note on orders (note);

create table order_lines (
  order_id int not null references orders, line int not null, product_id int not null references products,
  quantity int not null, price numeric(10, 2) not null, primary key (order_id, line));
insert into order_lines
select (i + 1) / 2, 1 + i % 2, 1 + h % 100000, 1 + (g % 20)::int, (100 + g % 50000)::numeric / 100
from (select i, ((i::bigint * 2654435761) % 4294967296) >> 6 as h, ((i::bigint * 3266489917) % 4294967296) >> 8 as g
  from generate_series(1, 1000000) i) numbers;
create index order_lines_product on order_lines (product_id);

create table tags (id int primary key, name text not null unique);
insert into tags select i, 'tag ' || i from generate_series(1, 500) i;
create table product_tags (product_id int not null, tag_id int not null, primary key (product_id, tag_id));
insert into product_tags
select 1 + i / 3, 1 + (i % 3) * 160 + (((i::bigint * 2654435761) % 4294967296) >> 8) % 160
from generate_series(0, 299999) i;
create index product_tags_tag on product_tags (tag_id);

-- A fact with four dimensions.
create table days (id int primary key, day date not null, month int not null, year int not null);
insert into days select i, day, extract(month from day)::int, extract(year from day)::int
from (select i, date '2021-01-01' + i as day from generate_series(0, 1460) i) days;
create table stores (id int primary key, name text not null, region_id int not null references regions, area int not null);
insert into stores select i, 'store ' || i, 1 + i % 25, 50 + i * 37 % 950 from generate_series(1, 1000) i;
create table promotions (id int primary key, name text not null, kind text not null);
insert into promotions select i, 'promotion ' || i, (array['none', 'coupon', 'discount', 'gift'])[1 + i % 4]
from generate_series(1, 300) i;
create table sales (
  id int primary key, day_id int not null, store_id int not null, product_id int not null, promotion_id int not null,
  amount int not null, cost int not null);
insert into sales
select i, i / 700, 1 + h % 1000, 1 + g % 100000, 1 + (h + g) % 300, 1 + (h * g % 500)::int, 1 + (g % 300)::int
from (select i, ((i::bigint * 2654435761) % 4294967296) >> 8 as h, ((i::bigint * 2246822519) % 4294967296) >> 7 as g
  from generate_series(1, 1000000) i) numbers;
create index sales_day on sales (day_id);
create index sales_store on sales (store_id);
create index sales_product on sales (product_id);

-- A log of what accounts do: few kinds are frequent, most are rare.
create table events (
  id bigint primary key, account int not null, kind int not null, created timestamp not null, duration int not null,
  data jsonb not null);
insert into events
select i, 1 + h % 20000, (u * u / 1000000) * (u * u / 1000000) / 1000, timestamp '2024-01-01' + i * interval '31 seconds',
  (g % 5000)::int, jsonb_build_object('host', 'h' || g % 300, 'code', h % 600)
from (select i, ((i::bigint * 2654435761) % 4294967296) >> 7 as h, ((i::bigint * 3266489917) % 4294967296) >> 9 as g,
  (((i::bigint * 668265263) % 4294967296) >> 8) % 31622 as u from generate_series(1, 500000) i) numbers;
create index events_account on events (account, created);
create index events_kind on events (kind);
create index events_created on events (created);

create table kinds (id int primary key, name text not null);
insert into kinds select i, 'kind ' || i from generate_series(0, 1000) i;

create table nodes (id int primary key, parent_id int, name text not null, weight int not null);
insert into nodes select i, case when i > 1 then i / 8 + (i % 8 > 5)::int end, 'node ' || i, i * 7919 % 1000
from generate_series(1, 100000) i;
create index nodes_parent on nodes (parent_id);

create table bookings (id int primary key, room int not null, during daterange not null, starts date not null, ends date not null);
insert into bookings select i, room, daterange(first, last), first, last
from (select i, 1 + i % 2000 as room, date '2023-01-01' + i / 2000 * 7 + i % 5 as first,
  date '2023-01-01' + i / 2000 * 7 + i % 5 + 2 + i % 11 as last from generate_series(1, 100000) i) stays;
create index bookings_room on bookings (room, starts);
create index bookings_starts on bookings (starts);

create table bands (id int primary key, low int not null, high int not null, name text not null);
insert into bands select i, (i - 1) * 100, i * 100, 'band ' || i from generate_series(1, 100) i;

create table documents (id int primary key, title text not null, body text not null, words tsvector not null);
insert into documents
select i, title, body, to_tsvector('simple', title || ' ' || body)
from (select i, 'title' || i % 1000 || ' ' || substr(md5(i::text), 1, 4) as title,
  'word' || h % 5000 || ' term' || g % 300 || ' common' || i % 3 || ' ' || md5((i * 7)::text) as body
  from (select i, ((i::bigint * 2654435761) % 4294967296) >> 7 as h, ((i::bigint * 668265263) % 4294967296) >> 8 as g
    from generate_series(1, 100000) i) numbers) texts;
create index documents_words on documents using gin (words);
create index documents_title on documents (title text_pattern_ops);

create table readings (sensor int not null, taken date not null, value int not null, primary key (taken, sensor))
partition by range (taken);
create table readings_1 partition of readings for values from ('2024-01-01') to ('2024-03-01');
create table readings_2 partition of readings for values from ('2024-03-01') to ('2024-05-01');
create table readings_3 partition of readings for values from ('2024-05-01') to ('2024-07-01');
create table readings_4 partition of readings for values from ('2024-07-01') to ('2024-09-01');
create table readings_5 partition of readings for values from ('2024-09-01') to ('2024-11-01');
create table readings_6 partition of readings for values from ('2024-11-01') to ('2025-01-01');
insert into readings
select 1 + i % 1000, date '2024-01-01' + i / 1000, (((i::bigint * 2654435761) % 4294967296) >> 8) % 1000
from generate_series(0, 365999) i;
create index readings_sensor on readings (sensor);
create table sensors (id int primary key, site int not null, name text not null);
insert into sensors select i, i % 40, 'sensor ' || i from generate_series(1, 1000) i;

create view customer_sums as
select c.id, c.name, c.region_id, count(o.id) as orders, sum(o.total) as total
from customers c left join orders o on o.customer_id = c.id group by c.id;
create view order_details as
select o.id, o.placed, o.status, c.name as customer, r.name as region, l.line, l.quantity, p.name as product
from orders o join customers c on c.id = o.customer_id join regions r on r.id = c.region_id
join order_lines l on l.order_id = o.id join products p on p.id = l.product_id;
