-- Classes of queries that PostgreSQL's users write.

-- name: inner join, few rows of the one
select o.id, o.placed, c.name from orders o join customers c on c.id = o.customer_id where c.id between 5000 and 5040;

-- name: inner join, whole tables
select count(*), sum(o.total), max(c.credit) from orders o join customers c on c.id = o.customer_id;

-- name: left join, the other's rows tested for null
select count(*) from customers c left join orders o on o.customer_id = c.id where o.id is null;

-- name: left join made inner by a condition
select count(*), sum(o.total) from customers c left join orders o on o.customer_id = c.id where o.status = 'open';

-- name: left join whose table is not used
select c.id, c.name from customers c left join regions r on r.id = c.region_id where c.credit < 20;

-- name: right join
select r.name, count(c.id) from customers c right join regions r on r.id = c.region_id and c.segment = 'staff' group by r.name;

-- name: full join of grouped tables
select count(*), sum(coalesce(a.n, 0) - coalesce(b.n, 0)) from
(select customer_id, count(*) n from orders where status = 'shipped' group by customer_id) a
full join (select customer_id, count(*) n from orders where status = 'open' group by customer_id) b using (customer_id);

-- name: semi join by IN
select count(*) from products where id in (select product_id from order_lines where quantity = 20);

-- name: semi join, few outer rows
select p.id, p.name from products p where p.category_id = 7 and p.price < 20
and exists (select from order_lines l where l.product_id = p.id and l.quantity > 18);

-- name: anti join by NOT EXISTS
select count(*) from products p where not exists (select from order_lines l where l.product_id = p.id);

-- name: anti join, few outer rows
select c.id from customers c where c.region_id = 3 and c.credit < 100
and not exists (select from orders o where o.customer_id = c.id and o.placed > date '2024-01-01');

-- name: NOT IN over a column that is not null
select count(*) from customers where id not in (select customer_id from orders where placed < date '2021-01-01');

-- name: EXISTS under OR
select count(*) from products p where p.price > 990
or exists (select from product_tags t where t.product_id = p.id and t.tag_id = 17);

-- name: self join
select a.id, b.id, b.name from customers a join customers b on b.id = a.referrer_id where a.credit = 42;

-- name: self join to find the neighbour
select count(*) from events a join events b on b.account = a.account and b.created > a.created
and b.created < a.created + interval '2 hours' where a.kind = 900;

-- name: cross join with a condition
select count(*) from tags a, tags b where a.id < b.id and (a.id + b.id) % 50 = 0;

-- name: join on a range of numbers
select b.name, count(*), sum(c.credit) from customers c join bands b on c.credit >= b.low and c.credit < b.high
where c.region_id < 4 group by b.name;

-- name: join on a range of dates
select s.id, count(*) from (select id, starts, ends from bookings where room = 77) s
join orders o on o.placed between s.starts and s.ends group by s.id;

-- name: join on a OR b
select c.id, o.id as order_id from customers c join orders o on o.customer_id = c.id or o.customer_id = c.referrer_id
where c.id between 90000 and 90020;

-- name: join on an expression
select count(*), sum(a.price - b.price) from products a join products b on b.id = a.id + 50000 where a.category_id = 12;

-- name: star of four dimensions
select s.name, sum(f.amount) from sales f join days d on d.id = f.day_id join stores s on s.id = f.store_id
join products p on p.id = f.product_id join promotions m on m.id = f.promotion_id
where d.year = 2023 and d.month = 5 and s.region_id = 4 and p.category_id < 40 and m.kind = 'coupon' group by s.name;

-- name: snowflake
select g.name, r.country, sum(f.amount - f.cost) from sales f join products p on p.id = f.product_id
join categories k on k.id = p.category_id join departments g on g.id = k.department_id
join stores s on s.id = f.store_id join regions r on r.id = s.region_id
where g.name = 'department 5' and r.country = 'country 2' group by g.name, r.country;

-- name: chain of six
select g.name, count(*) from regions r join customers c on c.region_id = r.id join orders o on o.customer_id = c.id
join order_lines l on l.order_id = o.id join products p on p.id = l.product_id join categories k on k.id = p.category_id
join departments g on g.id = k.department_id
where r.name = 'region 9' and o.placed between date '2023-02-01' and date '2023-02-28' group by g.name;

-- name: many to many
select p.id, p.name from products p join product_tags a on a.product_id = p.id join tags x on x.id = a.tag_id
join product_tags b on b.product_id = p.id join tags y on y.id = b.tag_id where x.name = 'tag 20' and y.name = 'tag 423';

-- name: join on a skewed column, common value
select k.name, count(*), sum(e.duration) from events e join kinds k on k.id = e.kind where k.name = 'kind 0' group by k.name;

