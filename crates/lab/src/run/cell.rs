//! A variant of an experiment on a target: its schema, its runs and its checks.
//!
//! Must not know: other cells.

use super::answers::{StatementAnswer, difference};
use super::beside::{BesidePace, BesideSession, BesideSessions};
use super::observer::{self, Observed};
use super::progress::LabProgress;
use super::session::{ScriptSession, text_of_statements};
use super::timed::{self, PlanQuestion, STATEMENT_CHARS};
use super::{DriverKind, LabOptions, is_stopped};
use crate::client::{Address, Client};
use crate::driver::{self, EndedTransaction, LoadFigures, LoadLength, LoadPlan};
use crate::experiment::{ConnectionName, Experiment, ProductName, Variant, VariantLoad, session_statements};
use crate::kind::{BesideStart, BesideWork, KindLoad, KindVariables, LoadKind};
use crate::results::{
    CellResults, CountedUnit, LatencyResults, RunResults, SecondResults, ServerUse, StatementResults,
};
use crate::script::{ScriptStep, VariableNames};
use crate::target::{Target, session_name};
use std::time::{Duration, Instant};

/// Percentages whose latencies are kept.
const PERCENTILES: [f64; 13] = [0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99, 100.0];
/// A warm-up is that part of a run.
const WARM_UP_PART: u32 = 3;

pub(super) struct LabCell<'c> {
    experiment: &'c Experiment,
    variant: &'c Variant,
    target: &'c Target,
    schema: String,
    /// Where its clients go.
    address: Address,
    /// What setups and scripts know by name.
    presets: Vec<(String, String)>,
    seconds: u64,
    driver: DriverKind,
    /// What statements have answered since the answers of a round were compared.
    answers: Vec<StatementAnswer>,
    /// The rows of the plans of the statements, once they have been counted.
    plan_rows: Option<Vec<Option<f64>>>,
    /// Why it cannot be run.
    problem: Option<String>,
}

/// How a load is run beside what the experiment says.
#[derive(Clone, Copy)]
pub(super) struct LoadShape {
    pub clients: usize,
    pub length: Duration,
    /// Transactions a second that are due.
    pub rate: Option<f64>,
}

