//! The roles and objects of a seed: what there is, and the statements that make it.

use crate::{Compares, Question, Scope};
use kilndb_lab::random::RowRandom;

/// Every relation has these columns.
pub const COLUMNS: [&str; 4] = ["id", "a", "b", "c"];

/// An object and its schema.
#[derive(Clone)]
pub struct Object {
    pub schema: String,
    pub name: String,
}

pub struct World {
    pub random: RowRandom,
    pub roles: Vec<String>,
    pub schemas: Vec<String>,
    pub tables: Vec<Object>,
    pub partitions: Vec<Object>,
    pub views: Vec<Object>,
    pub materialized: Vec<Object>,
    /// Views whose rows are those of one table.
    lockable: Vec<Object>,
    pub sequences: Vec<Object>,
    /// All take and give an integer.
    pub functions: Vec<Object>,
    pub procedures: Vec<Object>,
    /// Domains over integer.
    pub types: Vec<Object>,
}

impl World {
    pub fn new(seed: u64) -> World {
        World {
            random: RowRandom::of_row(seed, 0),
            roles: (0..8).map(|n| format!("r{n}")).collect(),
            schemas: ["s0", "s1", "s2", "public"].map(String::from).to_vec(),
            tables: Vec::new(),
            partitions: Vec::new(),
            views: Vec::new(),
            materialized: Vec::new(),
            lockable: Vec::new(),
            sequences: Vec::new(),
            functions: Vec::new(),
            procedures: Vec::new(),
            types: Vec::new(),
        }
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.random.index(n) == 0
    }
    pub fn pick(&mut self, list: &[&'static str]) -> &'static str {
        self.random.choice(list)
    }
    pub fn role(&mut self) -> String {
        let n = self.random.index(self.roles.len());
        self.roles[n].clone()
    }
    pub fn schema(&mut self) -> String {
        let n = self.random.index(self.schemas.len());
        self.schemas[n].clone()
    }
    pub fn search_path(&mut self) -> String {
        let mut path = self.schemas.clone();
        let turn = self.random.index(path.len());
        path.rotate_left(turn);
        path.join(", ")
    }

    /// The name of one of the objects, mostly with its schema.
    pub fn name_of(&mut self, objects: &[Object]) -> String {
        let object = objects[self.random.index(objects.len())].clone();
        if self.one_in(4) { object.name } else { format!("{}.{}", object.schema, object.name) }
    }
    pub fn table(&mut self) -> String {
        let tables = if self.one_in(6) { self.partitions.clone() } else { self.tables.clone() };
        self.name_of(&tables)
    }
    pub fn view(&mut self) -> String {
        let views = self.views.clone();
        self.name_of(&views)
    }
    pub fn materialized(&mut self) -> String {
        let views = self.materialized.clone();
        self.name_of(&views)
    }
    /// Something to select from.
    pub fn relation(&mut self) -> String {
        match self.random.index(8) {
            0..=2 => self.view(),
            3 => self.materialized(),
            _ => self.table(),
        }
    }
    pub fn sequence(&mut self) -> String {
        let sequences = self.sequences.clone();
        self.name_of(&sequences)
    }
    pub fn function(&mut self) -> String {
        let functions = self.functions.clone();
        self.name_of(&functions)
    }
    pub fn procedure(&mut self) -> String {
        let procedures = self.procedures.clone();
        self.name_of(&procedures)
    }
    pub fn type_name(&mut self) -> String {
        let types = self.types.clone();
        self.name_of(&types)
    }
    pub fn columns(&mut self) -> Vec<&'static str> {
        let mut columns = Vec::new();
        for column in COLUMNS {
            if self.one_in(2) {
                columns.push(column);
            }
        }
        if columns.is_empty() { vec!["id"] } else { columns }
    }

    fn made(&mut self, name: String) -> Object {
        Object { schema: self.schema(), name }
    }

    /// What makes the database.
    pub fn creation(&mut self) -> Vec<String> {
        let mut sql = self.create_roles();
        sql.extend(self.create_schemas());
        sql.extend(self.create_functions());
        sql.extend(self.create_tables());
        sql.extend(self.create_views());
        sql.extend(self.create_reading_functions());
        sql.extend(self.create_policies());
        sql.extend(self.give_away());
        for _ in 0..40 {
            sql.push(self.grant());
        }
        sql
    }

    fn create_roles(&mut self) -> Vec<String> {
        let mut sql = Vec::new();
        for role in self.roles.clone() {
            let mut options = String::from("login");
            for (option, rarity) in [("createrole", 3), ("createdb", 4), ("noinherit", 4), ("bypassrls", 6)] {
                if self.one_in(rarity) {
                    options = format!("{options} {option}");
                }
            }
            sql.push(format!("create role {role} {options}"));
        }
        if self.one_in(4) {
            sql.push("alter role r7 superuser".into());
        }
        for _ in 0..8 {
            sql.push(self.grant_role());
        }
        for group in ["pg_read_all_data", "pg_write_all_data", "pg_maintain", "pg_monitor", "pg_database_owner"] {
            if self.one_in(3) {
                sql.push(format!("grant {group} to {}", self.role()));
            }
        }
        sql
    }

    fn create_schemas(&mut self) -> Vec<String> {
        let mut sql = Vec::new();
        for schema in ["s0", "s1", "s2"] {
            sql.push(format!("create schema {schema} authorization {}", self.role()));
            if !self.one_in(3) {
                sql.push(format!("grant usage on schema {schema} to public"));
            }
            if self.one_in(2) {
                sql.push(format!("grant create on schema {schema} to {}", self.role()));
            }
        }
        for _ in 0..3 {
            sql.push(format!("grant create on database grants_world to {}", self.role()));
        }
        sql
    }

    fn security(&mut self) -> &'static str {
        self.pick(&["security definer", "security invoker"])
    }

