-- A schema with an object of every kind that KilnDB has, and some rows: the test crates/lab/tests/dump.rs dumps and restores it.
CREATE SCHEMA shop;
COMMENT ON SCHEMA shop IS 'the shop''s schema';
CREATE SCHEMA "Odd Name";
CREATE EXTENSION pg_trgm;
CREATE EXTENSION btree_gin WITH SCHEMA shop;
CREATE EXTENSION bloom WITH SCHEMA shop;
CREATE EXTENSION unaccent;
CREATE EXTENSION pgcrypto;
CREATE EXTENSION "uuid-ossp";
CREATE EXTENSION hstore WITH SCHEMA shop;
CREATE EXTENSION citext;
COMMENT ON EXTENSION pg_trgm IS 'similar words';

CREATE TYPE shop.state AS ENUM ('new', 'paid', 'it''s gone');
COMMENT ON TYPE shop.state IS 'of an order';
CREATE TYPE shop.address AS (street text, zip varchar(10), extra numeric(8,2)[]);
COMMENT ON COLUMN shop.address.zip IS 'as text';
CREATE DOMAIN shop.positive AS integer DEFAULT 1 NOT NULL CONSTRAINT above_zero CHECK (VALUE > 0);
COMMENT ON DOMAIN shop.positive IS 'more than nothing';
CREATE DOMAIN shop.short AS varchar(20) CHECK (length(VALUE) > 1) CHECK (VALUE <> 'none');
CREATE TYPE shop.span AS RANGE (subtype = numeric);
CREATE TYPE public.floats AS RANGE (subtype = float8, subtype_diff = float8mi, multirange_type_name = many_floats);

CREATE SEQUENCE shop.numbers AS bigint START WITH 100 INCREMENT BY 5 MINVALUE 10 MAXVALUE 1000000 CACHE 3 CYCLE;
COMMENT ON SEQUENCE shop.numbers IS 'of invoices';
CREATE SEQUENCE public.loose;
CREATE UNLOGGED SEQUENCE shop.light;
SELECT nextval('shop.numbers'), nextval('shop.numbers');

CREATE FUNCTION shop.double(n integer) RETURNS integer LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE COST 5 AS 'SELECT n * 2';
CREATE FUNCTION shop.cut(t text, n integer DEFAULT 3) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT left(t, n) $$;
COMMENT ON FUNCTION shop.cut(text, integer) IS 'the beginning';
CREATE FUNCTION shop.rows_of(low integer, OUT n integer, OUT name text) RETURNS SETOF record LANGUAGE plpgsql STABLE ROWS 10
 SET work_mem TO '8MB' SET search_path TO shop, public AS $$
BEGIN
  RETURN QUERY SELECT i, 'n' || i FROM generate_series(low, low + 2) i;
END $$;
CREATE FUNCTION shop.table_of(VARIADIC list integer[]) RETURNS TABLE(a integer, b integer) LANGUAGE sql AS 'SELECT x, x + 1 FROM unnest(list) x';
CREATE FUNCTION shop.at_once(a integer, b integer) RETURNS integer LANGUAGE sql RETURN a + b;
CREATE FUNCTION shop.defined() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $fn$
BEGIN
  NEW.changed := timestamp '2026-01-01';
  RETURN NEW;
END $fn$;
CREATE FUNCTION shop.told() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE PROCEDURE shop.clear(IN what text, INOUT n integer DEFAULT 0) LANGUAGE plpgsql AS $$ BEGIN n := n + 1; END $$;
COMMENT ON PROCEDURE shop.clear IS 'does nothing much';