-- name: join on a skewed column, rare value
select k.name, count(*), sum(e.duration) from events e join kinds k on k.id = e.kind where k.name = 'kind 872' group by k.name;

-- name: join ordered by an index of the first, LIMIT
-- order: total
select o.placed, o.id, c.name from orders o join customers c on c.id = o.customer_id
where c.segment = 'trade' order by o.placed desc, o.id desc limit 20;

-- name: page by key
-- order: total
select id, placed, total from orders where (placed, id) > (date '2022-05-05', 260000) order by placed, id limit 25;

-- name: page by key, spelled out with OR
-- order: total
select id, placed, total from orders where placed > date '2022-05-05' or (placed = date '2022-05-05' and id > 257000)
order by placed, id limit 25;

-- name: page by OFFSET
-- order: total
select id, placed, total from orders order by placed, id offset 100000 limit 25;

-- name: page backward
-- order: total
select id, placed, total from orders where (placed, id) < (date '2022-05-05', 257000) order by placed desc, id desc limit 25;

-- name: page with a filter
-- order: total
select id, placed, total from orders where status = 'failed' and placed > date '2021-01-01' order by placed, id limit 20;

-- name: first rows by a column of which an index has the beginning
-- order: total
select id, account, created, duration from events where account < 500 order by account, created, duration limit 50;

-- name: first of each group, LATERAL
select c.id, x.id as order_id, x.placed from customers c, lateral (select o.id, o.placed from orders o
where o.customer_id = c.id order by o.placed desc, o.id desc limit 3) x where c.id between 1000 and 1100;

-- name: first of each group, row_number
select account, id, created from (select account, id, created, row_number() over (partition by account order by created desc) n
from events where account between 100 and 200) x where n <= 2;

-- name: first of each group, DISTINCT ON
select distinct on (account) account, created, id from events where account < 1000 order by account, created desc;

-- name: last of each group, correlated max
select o.customer_id, o.id from orders o where o.customer_id between 2000 and 2200
and o.placed = (select max(x.placed) from orders x where x.customer_id = o.customer_id);

-- name: correlated subquery in the select list
select c.id, (select count(*) from orders o where o.customer_id = c.id) n,
(select max(o.total) from orders o where o.customer_id = c.id) most from customers c where c.region_id = 5 and c.credit < 2000;

-- name: aggregate of the same table compared with the row
select count(*), sum(l.price) from order_lines l where l.product_id < 2000
and l.quantity < (select 0.3 * avg(x.quantity) from order_lines x where x.product_id = l.product_id);

-- name: running sum
select customer_id, id, sum(total) over (partition by customer_id order by placed, id) from orders where customer_id between 300 and 330;

-- name: rank as a filter
select id, category_id, price from (select id, category_id, price, rank() over (partition by category_id order by price desc, id) r
from products) x where r <= 3;

-- name: lag
select count(*) from (select placed - lag(placed) over (partition by customer_id order by placed, id) as gap from orders
where status = 'shipped') x where gap > 200;

-- name: window with a condition on its partition from outside
select id, created, n from (select id, account, created, count(*) over (partition by account) n from events) x where account = 4711;

begin;
-- name: UPDATE with a join
update orders o set note = c.segment from customers c where c.id = o.customer_id and c.created = date '2019-09-09'
returning o.id, o.note;
rollback;

begin;
-- name: DELETE with a subquery
delete from product_tags where tag_id = 33 and product_id in (select id from products where category_id < 50)
returning product_id, tag_id;
rollback;

prepare orders_of(int, date) as select id, placed, total from orders where customer_id = $1 and placed >= $2;
-- name: prepared statement with parameters
execute orders_of(4321, '2021-01-01');
deallocate orders_of;

prepare orders_between(date, date, text) as select count(*), sum(total) from orders where placed between $1 and $2 and status = $3;
-- name: prepared statement with a range
execute orders_between('2023-01-01', '2023-01-10', 'done');
deallocate orders_between;

-- name: OR on one column
select id, total from orders where customer_id = 77 or customer_id = 7007 or customer_id = 70007;

-- name: OR on two indexed columns
select id, placed, customer_id from orders where customer_id = 1234 or note = 'note 77';

-- name: range of keys from below
select id, name from products where id < 100;

-- name: BETWEEN on keys of many rows
select count(*), sum(quantity) from order_lines where order_id between 100000 and 130000;

-- name: range of dates with arithmetic
select count(*), sum(total) from orders where placed >= date '2023-01-01' and placed < date '2023-01-01' + interval '1 month';

-- name: range of times, two-sided
select count(*), avg(duration) from events where created between '2024-03-01 00:00:00' and '2024-03-02 12:00:00';

-- name: ranges overlap
select id, room from bookings where during && daterange('2023-05-01', '2023-05-03') and room < 100;

