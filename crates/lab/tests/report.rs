//! The report as a browser shows it: nothing is cut off or lies over something else, at the width of a desk and of a phone, light and
//! dark, and the charts say what the results say.
//!
//! The page stands in a frame of the wanted width, since a window has a least width. What is looked at is the page as it is: the script
//! that looks is outside of the frame.

mod browser;

use browser::{CHROMIUM_FLAGS, DESK_PX, LOOK_SCRIPT, Look, PHONE_PX, PageColours, Scheme, chromium, picture_path};
use kilndb_lab::process::TempDir;
use kilndb_lab::report::compare::Comparison;
use kilndb_lab::report::html;
use kilndb_lab::report::sample;
use kilndb_lab::report::summary::ExperimentSummary;
use kilndb_lab::results::{CountedUnit, LabResults};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Findings {
    folded: Look,
    unfolded: Look,
    charts: Vec<Chart>,
    scripts: usize,
    colours: PageColours,
}

#[derive(Deserialize)]
struct Chart {
    experiment: String,
    kind: String,
    target: String,
    clients: String,
    marks: Vec<Mark>,
    /// The title and the description of each drawing.
    images: Vec<Vec<String>>,
    tables: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mark {
    target: String,
    variant: String,
    clients: String,
    #[serde(default)]
    run: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    low: String,
    #[serde(default)]
    high: String,
    #[serde(default)]
    problem: String,
    width_px: f64,
    d: String,
}

/// Runs Chromium to its end and gives back what it wrote: the document, and its log.
fn run_chromium(program: &Path, folder: &Path, arguments: &[String]) -> (String, String) {
    let output = |name: &str| std::fs::File::create(folder.join(name)).expect("a file");
    let mut child = Command::new(program)
        .args(CHROMIUM_FLAGS)
        .args(["--enable-logging=stderr", "--log-level=0", "--virtual-time-budget=5000"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(output("out"))
        .stderr(output("log"))
        .spawn()
        .expect("Chromium starts");
    let begun = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        if begun.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            panic!("Chromium has not ended within {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let text = |name: &str| String::from_utf8_lossy(&std::fs::read(folder.join(name)).expect("a file")).into_owned();
    (text("out"), text("log"))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;")
}

/// A page in a frame, and what looks at it.
fn framed(page: &str, (width, height): (u32, u32), scheme: Scheme, script: &str) -> String {
    let scheme = scheme.name();
    format!(
        "<!DOCTYPE html><html><head><meta charset=\"utf-8\"/></head><body style=\"margin:0\">\
         <iframe id=\"page\" style=\"border:0;display:block;width:{width}px;height:{height}px;color-scheme:{scheme}\" srcdoc=\"{}\"></iframe>\
         <pre id=\"findings\"></pre><script>{script}</script></body></html>",
        escaped(page)
    )
}

fn scheme_flag(scheme: Scheme) -> String {
    let number = if scheme == Scheme::Dark { 0 } else { 1 };
    format!("--blink-settings=preferredColorScheme={number}")
}

/// What is found on a page. Fails on any error that the browser tells.
fn findings(program: &Path, page: &str, width: u32, scheme: Scheme) -> Findings {
    let folder = TempDir::new("report").expect("a folder");
    let file = folder.path().join("frame.html");
    let script = format!("{LOOK_SCRIPT}\n{}", include_str!("report/findings.js"));
    std::fs::write(&file, framed(page, (width, 900), scheme, &script)).expect("a file");
    let arguments = [
        scheme_flag(scheme),
        "--window-size=1400,1000".into(),
        "--dump-dom".into(),
        format!("file://{}", file.display()),
    ];
    let (document, log) = run_chromium(program, folder.path(), &arguments);
    let told: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(told.is_empty(), "the console says: {told:#?}");
    let found = document.split_once("<pre id=\"findings\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let found = found.unwrap_or_else(|| panic!("no findings: {log}")).0;
    let found = found.replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", "\u{a0}").replace("&amp;", "&");
    serde_json::from_str(&found).unwrap_or_else(|e| panic!("{e}: {found}"))
}

/// Many targets, variants and numbers of clients, with long names.
fn crowded() -> LabResults {
    let mut results = sample::results();
    let third = results.targets[1].clone();
    results.targets.push(kilndb_lab::results::TargetFacts { name: "another-server-with-a-long-name".into(), ..third });
    let experiment = &mut results.experiments[0];
    let cells = experiment.cells.clone();
    for (number, name) in ["partitioned-into-many", "q", "a variant of several words", "v7", "v8"].iter().enumerate() {
        experiment
            .variants
            .push(kilndb_lab::results::VariantFacts { name: name.to_string(), ..experiment.variants[0].clone() });
        for cell in cells.iter().filter(|cell| cell.variant == "skip-locked") {
            let mut cell = cell.clone();
            cell.variant = name.to_string();
            cell.runs.iter_mut().for_each(|run| run.changed_rows = run.changed_rows * (10 + number as u64) / 10);
            experiment.cells.push(cell);
        }
    }
    let of_third = experiment.cells.iter().filter(|cell| cell.target == "KilnDB").cloned();
    let of_third: Vec<_> = of_third.collect();
    for mut cell in of_third {
        cell.target = "another-server-with-a-long-name".into();
        experiment.cells.push(cell);
    }
    results
}

fn pages() -> Vec<(&'static str, String)> {
    let results = sample::results();
    let mut after = results.clone();
    for run in after.experiments[0].cells.iter_mut().flat_map(|cell| &mut cell.runs) {
        run.changed_rows = run.changed_rows * 11 / 10;
    }
    vec![
        ("report", html::page(&results)),
        ("hostile", html::page(&sample::hostile_results())),
        ("crowded", html::page(&crowded())),
        ("compare", Comparison::of(&results, &after).html()),
    ]
}

#[test]
fn pages_can_be_read_at_both_widths_light_and_dark() {
    let Some(program) = chromium() else { return eprintln!("there is no Chromium: the report is not looked at") };
    for (name, page) in pages() {
        for width in [DESK_PX, PHONE_PX] {
            for scheme in [Scheme::Light, Scheme::Dark] {
                let of = format!("{name} at {width} px, {scheme:?}");
                screenshot(&program, &page, (name, width, scheme));
                let found = findings(&program, &page, width, scheme);
                found.folded.assert_readable(width, &of);
                found.unfolded.assert_readable(width, &of);
                let has_folded = page.contains("<details");
                assert_eq!(found.unfolded.texts > found.folded.texts, has_folded, "{of}: unfolding shows more");
                assert_eq!(found.scripts, 0, "{of}");
                found.colours.assert_contrast(scheme, &of);
            }
        }
    }
}

#[test]
fn charts_say_what_the_results_say() {
    let Some(program) = chromium() else { return eprintln!("there is no Chromium: the report is not looked at") };
    for results in [sample::results(), crowded()] {
        let found = findings(&program, &html::page(&results), PHONE_PX, Scheme::Light);
        for chart in &found.charts {
            assert!(chart.tables > 0, "{} of {}: no table", chart.kind, chart.experiment);
            let told = |image: &Vec<String>| image.len() == 2 && image.iter().all(|text| !text.trim().is_empty());
            assert!(!chart.images.is_empty() && chart.images.iter().all(told), "{:?}", chart.images);
        }
        for experiment in &results.experiments {
            let summary = ExperimentSummary::of(&results, experiment);
            let charts = |kind: &str| -> Vec<&Chart> {
                found.charts.iter().filter(|chart| chart.experiment == experiment.name && chart.kind == kind).collect()
            };
            assert_bars(&summary, &charts("bars"));
            assert_seconds(&summary, &charts("seconds"));
            assert_latencies(&summary, &charts("latencies"));
        }
    }
}

type Key = (String, String, String, String);

fn marks_of<'a>(charts: &[&'a Chart]) -> BTreeMap<Key, &'a Mark> {
    let mut found = BTreeMap::new();
    for chart in charts {
        for mark in &chart.marks {
            let key = (mark.clients.clone(), mark.target.clone(), mark.variant.clone(), mark.run.clone());
            assert!(chart.target.is_empty() || chart.target == mark.target);
            assert_eq!(chart.clients, mark.clients);
            assert!(found.insert(key, mark).is_none(), "a mark twice");
        }
    }
    found
}

fn assert_bars(summary: &ExperimentSummary, charts: &[&Chart]) {
    assert_eq!(charts.len(), summary.clients.len());
    let marks = marks_of(charts);
    assert_eq!(marks.len(), summary.cells.len());
    let mut widths = Vec::new();
    for cell in &summary.cells {
        let of = cell.cell;
        let mark = marks[&(of.clients.to_string(), of.target.clone(), of.variant.clone(), String::new())];
        assert_eq!(mark.problem == "yes", cell.value.is_none());
        if let Some(value) = cell.value {
            assert_eq!(mark.value.parse(), Ok(value.median));
            assert_eq!(mark.low.parse().ok().zip(mark.high.parse().ok()), value.interval);
            widths.push((value.median, mark.width_px));
        }
    }
    // All bars of an experiment have one scale, and a bar's length is its value.
    let (longest, width_px) = widths.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0)).expect("bars");
    assert!(width_px > 100.0);
    for (value, own_px) in widths {
        assert!((own_px - width_px * value / longest).abs() < 1.5, "{value}: {own_px} of {width_px}");
    }
}