CREATE TABLE shop.customer (
  id integer GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY 2) PRIMARY KEY,
  name text NOT NULL COLLATE "C",
  email varchar(100) UNIQUE,
  born date,
  home shop.address,
  status shop.state DEFAULT 'new'::shop.state NOT NULL,
  level shop.positive,
  nick shop.short,
  tags text[] DEFAULT '{}'::text[],
  doc jsonb DEFAULT '{}' NOT NULL,
  during shop.span,
  name_upper text GENERATED ALWAYS AS (upper(name)) STORED,
  changed timestamp DEFAULT CURRENT_TIMESTAMP,
  CONSTRAINT born_late CHECK (born > '1900-01-01'),
  CONSTRAINT named CHECK (char_length(name) > 0 AND name <> 'nobody') 
);
COMMENT ON TABLE shop.customer IS 'who buys';
COMMENT ON COLUMN shop.customer.name IS 'the full name';
COMMENT ON CONSTRAINT named ON shop.customer IS 'no blanks';
ALTER TABLE shop.customer ALTER COLUMN doc SET STORAGE EXTERNAL;
ALTER TABLE shop.customer ALTER COLUMN name SET STATISTICS 500;
ALTER TABLE shop.customer SET (fillfactor = 70);

CREATE TABLE shop.orders (
  id bigserial PRIMARY KEY,
  customer integer NOT NULL REFERENCES shop.customer ON DELETE CASCADE,
  other integer,
  number bigint DEFAULT nextval('shop.numbers'),
  total numeric(12,2) DEFAULT 0.00 NOT NULL CHECK (total >= 0),
  twice integer DEFAULT shop.double(4),
  state shop.state DEFAULT 'new',
  note text,
  CONSTRAINT other_fk FOREIGN KEY (other) REFERENCES shop.customer(id) ON UPDATE SET NULL DEFERRABLE INITIALLY DEFERRED
);
CREATE INDEX orders_state ON shop.orders (state, total DESC NULLS LAST) INCLUDE (note) WHERE state <> 'paid';
CREATE INDEX orders_lower ON shop.orders (lower(note), (total * 2));
CREATE INDEX orders_hash ON shop.orders USING hash (number);
CREATE INDEX orders_brin ON shop.orders USING brin (id) WITH (pages_per_range = 16);
CREATE INDEX orders_words ON shop.orders USING gin (to_tsvector('english', note));
CREATE INDEX orders_trigrams ON shop.orders USING gin (note gin_trgm_ops);
CREATE INDEX orders_bloom ON shop.orders USING bloom (note) WITH (length = 100, col1 = 3);
CREATE TEXT SEARCH CONFIGURATION public.plain (COPY = english);
ALTER TEXT SEARCH CONFIGURATION public.plain ALTER MAPPING FOR word WITH unaccent, english_stem;
CREATE TEXT SEARCH DICTIONARY shop.plain (TEMPLATE = unaccent, RULES = 'unaccent');
CREATE INDEX customer_doc ON shop.customer USING gin (doc jsonb_path_ops);
CREATE INDEX customer_tags ON shop.customer USING gin (tags) WITH (fastupdate = off);
CREATE INDEX customer_pattern ON shop.customer (email varchar_pattern_ops);
CREATE UNIQUE INDEX customer_nick ON shop.customer (nick) NULLS NOT DISTINCT;
CREATE INDEX orders_cut ON shop.orders (shop.cut(note, 5));
COMMENT ON INDEX shop.orders_state IS 'open orders';
ALTER TABLE shop.customer CLUSTER ON customer_pkey;
ALTER TABLE shop.orders REPLICA IDENTITY FULL;

CREATE TABLE public.plain (a integer, b serial, c smallserial, d char(5), e bit(3), f varbit(8), g time(3), h timestamptz(0), i interval hour to minute, j inet, k macaddr, l uuid, m bytea, n "char", o name, p oid, q float4, r double precision, s json, t tsvector, u tsquery, v int4range, w cidr, x interval(3));
CREATE UNLOGGED TABLE public.quick (a integer PRIMARY KEY, b text);
CREATE TABLE "Odd Name"."Table ""x""" ("Select" integer, "a b" text DEFAULT 'it''s', CONSTRAINT "Key" UNIQUE ("Select", "a b"));
CREATE TABLE public.nothing ();
CREATE TABLE public.self (id integer PRIMARY KEY, parent integer REFERENCES public.self, CONSTRAINT not_self CHECK (id <> parent) NO INHERIT);
CREATE TABLE public.late (a integer, b integer);
INSERT INTO public.late VALUES (-1, 1);
ALTER TABLE public.late ADD CONSTRAINT late_a CHECK (a > 0) NOT VALID;
ALTER TABLE public.late ADD CONSTRAINT late_b NOT NULL b NO INHERIT;
ALTER TABLE public.late ADD COLUMN gone integer, ADD COLUMN stays text DEFAULT 'x';
ALTER TABLE public.late DROP COLUMN gone;