-- name: json, text of a key with an index
select id, name from products where attributes ->> 'serial' = 'n4242';

-- name: json, containment
select id from products where attributes @> '{"size": 7, "limited": true}';

-- name: LIKE from the beginning
select id, name from customers where name like 'Customer fec8%';

-- name: LIKE in the middle
select count(*) from customers where name like '%beef%';

-- name: lower() of a column
select id, email from customers where lower(email) = lower('C' || substr(md5('4711'), 1, 12) || '@example.ORG');

-- name: full text, rare words
select id, title from documents where words @@ to_tsquery('simple', 'word4499 & term30');

-- name: common value of a skewed column
select count(*), sum(total) from orders where status = 'done';

-- name: rare value of a skewed column
select id, placed from orders where status = 'failed' and total > 900;

-- name: constant false condition
select * from sales where 1 = 2 and amount > 7;

-- name: IN list of 5
select id, total from orders where id in (5, 50005, 150005, 250005, 350005);

-- name: two ranges joined by OR
select count(*), sum(value) from readings where taken < date '2024-01-05' or taken > date '2024-12-25';

-- name: partitions pruned by a date
select count(*), sum(value) from readings where taken between date '2024-06-10' and date '2024-06-20';

-- name: partitions, an index that is not the key
select taken, value from readings where sensor = 555 and value > 900;

-- name: partitioned table joined
select s.site, count(*), avg(r.value)::numeric(12, 6) from readings r join sensors s on s.id = r.sensor
where s.site = 5 and r.taken between date '2024-02-15' and date '2024-03-15' group by s.site;

-- name: IN list of 500
select count(*), sum(total) from orders where id in (
7920, 15839, 23758, 31677, 39596, 47515, 55434, 63353, 71272, 79191, 87110, 95029, 102948, 110867, 118786, 126705, 134624, 142543, 150462, 158381,
166300, 174219, 182138, 190057, 197976, 205895, 213814, 221733, 229652, 237571, 245490, 253409, 261328, 269247, 277166, 285085, 293004, 300923, 308842, 316761,
324680, 332599, 340518, 348437, 356356, 364275, 372194, 380113, 388032, 395951, 403870, 411789, 419708, 427627, 435546, 443465, 451384, 459303, 467222, 475141,
483060, 490979, 498898, 6817, 14736, 22655, 30574, 38493, 46412, 54331, 62250, 70169, 78088, 86007, 93926, 101845, 109764, 117683, 125602, 133521,
141440, 149359, 157278, 165197, 173116, 181035, 188954, 196873, 204792, 212711, 220630, 228549, 236468, 244387, 252306, 260225, 268144, 276063, 283982, 291901,
299820, 307739, 315658, 323577, 331496, 339415, 347334, 355253, 363172, 371091, 379010, 386929, 394848, 402767, 410686, 418605, 426524, 434443, 442362, 450281,
458200, 466119, 474038, 481957, 489876, 497795, 5714, 13633, 21552, 29471, 37390, 45309, 53228, 61147, 69066, 76985, 84904, 92823, 100742, 108661,
116580, 124499, 132418, 140337, 148256, 156175, 164094, 172013, 179932, 187851, 195770, 203689, 211608, 219527, 227446, 235365, 243284, 251203, 259122, 267041,
274960, 282879, 290798, 298717, 306636, 314555, 322474, 330393, 338312, 346231, 354150, 362069, 369988, 377907, 385826, 393745, 401664, 409583, 417502, 425421,
433340, 441259, 449178, 457097, 465016, 472935, 480854, 488773, 496692, 4611, 12530, 20449, 28368, 36287, 44206, 52125, 60044, 67963, 75882, 83801,
91720, 99639, 107558, 115477, 123396, 131315, 139234, 147153, 155072, 162991, 170910, 178829, 186748, 194667, 202586, 210505, 218424, 226343, 234262, 242181,
250100, 258019, 265938, 273857, 281776, 289695, 297614, 305533, 313452, 321371, 329290, 337209, 345128, 353047, 360966, 368885, 376804, 384723, 392642, 400561,
408480, 416399, 424318, 432237, 440156, 448075, 455994, 463913, 471832, 479751, 487670, 495589, 3508, 11427, 19346, 27265, 35184, 43103, 51022, 58941,
66860, 74779, 82698, 90617, 98536, 106455, 114374, 122293, 130212, 138131, 146050, 153969, 161888, 169807, 177726, 185645, 193564, 201483, 209402, 217321,
225240, 233159, 241078, 248997, 256916, 264835, 272754, 280673, 288592, 296511, 304430, 312349, 320268, 328187, 336106, 344025, 351944, 359863, 367782, 375701,
383620, 391539, 399458, 407377, 415296, 423215, 431134, 439053, 446972, 454891, 462810, 470729, 478648, 486567, 494486, 2405, 10324, 18243, 26162, 34081,
42000, 49919, 57838, 65757, 73676, 81595, 89514, 97433, 105352, 113271, 121190, 129109, 137028, 144947, 152866, 160785, 168704, 176623, 184542, 192461,
200380, 208299, 216218, 224137, 232056, 239975, 247894, 255813, 263732, 271651, 279570, 287489, 295408, 303327, 311246, 319165, 327084, 335003, 342922, 350841,
358760, 366679, 374598, 382517, 390436, 398355, 406274, 414193, 422112, 430031, 437950, 445869, 453788, 461707, 469626, 477545, 485464, 493383, 1302, 9221,
17140, 25059, 32978, 40897, 48816, 56735, 64654, 72573, 80492, 88411, 96330, 104249, 112168, 120087, 128006, 135925, 143844, 151763, 159682, 167601,
175520, 183439, 191358, 199277, 207196, 215115, 223034, 230953, 238872, 246791, 254710, 262629, 270548, 278467, 286386, 294305, 302224, 310143, 318062, 325981,
333900, 341819, 349738, 357657, 365576, 373495, 381414, 389333, 397252, 405171, 413090, 421009, 428928, 436847, 444766, 452685, 460604, 468523, 476442, 484361,
492280, 199, 8118, 16037, 23956, 31875, 39794, 47713, 55632, 63551, 71470, 79389, 87308, 95227, 103146, 111065, 118984, 126903, 134822, 142741,
150660, 158579, 166498, 174417, 182336, 190255, 198174, 206093, 214012, 221931, 229850, 237769, 245688, 253607, 261526, 269445, 277364, 285283, 293202, 301121,
309040, 316959, 324878, 332797, 340716, 348635, 356554, 364473, 372392, 380311, 388230, 396149, 404068, 411987, 419906, 427825, 435744, 443663, 451582, 459501);

