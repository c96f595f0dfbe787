-- Pages, the first of each group, subqueries, windows, changes.

-- name: page by key
-- order: total
select id, placed, total from orders where (placed, id) > (date '2022-05-05', 260000) order by placed, id limit 25

-- name: page by key, spelled out with OR
-- order: total
select id, placed, total from orders where placed > date '2022-05-05' or (placed = date '2022-05-05' and id > 257000)
order by placed, id limit 25

-- name: page by OFFSET
-- order: total
select id, placed, total from orders order by placed, id offset 100000 limit 25

-- name: page backward
-- order: total
select id, placed, total from orders where (placed, id) < (date '2022-05-05', 257000) order by placed desc, id desc limit 25

-- name: page with a filter
-- order: total
select id, placed, total from orders where status = 'failed' and placed > date '2021-01-01' order by placed, id limit 20

-- name: first rows by a column of which an index has the beginning
-- order: total
select id, account, created, duration from events where account < 500 order by account, created, duration limit 50

-- name: first of each group, LATERAL
select c.id, x.id as order_id, x.placed from customers c, lateral (select o.id, o.placed from orders o
where o.customer_id = c.id order by o.placed desc, o.id desc limit 3) x where c.id between 1000 and 1100

-- name: first of each group, row_number
select account, id, created from (select account, id, created, row_number() over (partition by account order by created desc) n
from events where account between 100 and 200) x where n <= 2

-- name: first of each group, DISTINCT ON
select distinct on (account) account, created, id from events where account < 1000 order by account, created desc

-- name: last of each group, correlated max
select o.customer_id, o.id from orders o where o.customer_id between 2000 and 2200
and o.placed = (select max(x.placed) from orders x where x.customer_id = o.customer_id)

-- name: correlated subquery in the select list
select c.id, (select count(*) from orders o where o.customer_id = c.id) n,
(select max(o.total) from orders o where o.customer_id = c.id) most from customers c where c.region_id = 5 and c.credit < 2000

-- name: aggregate of the same table compared with the row
select count(*), sum(l.price) from order_lines l where l.product_id < 2000
and l.quantity < (select 0.3 * avg(x.quantity) from order_lines x where x.product_id = l.product_id)

-- name: running sum
select customer_id, id, sum(total) over (partition by customer_id order by placed, id) from orders where customer_id between 300 and 330

-- name: rank as a filter
select id, category_id, price from (select id, category_id, price, rank() over (partition by category_id order by price desc, id) r
from products) x where r <= 3

-- name: lag
select count(*) from (select placed - lag(placed) over (partition by customer_id order by placed, id) as gap from orders
where status = 'shipped') x where gap > 200

-- name: window with a condition on its partition from outside
select id, created, n from (select id, account, created, count(*) over (partition by account) n from events) x where account = 4711

-- name: UPDATE with a join
-- before: begin
-- after: rollback
update orders o set note = c.segment from customers c where c.id = o.customer_id and c.created = date '2019-09-09'
returning o.id, o.note

-- name: DELETE with a subquery
-- before: begin
-- after: rollback
delete from product_tags where tag_id = 33 and product_id in (select id from products where category_id < 50)
returning product_id, tag_id

-- name: prepared statement with parameters
-- before: prepare orders_of(int, date) as select id, placed, total from orders where customer_id = $1 and placed >= $2
-- after: deallocate orders_of
execute orders_of(4321, '2021-01-01')

-- name: prepared statement with a range
-- before: prepare orders_between(date, date, text) as select count(*), sum(total) from orders where placed between $1 and $2 and status = $3
-- after: deallocate orders_between
execute orders_between('2023-01-01', '2023-01-10', 'done')