CREATE TABLE public.sales (day date NOT NULL, region text NOT NULL, id integer NOT NULL, amount numeric DEFAULT 0, PRIMARY KEY (day, region, id)) PARTITION BY RANGE (day);
CREATE TABLE public.sales_2025 PARTITION OF public.sales FOR VALUES FROM ('2025-01-01') TO ('2026-01-01') PARTITION BY LIST (region);
CREATE TABLE public.sales_2025_north PARTITION OF public.sales_2025 FOR VALUES IN ('north', 'top') PARTITION BY HASH (id);
CREATE TABLE public.sales_2025_north_0 PARTITION OF public.sales_2025_north FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE public.sales_2025_north_1 PARTITION OF public.sales_2025_north (amount DEFAULT 7) FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE public.sales_2025_rest PARTITION OF public.sales_2025 DEFAULT;
CREATE TABLE public.sales_2026 PARTITION OF public.sales FOR VALUES FROM ('2026-01-01') TO (MAXVALUE);
CREATE TABLE public.sales_old (amount numeric, id integer NOT NULL, day date NOT NULL, region text NOT NULL);
ALTER TABLE public.sales ATTACH PARTITION public.sales_old FOR VALUES FROM (MINVALUE) TO ('2025-01-01');
CREATE INDEX sales_amount ON public.sales (amount);
CREATE INDEX sales_own ON public.sales_2026 (region);
CREATE TABLE public.keyed (a integer, b text, c integer) PARTITION BY RANGE (lower(b), (a + 1));
CREATE TABLE public.keyed_1 PARTITION OF public.keyed FOR VALUES FROM ('a', 1) TO ('m', MAXVALUE);
CREATE TABLE public.sale_lines (day date, region text, id integer, line integer, FOREIGN KEY (day, region, id) REFERENCES public.sales);
COMMENT ON TABLE public.sales IS 'in parts';

CREATE VIEW shop.open_orders AS SELECT o.id, c.name, o.total FROM shop.orders o JOIN shop.customer c ON c.id = o.customer WHERE o.state <> 'paid';
CREATE VIEW public.totals AS SELECT customer, sum(total) AS sum, count(*) AS count FROM shop.orders GROUP BY customer HAVING sum(total) > 1 ORDER BY 2 DESC LIMIT 10;
CREATE VIEW public.over_view AS SELECT * FROM shop.open_orders WHERE total > 10;
COMMENT ON VIEW public.over_view IS 'a view of a view';
COMMENT ON COLUMN public.over_view.total IS 'of a view';
CREATE VIEW public.tree (node, depth) AS WITH RECURSIVE t AS (SELECT id, 1 AS d FROM public.self WHERE parent IS NULL UNION ALL SELECT s.id, t.d + 1 FROM public.self s JOIN t ON s.parent = t.id) SELECT id, d FROM t;
CREATE VIEW public.cased AS SELECT CASE WHEN a > 0 THEN 'plus' ELSE 'minus' END AS sign, coalesce(b, 0) AS b, shop.double(a) AS twice, row_number() OVER (PARTITION BY a ORDER BY b) AS nr FROM public.late;
ALTER VIEW public.over_view ALTER COLUMN total SET DEFAULT 5;

CREATE TABLE public.people (name citext PRIMARY KEY CHECK (name <> 'nobody'), facts shop.hstore DEFAULT 'a=>1' NOT NULL, lists shop.hstore[], names citext[] DEFAULT '{A}');
CREATE INDEX people_facts ON public.people USING gin (facts);
CREATE INDEX people_begin ON public.people (name citext_pattern_ops);
CREATE DOMAIN public.nickname AS citext CHECK (VALUE <> 'admin');
CREATE TABLE public.named (n public.nickname UNIQUE, person citext REFERENCES public.people);
CREATE FUNCTION public.fact(shop.hstore, citext) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT $1 OPERATOR(shop.->) lower($2)';

