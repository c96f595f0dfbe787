create table team (id int primary key, name text not null);
create table player (id int primary key, team int, score int not null);
create index player_team on player (team);
insert into team select i, 'team ' || i from generate_series(1, 5) i;
insert into player select i, i % 4, i * 3 from generate_series(1, 20) i;
analyze team;
analyze player;
-- shown from here on
-- A subquery that does not depend on the row runs once.
SELECT id FROM player WHERE score = (SELECT max(score) FROM player);
-- One that does.
SELECT t.name, (SELECT sum(score) FROM player p WHERE p.team = t.id) FROM team t WHERE t.id < 3;
-- EXISTS becomes a join.
SELECT t.id FROM team t WHERE EXISTS (SELECT FROM player p WHERE p.team = t.id AND p.score > 50);
-- So does its opposite.
SELECT t.id FROM team t WHERE NOT EXISTS (SELECT FROM player p WHERE p.team = t.id);
-- NOT IN, whose NULLs matter.
SELECT id FROM team WHERE id NOT IN (SELECT team FROM player);
-- A query that is named, and used twice.
WITH best AS (SELECT team, max(score) AS score FROM player GROUP BY team)
  SELECT a.team FROM best a JOIN best b ON a.score > b.score WHERE b.team = 1;
-- A recursive one.
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT t.name FROM n JOIN team t ON t.id = n.i;
-- Results put together.
SELECT id FROM team UNION SELECT team FROM player ORDER BY 1 LIMIT 3;
-- An aggregate of the rows that belong to a row: groups, joined.
SELECT p.id FROM player p WHERE p.score > (SELECT avg(o.score) FROM player o WHERE o.score / 10 = p.score / 10);
-- Count is 0 where there is no group.
SELECT t.id FROM team t, player p WHERE (SELECT count(*) FROM player o WHERE o.score = p.score + t.id) = 0 AND p.id < 9;
-- The order of a subquery's rows.
SELECT s.team, count(*) FROM (SELECT team, id FROM player ORDER BY team OFFSET 1) s GROUP BY s.team ORDER BY s.team;