/// The points of a path, in the units of the drawing.
fn points(d: &str) -> Vec<(f64, f64)> {
    let numbers = |point: &str| point.split_once(' ').and_then(|(x, y)| Some((x.parse().ok()?, y.parse().ok()?)));
    d.split(['M', 'L']).skip(1).map(|point| numbers(point).expect("a point")).collect()
}

fn numbers(text: &str) -> Vec<f64> {
    text.split_whitespace().map(|number| number.parse().expect("a number")).collect()
}

fn assert_seconds(summary: &ExperimentSummary, charts: &[&Chart]) {
    let counted = summary.results.counted;
    if counted == CountedUnit::StatementTime {
        return assert!(charts.is_empty());
    }
    let marks = marks_of(charts);
    let mut expected = 0;
    for cell in &summary.cells {
        for (at, run) in cell.cell.runs.iter().enumerate().filter(|(at, _)| cell.values[*at].is_some()) {
            let of = cell.cell;
            let mark = marks[&(of.clients.to_string(), of.target.clone(), of.variant.clone(), (at + 1).to_string())];
            let counts: Vec<f64> = run.seconds.iter().map(|second| second.changed_rows as f64).collect();
            assert_eq!(numbers(&mark.value), counts);
            let points = points(&mark.d);
            assert_eq!(points.len(), counts.len());
            // What is drawn is in proportion to the values, from zero at the bottom.
            let largest = (0..counts.len()).max_by(|a, b| counts[*a].total_cmp(&counts[*b])).expect("seconds");
            let scale = (1000.0 - points[largest].1) / counts[largest];
            for (count, (_, y)) in counts.iter().zip(&points) {
                assert!((1000.0 - y - count * scale).abs() < 0.3, "{count} at {y}");
            }
            expected += 1;
        }
    }
    assert_eq!(marks.len(), expected);
}