CREATE TRIGGER set_changed BEFORE INSERT OR UPDATE OF name, email ON shop.customer FOR EACH ROW EXECUTE FUNCTION shop.defined();
CREATE TRIGGER tell AFTER DELETE ON shop.customer REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION shop.told('a', 'b c');
CREATE TRIGGER tell_row AFTER UPDATE ON public.sales FOR EACH ROW WHEN (old.amount IS DISTINCT FROM new.amount) EXECUTE FUNCTION shop.told();
CREATE CONSTRAINT TRIGGER later AFTER INSERT ON shop.orders DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION shop.told();
CREATE TRIGGER instead INSTEAD OF INSERT ON public.over_view FOR EACH ROW EXECUTE FUNCTION shop.told();
ALTER TABLE shop.customer DISABLE TRIGGER tell;
COMMENT ON TRIGGER set_changed ON shop.customer IS 'when it was';

CREATE POLICY seen ON shop.orders USING (total >= 0 AND shop.double(2) = 4);
CREATE POLICY own ON shop.orders AS RESTRICTIVE FOR UPDATE USING (EXISTS (SELECT 1 FROM shop.customer c WHERE c.id = customer AND c.name = CURRENT_USER)) WITH CHECK (note IS NOT NULL OR state IN ('new', 'paid'));
CREATE POLICY "New ones" ON shop.orders FOR INSERT WITH CHECK (customer IN (SELECT id FROM shop.customer WHERE born > '1950-01-01'));
CREATE POLICY gone ON shop.orders FOR DELETE TO CURRENT_USER USING (total < (SELECT max(o.total) FROM shop.orders o));
CREATE POLICY none ON shop.customer FOR SELECT;
CREATE POLICY whole ON public.sales USING (region <> 'north');
CREATE POLICY part ON public.sales_2026 FOR SELECT USING (true);
COMMENT ON POLICY seen ON shop.orders IS 'all of them';
ALTER TABLE shop.orders ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.sales ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE public.late FORCE ROW LEVEL SECURITY;
ALTER TABLE public.self ENABLE ROW LEVEL SECURITY;

CREATE TEXT SEARCH DICTIONARY shop.words (TEMPLATE = simple, StopWords = english, Accept = false);
CREATE TEXT SEARCH CONFIGURATION shop.mine (COPY = english);
ALTER TEXT SEARCH CONFIGURATION shop.mine ALTER MAPPING FOR asciiword, word WITH shop.words, english_stem;
CREATE TEXT SEARCH CONFIGURATION public.bare (PARSER = default);
COMMENT ON TEXT SEARCH CONFIGURATION shop.mine IS 'of our own';
COMMENT ON TEXT SEARCH DICTIONARY shop.words IS 'words';

INSERT INTO shop.customer (name, email, born, home, tags, doc, during, nick) VALUES ('Ann', 'ann@x', '1990-05-05', ROW('Main "St"', '123', '{1.5,2}'), '{a,"b c"}', '{"k": [1, null]}', '[1.5,9)', 'annie'), (E'Bob\tB\\', NULL, NULL, NULL, NULL, '[]', NULL, 'bobby');
INSERT INTO shop.orders (customer, total, note) VALUES (10, 12.5, 'first note'), (12, 0, E'two\nlines');
INSERT INTO public.plain (a, d, e, m, r, s) VALUES (1, 'x', B'101', '\xdeadbeef', 'NaN', '{"a" : 1}'), (2, NULL, NULL, NULL, '-Infinity', NULL);
INSERT INTO public.sales SELECT date '2024-06-01' + i * 20, CASE WHEN i % 2 = 0 THEN 'north' ELSE 'south' END, i, i FROM generate_series(1, 40) i;
INSERT INTO public.self VALUES (1, NULL), (2, 1), (3, 2);
INSERT INTO public.quick VALUES (1, 'q');
INSERT INTO public.people VALUES ('Ann', '"q w"=>"x\"y", b=>NULL', '{"a=>1",NULL}', '{Ab,aB}'), ('Bob', '', NULL, NULL);
INSERT INTO public.named VALUES ('Annie', 'ANN');