-- name: groups by an indexed key, LIMIT
-- order: total
select customer_id, count(*), sum(total) from orders group by customer_id order by customer_id limit 10;

-- name: many groups
select count(*), max(n), sum(n) from (select product_id, count(*) n from order_lines group by product_id) x;

-- name: few groups
select status, channel, count(*), sum(total), avg(total)::numeric(14, 6) from orders group by status, channel;

-- name: groups by an expression
select extract(year from placed)::int as year, extract(month from placed)::int as month, count(*) from orders group by 1, 2;

-- name: HAVING
select customer_id, count(*) from orders group by customer_id having count(*) > 150;

-- name: grouping sets
select segment, region_id, count(*), sum(credit) from customers group by grouping sets ((segment, region_id), (segment), ());

-- name: count of distinct values
select kind, count(distinct account) from events where kind between 100 and 130 group by kind;

-- name: count of distinct values of a table
select count(distinct customer_id) from orders;

-- name: DISTINCT on an indexed column of few values
select distinct status from orders;

-- name: DISTINCT on an indexed column of many
select count(*) from (select distinct account from events) x;

-- name: min and max of an indexed column
select min(placed), max(placed) from orders;

-- name: groups of the partition key
select date_trunc('month', taken)::date as month, count(*), max(value) from readings group by 1;

-- name: UNION ALL with a condition from outside
select * from (select id, placed as day, 'order' as what from orders union all select id, created, 'customer' from customers) x
where day = date '2021-07-07';

-- name: condition into a grouped subquery
select * from (select customer_id, count(*) n, sum(total) from orders group by customer_id) x where customer_id = 31415;

-- name: join with a grouped subquery, few rows
select c.id, c.name, x.n from customers c join (select customer_id, count(*) n from orders group by customer_id) x
on x.customer_id = c.id where c.created = date '2020-02-02';

-- name: view of groups, one row
select * from customer_sums where id = 2718;

-- name: view of joins, one row's conditions
select * from order_details where id = 123456;

-- name: CTE used once
with late as (select * from orders where due - placed > 30) select count(*), sum(total) from late where customer_id = 55;

-- name: CTE used twice
with sums as (select store_id, sum(amount) s from sales where day_id between 100 and 200 group by store_id)
select a.store_id, a.s from sums a where a.s > (select 1.15 * avg(s) from sums);

-- name: recursive CTE over a tree, downward
with recursive below as (select id, parent_id, weight, 1 as depth from nodes where id = 20
union all select n.id, n.parent_id, n.weight, b.depth + 1 from nodes n join below b on n.parent_id = b.id)
select depth, count(*), sum(weight) from below group by depth;

-- name: recursive CTE over a tree, upward
with recursive above as (select id, parent_id from nodes where id = 98765
union all select n.id, n.parent_id from nodes n join above a on n.id = a.parent_id) select id from above;
