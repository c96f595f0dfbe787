-- Joins. A comment line "-- name:" begins a class; "-- before:" and "-- after:" are run around it and not timed;
-- "-- order: total" says that the order of the rows is part of the answer.

-- name: inner join, few rows of the one
select o.id, o.placed, c.name from orders o join customers c on c.id = o.customer_id where c.id between 5000 and 5040

-- name: inner join, whole tables
select count(*), sum(o.total), max(c.credit) from orders o join customers c on c.id = o.customer_id

-- name: left join, the other's rows tested for null
select count(*) from customers c left join orders o on o.customer_id = c.id where o.id is null

-- name: left join made inner by a condition
select count(*), sum(o.total) from customers c left join orders o on o.customer_id = c.id where o.status = 'open'

-- name: left join whose table is not used
select c.id, c.name from customers c left join regions r on r.id = c.region_id where c.credit < 20

-- name: right join
select r.name, count(c.id) from customers c right join regions r on r.id = c.region_id and c.segment = 'staff' group by r.name

-- name: full join of grouped tables
select count(*), sum(coalesce(a.n, 0) - coalesce(b.n, 0)) from
(select customer_id, count(*) n from orders where status = 'shipped' group by customer_id) a
full join (select customer_id, count(*) n from orders where status = 'open' group by customer_id) b using (customer_id)

-- name: semi join by IN
select count(*) from products where id in (select product_id from order_lines where quantity = 20)

-- name: semi join, few outer rows
select p.id, p.name from products p where p.category_id = 7 and p.price < 20
and exists (select from order_lines l where l.product_id = p.id and l.quantity > 18)

-- name: anti join by NOT EXISTS
select count(*) from products p where not exists (select from order_lines l where l.product_id = p.id)

-- name: anti join, few outer rows
select c.id from customers c where c.region_id = 3 and c.credit < 100
and not exists (select from orders o where o.customer_id = c.id and o.placed > date '2024-01-01')

-- name: NOT IN over a column that is not null
select count(*) from customers where id not in (select customer_id from orders where placed < date '2021-01-01')

-- name: EXISTS under OR
select count(*) from products p where p.price > 990
or exists (select from product_tags t where t.product_id = p.id and t.tag_id = 17)

-- name: self join
select a.id, b.id, b.name from customers a join customers b on b.id = a.referrer_id where a.credit = 42

-- name: self join to find the neighbour
select count(*) from events a join events b on b.account = a.account and b.created > a.created
and b.created < a.created + interval '2 hours' where a.kind = 900

-- name: cross join with a condition
select count(*) from tags a, tags b where a.id < b.id and (a.id + b.id) % 50 = 0

-- name: join on a range of numbers
select b.name, count(*), sum(c.credit) from customers c join bands b on c.credit >= b.low and c.credit < b.high
where c.region_id < 4 group by b.name

-- name: join on a range of dates
select s.id, count(*) from (select id, starts, ends from bookings where room = 77) s
join orders o on o.placed between s.starts and s.ends group by s.id

-- name: join on a OR b
select c.id, o.id as order_id from customers c join orders o on o.customer_id = c.id or o.customer_id = c.referrer_id
where c.id between 90000 and 90020

-- name: join on an expression
select count(*), sum(a.price - b.price) from products a join products b on b.id = a.id + 50000 where a.category_id = 12

-- name: star of four dimensions
select s.name, sum(f.amount) from sales f join days d on d.id = f.day_id join stores s on s.id = f.store_id
join products p on p.id = f.product_id join promotions m on m.id = f.promotion_id
where d.year = 2023 and d.month = 5 and s.region_id = 4 and p.category_id < 40 and m.kind = 'coupon' group by s.name

-- name: snowflake
select g.name, r.country, sum(f.amount - f.cost) from sales f join products p on p.id = f.product_id
join categories k on k.id = p.category_id join departments g on g.id = k.department_id
join stores s on s.id = f.store_id join regions r on r.id = s.region_id
where g.name = 'department 5' and r.country = 'country 2' group by g.name, r.country

-- name: chain of six
select g.name, count(*) from regions r join customers c on c.region_id = r.id join orders o on o.customer_id = c.id
join order_lines l on l.order_id = o.id join products p on p.id = l.product_id join categories k on k.id = p.category_id
join departments g on g.id = k.department_id
where r.name = 'region 9' and o.placed between date '2023-02-01' and date '2023-02-28' group by g.name

-- name: many to many
select p.id, p.name from products p join product_tags a on a.product_id = p.id join tags x on x.id = a.tag_id
join product_tags b on b.product_id = p.id join tags y on y.id = b.tag_id where x.name = 'tag 20' and y.name = 'tag 423'

-- name: join on a skewed column, common value
select k.name, count(*), sum(e.duration) from events e join kinds k on k.id = e.kind where k.name = 'kind 0' group by k.name

-- name: join on a skewed column, rare value
select k.name, count(*), sum(e.duration) from events e join kinds k on k.id = e.kind where k.name = 'kind 872' group by k.name

-- name: join ordered by an index of the first, LIMIT
-- order: total
select o.placed, o.id, c.name from orders o join customers c on c.id = o.customer_id
where c.segment = 'trade' order by o.placed desc, o.id desc limit 20