impl<'c> LabCell<'c> {
    /// Errors: the experiment's folder is not what it was when it was read.
    pub fn new(
        experiment: &'c Experiment,
        variant: &'c Variant,
        target: &'c Target,
        options: &LabOptions,
    ) -> Result<LabCell<'c>, String> {
        let file = &experiment.file;
        let is = |product| i32::from(target.product == Some(product)).to_string();
        let schema = schema_name(&experiment.name, if file.setup.shared { "shared" } else { &variant.name });
        let mut presets = vec![
            ("schema".to_string(), schema.clone()),
            ("is_kilndb".to_string(), is(ProductName::KilnDb)),
            ("is_postgres".to_string(), is(ProductName::Postgres)),
        ];
        let mut set = |name: &str, text: String| {
            presets.retain(|(known, _)| known != name);
            presets.push((name.to_string(), text));
        };
        file.variables.iter().for_each(|(name, value)| set(name, value.to_string()));
        variant.variables.iter().for_each(|(name, value)| set(name, value.to_string()));
        for (name, text) in options.variables.iter().filter(|(name, _)| file.variables.contains_key(name)) {
            set(name, text.clone());
        }
        let address = target.address_by(variant.connection);
        let address_problem = address.as_ref().err().cloned();
        let problem = target.facts.problem.clone().or(address_problem).or_else(|| no_beside_kind(variant, target));
        Ok(LabCell {
            experiment,
            variant,
            target,
            schema,
            address: address.unwrap_or_else(|_| target.uri.address.clone()),
            answers: Vec::new(),
            plan_rows: None,
            presets,
            seconds: super::seconds_of(experiment, options),
            driver: options.driver,
            problem,
        })
    }

    pub fn name(&self) -> String {
        format!("{} on {}", self.variant.name, self.target.name)
    }
    pub fn counted(&self) -> CountedUnit {
        self.experiment.file.count
    }
    pub fn variant_name(&self) -> &str {
        &self.variant.name
    }
    /// A script that runs once is not warmed up unless its experiment says so: its setup has just made what it works on.
    pub fn warms_up(&self) -> bool {
        self.experiment.file.load.warm_up.unwrap_or(!self.counted().runs_once())
    }
    pub fn shares_schema_with(&self, other: &LabCell<'_>) -> bool {
        self.target.name == other.target.name && self.schema == other.schema
    }
    pub fn has_clients(&self, clients: usize, options: &LabOptions) -> bool {
        super::clients_of_variant(self.experiment, self.variant, options).contains(&clients)
    }
    pub fn no_results(&self, clients: usize) -> CellResults {
        CellResults {
            target: self.target.name.clone(),
            variant: self.variant.name.clone(),
            clients,
            runs: Vec::new(),
            rate_within_10_ms: None,
            problem: self.problem.clone(),
        }
    }

    /// Makes the schema and what is in it. `first`: a cell that has made it already, for both.
    pub fn prepare(&mut self, first: Option<&LabCell<'_>>) {
        if self.problem.is_none() && !self.target.is_wire() {
            self.problem = match first {
                Some(first) => first.problem.clone().or_else(|| self.alone(|| self.set_up_own()).err()),
                None => self.alone(|| self.set_up().and_then(|()| self.set_up_own())).err(),
            };
        }
    }
    /// What all variants have.
    fn set_up(&self) -> Result<(), String> {
        let mut client = self.target.connect().map_err(|e| e.to_string())?;
        client.query(&format!("create schema \"{}\"", self.schema)).map_err(|e| e.to_string())?;
        let mut client = self.admin()?;
        let setup = &self.experiment.file.setup;
        if let Some(data) = setup.data {
            data.fill(&mut client, KindVariables(&self.presets))?;
        }
        self.run_setup(client, &setup.sql)
    }
    /// What this variant has beside.
    fn set_up_own(&self) -> Result<(), String> {
        self.run_setup(self.admin()?, &self.variant.setup)
    }
    fn run_setup(&self, client: Client, entries: &[String]) -> Result<(), String> {
        let mut names = VariableNames::default();
        let script = self.experiment.setup(&[entries], &mut names)?;
        ScriptSession::new(client, &names, &self.presets).run(&script, &names)
    }

    /// Tells what another target has answered otherwise: of a statement with figures there, of another as a check.
    pub fn compare_answers(&self, first: &LabCell<'_>, run: &mut RunResults, progress: &mut LabProgress) {
        for answer in &self.answers {
            let Some(other) = first.answers.iter().find(|other| other.number == answer.number) else { continue };
            let Some(difference) = difference(&other.rows, &answer.rows) else { continue };
            let told = format!("another answer than {}'s: {difference}", first.target.name);
            progress.problem(&format!("{}: {told}", answer.title));
            match answer.figure.and_then(|at| run.statements.get_mut(at)) {
                Some(statement) => statement.problem = Some(told),
                None => run.failed_checks.push(format!("{}: {told}", answer.title)),
            }
        }
    }
    pub fn forget_answers(&mut self) {
        self.answers.clear();
    }
    /// Takes away what there is, unless it is to be kept.
    pub fn clear(&self, keep: bool, progress: &mut LabProgress) {
        // A temporary server that is about to go takes all with it.
        if keep
            || self.target.is_wire()
            || self.target.facts.problem.is_some()
            || is_stopped() && self.target.is_temporary()
        {
            return;
        }
        let torn_down = self.alone(|| {
            // A target that is gone keeps nothing that could be taken away.
            let Ok(mut client) = self.target.connect() else { return Ok(()) };
            let torn_down = self.tear_down();
            let _ = client.query(&format!("drop schema if exists \"{}\" cascade", self.schema));
            torn_down
        });
        if let Err(e) = torn_down {
            progress.problem_of(&self.name(), &format!("not all was taken away: {e}"));
        }
    }
    /// Takes away what lies outside of the schema. The session is none of those that somebody who stops the lab ends.
    fn tear_down(&self) -> Result<(), String> {
        let entries = &self.experiment.file.setup.teardown;
        if entries.is_empty() {
            return Ok(());
        }
        let mut client = self.target.connect().map_err(|e| e.to_string())?;
        client.query(&self.search_path()).map_err(|e| e.to_string())?;
        self.run_setup(client, entries)
    }
    /// Does something in this target's turn.
    fn alone<T>(&self, action: impl FnOnce() -> T) -> T {
        self.target.go_on();
        let done = action();
        self.target.pause();
        done
    }

    fn search_path(&self) -> String {
        format!("set search_path = \"{}\", public", self.schema)
    }
    /// What a session in the schema begins with.
    fn session(&self) -> String {
        format!("set application_name = '{}'; {}", session_name(), self.search_path())
    }
    /// What a client's session begins with.
    fn session_of_clients(&self) -> Result<String, String> {
        let mut names = VariableNames::default();
        let entries: [&[String]; 2] = [&self.experiment.file.setup.session, &self.variant.session];
        let script = self.experiment.setup(&entries, &mut names)?;
        Ok(self.session() + &text_of_statements(&session_statements(&script)?, &names, &self.presets))
    }
    fn admin(&self) -> Result<Client, String> {
        let mut client = self.target.connect().map_err(|e| e.to_string())?;
        client.query(&self.session()).map_err(|e| e.to_string())?;
        Ok(client)
    }

    /// One run: a warm-up, unless it counts. Errors are in one line.
    pub fn run(&mut self, clients: usize, counts: bool, progress: &mut LabProgress) -> Result<RunResults, String> {
        if let Some(why) = self.target.has_no_room_for(clients) {
            return Err(why);
        }
        let length = Duration::from_secs(self.seconds);
        let length = if counts { length } else { (length / WARM_UP_PART).max(Duration::from_secs(1)) };
        let shape = LoadShape { clients, length, rate: self.experiment.file.load.rate };
        self.run_shaped(shape, progress).map_err(|e| e.lines().collect::<Vec<_>>().join(" "))
    }
    pub fn run_shaped(&mut self, shape: LoadShape, progress: &mut LabProgress) -> Result<RunResults, String> {
        match self.target.is_wire() {
            true => self.run_on_wire(shape, progress),
            false => {
                let (mut run, answers) = self.alone(|| self.run_alone(shape, progress))?;
                self.answers = answers;
                self.add_plan_rows(&mut run);
                Ok(run)
            }
        }
    }

    /// There is nothing to be seen of a server that only answers.
    fn run_on_wire(&self, shape: LoadShape, progress: &mut LabProgress) -> Result<RunResults, String> {
        let plan = LoadPlan { session: String::new(), ..self.plan(shape)? };
        let (figures, observed) = observer::beside(self, &plan, progress, || self.load(&plan));
        let figures = figures?;
        Ok(run_results(&figures, statements(&figures, &plan), observed, ServerUse::default()))
    }
    /// Once is enough: what a plan does is the same each time.
    fn add_plan_rows(&mut self, run: &mut RunResults) {
        let counted = || run.statements.iter().map(|statement| statement.plan_rows).collect();
        let plan_rows = self.plan_rows.take().unwrap_or_else(counted);
        run.statements.iter_mut().zip(&plan_rows).for_each(|(statement, rows)| statement.plan_rows = *rows);
        self.plan_rows = Some(plan_rows);
    }
    fn run_alone(
        &self,
        shape: LoadShape,
        progress: &mut LabProgress,
    ) -> Result<(RunResults, Vec<StatementAnswer>), String> {
        let file = &self.experiment.file;
        let mut names = VariableNames::default();
        let before_each = self.experiment.setup(&[&file.setup.each_run], &mut names)?;
        ScriptSession::new(self.admin()?, &names, &self.presets).run(&before_each, &names)?;
        let plan = self.plan(shape)?;
        let mut admin = self.admin()?;
        let count = |admin: &mut Client| match &file.measure.changed_rows {
            Some(sql) => admin.integer(sql).map(Some).map_err(|e| format!("changed-rows: {e}")),
            None => Ok(None),
        };
        let rows_before = count(&mut admin)?;
        let use_before = ServerMarks::of(&mut admin, self.target);
        let beside = self.beside()?;
        let beside_work = self.start_beside_work()?;
        let mut answers = Vec::new();
        let mut load = || {
            if self.is_timed() {
                self.timed(&plan, &mut answers)
            } else {
                self.load(&plan).map(|figures| of_load(figures, &plan))
            }
        };
        let (done, observed) = observer::beside(self, &plan, progress, || match beside {
            Some(beside) => beside.during(&mut admin, load),
            None => load().map(|done| (done, None)),
        });
        let ended = beside_work.map_or(Ok(()), |work| work.end());
        let ((figures, statements), beside_rounds) = done?;
        ended?;
        if figures.errors.contains_key("08006") {
            return Err(figures.first_error.unwrap_or_default());
        }
        let server = ServerMarks::of(&mut admin, self.target).since(&use_before, observed.memory_bytes);
        let rows_after = count(&mut admin)?;
        let mut run = run_results(&figures, statements, observed, server);
        run.beside_rounds = beside_rounds;
        if let Some(sql) = &file.measure.bytes {
            let bytes = admin.integer(sql).map_err(|e| format!("bytes: {e}"))?;
            run.bytes = u64::try_from(bytes).ok();
        }
        if let (Some(before), Some(after)) = (rows_before, rows_after) {
            run.changed_rows = before.abs_diff(after);
        }
        self.check(&figures, &mut run, &mut admin)?;
        Ok((run, answers))
    }

    /// Its script runs once, in a session that wants to know each answer.
    fn is_timed(&self) -> bool {
        self.counted().runs_once() && self.variant.script.is_some() && self.driver == DriverKind::Lab
    }
    fn timed(
        &self,
        plan: &LoadPlan,
        answers: &mut Vec<StatementAnswer>,
    ) -> Result<(LoadFigures, Vec<StatementResults>), String> {
        let uri = &self.target.uri;
        let client = Client::log_in(&self.address, &uri.database, uri.password.as_deref());
        let mut client = client.map_err(|e| e.to_string())?;
        client.query(&plan.session).map_err(|e| e.to_string())?;
        let mut session = ScriptSession::new(client, &plan.names, &self.presets);
        let (script, _) = plan.scripts.first().ok_or("there is no script")?;
        let measure = &self.experiment.file.measure;
        let question = match measure.estimates {
            true => PlanQuestion::Estimates,
            false if measure.plan_rows && self.plan_rows.is_none() => PlanQuestion::Rows,
            false => PlanQuestion::Nothing,
        };
        let began = Instant::now();
        let done = timed::run(&mut session, (script, &plan.names), question)?;
        if measure.answers {
            *answers = done.answers;
        }
        let mut figures = LoadFigures { elapsed: began.elapsed(), ..LoadFigures::default() };
        let latency = done.statements.iter().filter_map(StatementResults::total_ms).sum::<f64>() / 1e3;
        figures.ended(&EndedTransaction {
            at: figures.elapsed,
            latency: Duration::from_secs_f64(latency),
            changed_rows: done.changed_rows,
        });
        Ok((figures, done.statements))
    }

    /// Errors: nothing was done, so there is nothing to count; its own words if the server had any.
    fn check(&self, figures: &LoadFigures, run: &mut RunResults, admin: &mut Client) -> Result<(), String> {
        if run.transactions == 0 {
            return Err(figures.first_error.clone().unwrap_or_else(|| "no transaction has ended".into()));
        }
        if self.variant.every_transaction_changes && run.changed_rows != run.transactions {
            let (rows, transactions) = (run.changed_rows, run.transactions);
            run.failed_checks.push(format!("{transactions} transactions have changed {rows} rows"));
        }
        if let VariantLoad::Kind(kind) = self.variant.load()? {
            run.failed_checks.extend(kind.breaches(admin)?);
        }
        for check in &self.experiment.file.checks {
            let value = admin.value(&check.sql).map_err(|e| format!("{}: {e}", check.name))?;
            if value.as_deref() != Some("t") {
                run.failed_checks.push(check.name.clone());
            }
        }
        Ok(())
    }

    fn plan(&self, shape: LoadShape) -> Result<LoadPlan, String> {
        let (file, uri) = (&self.experiment.file, &self.target.uri);
        let mut names = VariableNames::default();
        let scripts = match self.variant.load()? {
            VariantLoad::Script(name) => vec![(self.experiment.script(name, &mut names)?, 1)],
            VariantLoad::Kind(_) => Vec::new(),
        };
        let runs_once = file.count.runs_once();
        let plan = LoadPlan::new(self.address.clone(), &uri.database);
        Ok(LoadPlan {
            password: uri.password.clone(),
            clients: shape.clients,
            threads: plan.threads.min(shape.clients),
            protocol: self.variant.protocol.unwrap_or(file.load.protocol),
            scripts,
            names,
            presets: self.presets.clone(),
            length: if runs_once { LoadLength::Transactions(1) } else { LoadLength::After(shape.length) },
            rate: shape.rate,
            tries: file.load.tries,
            session: self.session_of_clients()?,
            ..plan
        })
    }
    fn load(&self, plan: &LoadPlan) -> Result<LoadFigures, String> {
        match (self.variant.load()?, self.driver) {
            (VariantLoad::Script(_), DriverKind::Lab) => driver::run(plan),
            (VariantLoad::Script(name), DriverKind::Pgbench) => driver::run_pgbench(plan, self.experiment.text(name)?),
            (VariantLoad::Kind(kind), DriverKind::Lab) => self.load_of_kind(kind, plan),
            (VariantLoad::Kind(kind), DriverKind::Pgbench) => Err(format!("pgbench cannot run load {}", kind.name)),
        }
    }
    fn load_of_kind(&self, kind: &LoadKind, plan: &LoadPlan) -> Result<LoadFigures, String> {
        let LoadLength::After(length) = plan.length else { return Err(format!("load {} runs for a time", kind.name)) };
        if plan.rate.is_some() {
            return Err(format!("load {} has no rate", kind.name));
        }
        let (clients, variables) = (plan.clients, KindVariables(&self.presets));
        kind.run(&KindLoad { login: plan.login(), clients, length, variables, ended: &plan.ended })
    }

    /// None: nothing is beside the load.
    fn beside(&self) -> Result<Option<BesideSessions>, String> {
        let scripts = self.experiment.beside(self.variant);
        if scripts.is_empty() {
            return Ok(None);
        }
        let pace = match self.experiment.file.beside.as_ref().map(|beside| (beside.every_ms, beside.without_pause)) {
            Some((Some(every_ms), _)) => BesidePace::Every(Duration::from_millis(every_ms)),
            Some((None, true)) => BesidePace::WithoutPause,
            Some((None, false)) | None => BesidePace::Once,
        };
        let session = |name: &String| {
            let mut names = VariableNames::default();
            let script = self.experiment.script(name, &mut names)?;
            let session = ScriptSession::new(self.admin()?, &names, &self.presets);
            Ok::<_, String>(BesideSession { session, script, names })
        };
        Ok(Some(BesideSessions { sessions: scripts.iter().map(session).collect::<Result<_, _>>()?, pace }))
    }

    /// What happens beside the load that is more than sessions. None: nothing does.
    fn start_beside_work(&self) -> Result<Option<Box<dyn BesideWork>>, String> {
        let Some(kind) = self.variant.beside_kind else { return Ok(None) };
        let address = self.target.address_by(Some(ConnectionName::Tls))?;
        let start =
            BesideStart { address, database: &self.target.uri.database, variables: KindVariables(&self.presets) };
        kind.start(&start).map(Some)
    }

    /// A session that looks at the target while a load runs. None: there is none to be had.
    pub(super) fn observer(&self) -> Option<Client> {
        self.admin().ok()
    }
    pub(super) fn memory_bytes(&self) -> Option<u64> {
        self.target.process_use().map(|used| used.memory_bytes)
    }
}