    /// Functions that read no tables, which tables may use.
    fn create_functions(&mut self) -> Vec<String> {
        let mut sql = Vec::new();
        for n in 0..3 {
            let function = self.made(format!("f{n}"));
            let (security, full) = (self.security(), format!("{}.{}", function.schema, function.name));
            let body = self.pick(&[
                "language sql immutable as 'select x + 1'",
                "language plpgsql immutable as 'begin return x + 1; end'",
                "language sql immutable return x + 1",
            ]);
            sql.push(format!("create function {full}(x int) returns int {security} {body}"));
            self.functions.push(function);
        }
        for n in 0..2 {
            let sequence = self.made(format!("q{n}"));
            sql.push(format!("create sequence {}.{}", sequence.schema, sequence.name));
            self.sequences.push(sequence);
            let domain = self.made(format!("d{n}"));
            sql.push(format!("create domain {}.{} as int", domain.schema, domain.name));
            self.types.push(domain);
        }
        sql
    }

    fn create_tables(&mut self) -> Vec<String> {
        let mut sql = Vec::new();
        let full = |object: &Object| format!("{}.{}", object.schema, object.name);
        for n in 0..6 {
            let mut table = self.made(format!("t{n}"));
            if n == 0 {
                // Foreign keys are looked up by owners, who can always use this schema.
                table.schema = "public".into();
            }
            let constraint_kind = self.random.index(6);
            let sequence = full(&self.sequences[n % 2].clone());
            let is_child = constraint_kind == 1 && n > 0;
            if is_child {
                table.schema = "public".into();
            }
            let (name, function) = (full(&table), full(&self.functions[n % 3].clone()));
            let constraint = match constraint_kind {
                0 => format!(", check ({function}(a) > 0)"),
                1 if n > 0 => {
                    let action = self.pick(&["", " on delete cascade", " on delete set null", " on update cascade"]);
                    format!(", foreign key (a) references {}{action}", full(&self.tables[0].clone()))
                }
                _ => String::new(),
            };
            let c = match self.random.index(4) {
                0 => format!("int generated always as ({function}(a)) stored"),
                1 => format!("int default {function}(2)"),
                2 => format!("int default nextval('{sequence}')"),
                _ => "int".to_string(),
            };
            let id = self.pick(&["int", "serial", "int generated by default as identity", "int"]);
            let partitions = if n == 4 { " partition by range (id)" } else { "" };
            sql.push(format!(
                "create table {name} (id {id} primary key, a int, b text default 'x', c {c}{constraint}){partitions}"
            ));
            if id != "int" {
                self.sequences.push(Object { schema: table.schema.clone(), name: format!("t{n}_id_seq") });
            }
            if n == 4 {
                for (part, bounds) in [("p0", "(0) to (100)"), ("p1", "(100) to (2000000)")] {
                    let partition = self.made(format!("t4{part}"));
                    sql.push(format!("create table {} partition of {name} for values from {bounds}", full(&partition)));
                    self.partitions.push(partition);
                }
            }
            sql.push(format!(
                "insert into {name} (id, a, b) select i, i % 3 + 1, 'b' || i from generate_series(1, 5) i"
            ));
            if self.one_in(3) {
                sql.push(format!("create index on {name} ((a + 1))"));
            }
            self.tables.push(table);
        }
        sql
    }

