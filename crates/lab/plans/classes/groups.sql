-- Groups, DISTINCT, UNION, views, CTEs.

-- name: groups by an indexed key, LIMIT
-- order: total
select customer_id, count(*), sum(total) from orders group by customer_id order by customer_id limit 10

-- name: many groups
select count(*), max(n), sum(n) from (select product_id, count(*) n from order_lines group by product_id) x

-- name: few groups
select status, channel, count(*), sum(total), avg(total)::numeric(14, 6) from orders group by status, channel

-- name: groups by an expression
select extract(year from placed)::int as year, extract(month from placed)::int as month, count(*) from orders group by 1, 2

-- name: HAVING
select customer_id, count(*) from orders group by customer_id having count(*) > 150

-- name: grouping sets
select segment, region_id, count(*), sum(credit) from customers group by grouping sets ((segment, region_id), (segment), ())

-- name: count of distinct values
select kind, count(distinct account) from events where kind between 100 and 130 group by kind

-- name: count of distinct values of a table
select count(distinct customer_id) from orders

-- name: DISTINCT on an indexed column of few values
select distinct status from orders

-- name: DISTINCT on an indexed column of many
select count(*) from (select distinct account from events) x

-- name: min and max of an indexed column
select min(placed), max(placed) from orders

-- name: groups of the partition key
select date_trunc('month', taken)::date as month, count(*), max(value) from readings group by 1

-- name: UNION ALL with a condition from outside
select * from (select id, placed as day, 'order' as what from orders union all select id, created, 'customer' from customers) x
where day = date '2021-07-07'

-- name: condition into a grouped subquery
select * from (select customer_id, count(*) n, sum(total) from orders group by customer_id) x where customer_id = 31415

-- name: join with a grouped subquery, few rows
select c.id, c.name, x.n from customers c join (select customer_id, count(*) n from orders group by customer_id) x
on x.customer_id = c.id where c.created = date '2020-02-02'

-- name: view of groups, one row
select * from customer_sums where id = 2718

-- name: view of joins, one row's conditions
select * from order_details where id = 123456

-- name: CTE used once
with late as (select * from orders where due - placed > 30) select count(*), sum(total) from late where customer_id = 55

-- name: CTE used twice
with sums as (select store_id, sum(amount) s from sales where day_id between 100 and 200 group by store_id)
select a.store_id, a.s from sums a where a.s > (select 1.15 * avg(s) from sums)

-- name: recursive CTE over a tree, downward
with recursive below as (select id, parent_id, weight, 1 as depth from nodes where id = 20
union all select n.id, n.parent_id, n.weight, b.depth + 1 from nodes n join below b on n.parent_id = b.id)
select depth, count(*), sum(weight) from below group by depth

-- name: recursive CTE over a tree, upward
with recursive above as (select id, parent_id from nodes where id = 98765
union all select n.id, n.parent_id from nodes n join above a on n.id = a.parent_id) select id from above