/// Why what is beside a variant's load cannot be there.
fn no_beside_kind(variant: &Variant, target: &Target) -> Option<String> {
    let kind = variant.beside_kind.filter(|_| !target.is_temporary())?;
    Some(format!("{} beside the load are for temporary servers alone: {}", kind.name, kind.wants_temporary))
}

/// A name that is no other process's, of at most 63 bytes.
fn schema_name(experiment: &str, variant: &str) -> String {
    let clean = |text: &str, bytes: usize| -> String {
        text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).take(bytes).collect()
    };
    format!("kiln_lab_{}_{}_{}", std::process::id(), clean(experiment, 20), clean(variant, 20))
}

/// Where a server's counters stand.
struct ServerMarks {
    log: Option<u64>,
    disk_bytes: Option<i64>,
    cpu_s: Option<f64>,
}

impl ServerMarks {
    fn of(admin: &mut Client, target: &Target) -> ServerMarks {
        // A server that does not know one of these, or does not tell, has no figure for it.
        let log = admin.log_position().ok();
        let disk_bytes = admin.integer("select pg_database_size(current_database())").ok();
        let cpu_s = target.process_use().map(|used| used.cpu_s);
        ServerMarks { log, disk_bytes, cpu_s }
    }
    fn since(&self, before: &ServerMarks, memory_bytes: Option<u64>) -> ServerUse {
        ServerUse {
            log_bytes: self.log.zip(before.log).map(|(now, then)| now.saturating_sub(then)),
            disk_bytes: self.disk_bytes.zip(before.disk_bytes).map(|(now, then)| now - then),
            cpu_s: self.cpu_s.zip(before.cpu_s).map(|(now, then)| (now - then).max(0.0)),
            memory_bytes,
        }
    }
}