    fn create_views(&mut self) -> Vec<String> {
        let mut sql = Vec::new();
        let full = |object: &Object| format!("{}.{}", object.schema, object.name);
        for n in 0..6 {
            let view = self.made(format!("v{n}"));
            let mut sources = self.tables.clone();
            sources.extend(self.views.clone());
            let source = full(&sources[self.random.index(sources.len())]);
            let other = full(&sources[self.random.index(sources.len())]);
            let function = full(&self.functions[n % 3].clone());
            let query = match self.random.index(6) {
                0 => format!("select x.id, y.a, x.b, y.c from {source} x join {other} y on x.id = y.id"),
                1 => format!("select id, {function}(a) as a, b, c from {source}"),
                2 => format!("select id, a, b, (select max(c) from {other}) as c from {source}"),
                3 => format!("select id, a, b, c from {source} union all select id, a, b, c from {other}"),
                4 => format!("select id, sum(a)::int as a, max(b) as b, min(c) as c from {source} group by id"),
                _ => format!("select id, a, b, c from {source} where a > 0"),
            };
            if query.ends_with("where a > 0") && !query.starts_with("select id, a, b, (") && self.is_lockable(&source) {
                self.lockable.push(view.clone());
            }
            let options = self.pick(&[
                " with (security_invoker)",
                " with (security_invoker)",
                " with (security_barrier)",
                "",
                "",
            ]);
            sql.push(format!("create view {}{options} as {query}", full(&view)));
            self.views.push(view);
        }
        for n in 0..2 {
            let view = self.made(format!("m{n}"));
            let source = self.relation_qualified();
            sql.push(format!("create materialized view {} as select id, a, b, c from {source}", full(&view)));
            if n == 0 {
                sql.push(format!("create unique index on {} (id, a, b, c)", full(&view)));
            }
            self.materialized.push(view);
        }
        sql
    }

    fn is_lockable(&self, source: &str) -> bool {
        let named = |object: &Object| format!("{}.{}", object.schema, object.name) == source;
        self.tables.iter().chain(&self.lockable).any(named)
    }

    /// A view whose rows may be locked; a table if there is none.
    pub fn lockable_view(&mut self) -> String {
        let views = if self.lockable.is_empty() { self.tables.clone() } else { self.lockable.clone() };
        self.name_of(&views)
    }

    pub fn relation_qualified(&mut self) -> String {
        let sources = if self.one_in(2) { self.tables.clone() } else { self.views.clone() };
        let object = &sources[self.random.index(sources.len())];
        format!("{}.{}", object.schema, object.name)
    }

    /// Functions, procedures and triggers that read and change tables.
    fn create_reading_functions(&mut self) -> Vec<String> {
        let mut sql = Vec::new();
        let full = |object: &Object| format!("{}.{}", object.schema, object.name);
        for n in 3..9 {
            let function = self.made(format!("f{n}"));
            let (security, source) = (self.security(), self.relation_qualified());
            let table = full(&self.tables[n % 6].clone());
            let sequence = full(&self.sequences[n % 2].clone());
            let inner = full(&self.functions[n - 2].clone());
            let body = match self.random.index(8) {
                0 => format!("language sql as 'select x + count(*)::int from {source}'"),
                1 => format!("language sql return x + (select count(*) from {source})::int"),
                2 => format!("language plpgsql as 'begin return (select max(a) from {source}); end'"),
                3 => format!(
                    "language plpgsql as 'begin execute ''update {table} set a = 2 where id = 1''; return x; end'"
                ),
                4 => format!("language sql as 'update {table} set b = current_user where id = 2 returning id'"),
                5 => format!("language plpgsql as 'begin return {inner}(x) + length(current_user); end'"),
                6 => format!("language sql as 'select nextval(''{sequence}'')::int - lastval()::int'"),
                _ => format!("language sql stable as 'select {inner}(a) from {source} where id = x'"),
            };
            let settings = self.pick(&["", "", "", " set search_path = pg_catalog", " set work_mem = '1MB'"]);
            sql.push(format!("create function {}(x int) returns int {security}{settings} {body}", full(&function)));
            self.functions.push(function);
        }
        for n in 0..2 {
            let procedure = self.made(format!("p{n}"));
            let (security, table) = (self.security(), full(&self.tables[n].clone()));
            let body = self.pick(&["language sql as ", "language plpgsql as "]);
            let change = format!("update {table} set a = 1 where id = 3");
            let body = if body.contains("sql as") && !body.contains("pl") {
                format!("{body}'{change}'")
            } else {
                format!("{body}'begin {change}; end'")
            };
            sql.push(format!("create procedure {}() {security} {body}", full(&procedure)));
            self.procedures.push(procedure);
        }
        let schema = self.schema();
        let (security, log) = (self.security(), full(&self.tables[5].clone()));
        sql.push(format!(
            "create function {schema}.g0() returns trigger {security} language plpgsql as \
             'begin update {log} set b = current_user where id = 1; return new; end'"
        ));
        let table = full(&self.tables[1].clone());
        let deferred = self.pick(&["constraint trigger g after", "trigger g before", "trigger g after"]);
        let when = if deferred.starts_with("constraint") { " deferrable initially deferred" } else { "" };
        sql.push(format!(
            "create {deferred} insert or update on {table}{when} for each row execute function {schema}.g0()"
        ));
        sql
    }