fn assert_latencies(summary: &ExperimentSummary, charts: &[&Chart]) {
    let marks = marks_of(charts);
    let mut expected = 0;
    for cell in summary.cells.iter().filter(|cell| cell.runs().any(|run| !run.latency.percentiles.is_empty())) {
        let of = cell.cell;
        let mark = marks[&(of.clients.to_string(), of.target.clone(), of.variant.clone(), String::new())];
        let percents = of.runs[0].latency.percentiles.iter().map(|(percent, _)| *percent);
        let values: Vec<f64> = percents.map(|percent| cell.percentile_us(percent).expect("a latency")).collect();
        assert_eq!(numbers(&mark.value), values);
        let points = points(&mark.d);
        assert_eq!(points.len(), values.len());
        assert!(points.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 >= two[1].1), "{points:?}");
        expected += 1;
    }
    assert_eq!(marks.len(), expected);
}

/// A picture of the whole page, if KILNDB_SCREENSHOTS asks for it.
fn screenshot(program: &Path, page: &str, (name, width, scheme): (&str, u32, Scheme)) {
    let Some(picture) = picture_path(name, width, scheme) else { return };
    let folder = TempDir::new("screenshot").expect("a folder");
    let file = folder.path().join("frame.html");
    std::fs::write(picture.with_file_name(format!("{name}.html")), page).expect("a file");
    let height = if width == PHONE_PX { 7500 } else { 4200 };
    std::fs::write(&file, framed(page, (width, height), scheme, "")).expect("a file");
    let arguments = [
        scheme_flag(scheme),
        format!("--window-size={},{height}", width.max(500)),
        format!("--screenshot={}", picture.display()),
        format!("file://{}", file.display()),
    ];
    run_chromium(program, folder.path(), &arguments);
    assert!(picture.is_file(), "no picture {}", picture.display());
}