/// What a run has come to, before anybody has counted rows or checked anything.
pub(super) fn run_results(
    figures: &LoadFigures,
    statements: Vec<StatementResults>,
    observed: Observed,
    server: ServerUse,
) -> RunResults {
    let whole = figures.elapsed.as_secs() as usize;
    let second = |figures: &driver::SecondFigures| SecondResults {
        transactions: figures.transactions,
        changed_rows: figures.changed_rows,
        failed: figures.failed,
        median_us: figures.percentile_us(50.0),
        p99_us: figures.percentile_us(99.0),
    };
    let all = figures.all_seconds();
    RunResults {
        elapsed_s: figures.elapsed.as_secs_f64(),
        transactions: figures.transactions(),
        changed_rows: figures.changed_rows(),
        failed: figures.failures(),
        errors: figures.errors.clone(),
        seconds: figures.seconds.iter().take(whole).map(second).collect(),
        latency: LatencyResults {
            mean_us: all.mean_us(),
            percentiles: PERCENTILES.map(|percent| (percent, all.percentile_us(percent))).to_vec(),
        },
        statements,
        server,
        waits: observed.waits,
        samples: observed.samples,
        bytes: None,
        beside_rounds: None,
        failed_checks: Vec::new(),
    }
}

fn of_load(figures: LoadFigures, plan: &LoadPlan) -> (LoadFigures, Vec<StatementResults>) {
    let statements = statements(&figures, plan);
    (figures, statements)
}

/// The statements of the script, with their times.
fn statements(figures: &LoadFigures, plan: &LoadPlan) -> Vec<StatementResults> {
    let mut found = Vec::new();
    for ((script, _), of_script) in plan.scripts.iter().zip(&figures.statements) {
        for (command, figures) in script.commands.iter().zip(of_script).filter(|(_, figures)| figures.count > 0) {
            if let ScriptStep::Sql(sql) = &command.step {
                found.push(StatementResults {
                    text: sql.in_one_line(&plan.names, STATEMENT_CHARS),
                    name: command.notes.name.clone().unwrap_or_default(),
                    count: figures.count,
                    mean_us: figures.time.as_secs_f64() * 1e6 / figures.count as f64,
                    ..StatementResults::default()
                });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_has_a_name_that_fits() {
        let name = schema_name("a-very-long-name-of-an-experiment", "Über \"quoted\" variant, long");
        assert!(name.len() <= 63 && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_'), "{name}");
    }
}