    /// Everything gets an owner.
    fn give_away(&mut self) -> Vec<String> {
        let mut sql = Vec::new();
        let kinds = [
            ("table", self.tables.clone(), ""),
            ("table", self.partitions.clone(), ""),
            ("view", self.views.clone(), ""),
            ("materialized view", self.materialized.clone(), ""),
            ("sequence", self.sequences.iter().filter(|s| s.name.starts_with('q')).cloned().collect(), ""),
            ("function", self.functions.clone(), "(int)"),
            ("procedure", self.procedures.clone(), "()"),
            ("domain", self.types.clone(), ""),
        ];
        for (kind, objects, arguments) in kinds {
            for object in objects {
                if !self.one_in(6) {
                    let role = self.role();
                    sql.push(format!("alter {kind} {}.{}{arguments} owner to {role}", object.schema, object.name));
                }
                if arguments == "(int)" && self.one_in(3) {
                    sql.push(format!("revoke all on function {}.{}(int) from public", object.schema, object.name));
                }
            }
        }
        sql
    }

    pub fn question(&mut self) -> Question {
        match self.random.index(20) {
            0..=1 => Question::alone(self.change()),
            2 => Question::alone(self.policy_change()),
            9 => self.witness_question(),
            3..=6 => Question::alone(self.permission_question()),
            7..=8 => self.definition_question(),
            _ => self.statement_question(),
        }
    }

    /// What the system tables say of owners, grants and members.
    pub fn catalog_questions(&mut self) -> Vec<String> {
        let ours = "relnamespace::regnamespace::text in ('s0', 's1', 's2', 'public')";
        vec![
            format!(
                "select oid::regclass, relowner::regrole, relacl from pg_class where {ours} and relkind in ('r', 'p', 'v', 'm', 'S')"
            ),
            format!(
                "select attrelid::regclass, attname, attacl from pg_attribute join pg_class c on c.oid = attrelid where {ours} and attacl is not null"
            ),
            "select proname, proowner::regrole, proacl from pg_proc where pronamespace::regnamespace::text in ('s0', 's1', 's2', 'public')".into(),
            "select nspname, nspowner::regrole, nspacl from pg_namespace where nspname in ('s0', 's1', 's2', 'public')".into(),
            "select typname, typowner::regrole, typacl from pg_type where typtype = 'd' and typnamespace::regnamespace::text in ('s0', 's1', 's2', 'public')".into(),
            "select defaclrole::regrole, defaclnamespace::regnamespace, defaclobjtype, defaclacl from pg_default_acl".into(),
            "select polname, polrelid::regclass, polcmd, polpermissive, (select array_agg(r::regrole order by r) from unnest(polroles) r), pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid) from pg_policy".into(),
            "select datacl from pg_database where datname = 'grants_world'".into(),
            "select lanacl from pg_language where lanname = 'plpgsql'".into(),
            "select roleid::regrole, member::regrole, grantor::regrole, admin_option, inherit_option, set_option from pg_auth_members where member::regrole::text ~ '^r'".into(),
            "select rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolbypassrls from pg_roles where rolname ~ '^r'".into(),
            "select classid::regclass, refobjid::regrole, deptype, count(*) from pg_shdepend where refclassid = 'pg_authid'::regclass and refobjid::regrole::text ~ '^r' group by 1, 2, 3".into(),
        ]
    }

    pub fn read_only(&mut self, sql: String) -> Question {
        Question { statements: vec![sql], scope: Scope::Alone, compares: Compares::Rows }
    }
}
