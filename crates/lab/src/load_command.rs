//! `kilndb-lab load`: the driver by itself, to be held against pgbench.

use kilndb_lab::client::Address;
use kilndb_lab::driver::{self, LoadLength, LoadPlan, LoadProtocol};
use kilndb_lab::script::Script;
use std::time::Duration;

pub fn run(arguments: &[String]) -> Result<(), String> {
    kilndb_base::env::raise_descriptor_limit();
    let mut plan = LoadPlan::new(Address::local(5432), "postgres");
    let mut rest = arguments.iter();
    while let Some(flag) = rest.next() {
        if !flag.starts_with("--") {
            let text = std::fs::read_to_string(flag).map_err(|e| format!("{flag}: {e}"))?;
            let script = Script::read(flag, &text, &mut plan.names)?;
            plan.scripts.push((script, 1));
            continue;
        }
        let value = rest.next().ok_or_else(|| format!("{flag} needs a value"))?;
        let bad = || format!("bad value of {flag}: {value}");
        match flag.as_str() {
            "--host" => plan.address.host = value.clone(),
            "--port" => plan.address.port = value.parse().map_err(|_| bad())?,
            "--user" => plan.address.user = value.clone(),
            "--database" => plan.database = value.clone(),
            "--clients" => plan.clients = value.parse().map_err(|_| bad())?,
            "--threads" => plan.threads = value.parse().map_err(|_| bad())?,
            "--seconds" => plan.length = LoadLength::After(Duration::from_secs(value.parse().map_err(|_| bad())?)),
            "--rate" => plan.rate = Some(value.parse().map_err(|_| bad())?),
            "--tries" => plan.tries = value.parse().map_err(|_| bad())?,
            "--define" => {
                let (name, text) = value.split_once('=').ok_or_else(bad)?;
                plan.presets.push((name.to_string(), text.to_string()));
            }
            "--protocol" => {
                plan.protocol = match value.as_str() {
                    "simple" => LoadProtocol::Simple,
                    "extended" => LoadProtocol::Extended,
                    "prepared" => LoadProtocol::Prepared,
                    _ => return Err(bad()),
                }
            }
            _ => return Err(format!("unknown option {flag}")),
        }
    }
    if plan.scripts.is_empty() {
        return Err("load needs a script".into());
    }
    let figures = driver::run(&plan)?;
    println!(
        "{} transactions in {:.2} s, {:.0} a second; {} rows changed; {} failed",
        figures.transactions(),
        figures.elapsed.as_secs_f64(),
        figures.transactions_per_second(),
        figures.changed_rows(),
        figures.failures()
    );
    let ms = |percent: f64| figures.percentile_us(percent) as f64 / 1e3;
    println!(
        "latency, ms: median {:.3}, p99 {:.3}, p99.9 {:.3}, longest {:.3}",
        ms(50.0),
        ms(99.0),
        ms(99.9),
        ms(100.0)
    );
    figures.errors.iter().for_each(|(sqlstate, count)| println!("{sqlstate}: {count}"));
    figures.first_error.iter().for_each(|e| println!("the first: {e}"));
    Ok(())
}
