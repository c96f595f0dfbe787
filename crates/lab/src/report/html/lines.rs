//! Small charts of lines, one for each target and number of clients with a line for each variant: every second of the runs, and
//! latencies by percentile.
//!
//! 1. Seconds are never smoothed, and their axis begins at zero: a stall is seen as it was.
//! 2. The run in the middle stands for a variant; its other runs are there behind it.
//!
//! Must not know: anything but an experiment's summary.

use super::super::markup::{Attribute, Markup};
use super::super::summary::{CellSummary, ExperimentSummary, unit_of_seconds};
use super::super::svg::{self, Plot, PlotLine, Words};
use super::super::words;
use super::bars::CellAttributes;
use super::{folded, tables};
use crate::results::{CountedUnit, RunResults};
use crate::statistics::median;

/// The height of a plot on the page, as the style sheet has it, and of a label at the end of a line.
const PLOT_HEIGHT_PX: f64 = 160.0;
const LABEL_HEIGHT_PX: f64 = 18.0;
/// Longer names are cut in labels; the key has them in full.
const LABEL_LETTERS: usize = 16;

/// A tick: where it is, from the left or from the top, and what it is called.
type Tick = (f64, String);

/// A line of a chart before it has become points.
struct ChartLine {
    style: usize,
    points: Vec<(f64, f64)>,
    has_all_markers: bool,
    is_faint: bool,
    /// From 1; None: it is of all runs.
    run: Option<usize>,
    values: String,
    variant: String,
    /// In words.
    told: String,
}

struct Chart<'a> {
    kind: &'static str,
    target: &'a str,
    clients: usize,
    x_title: &'static str,
    x_ticks: Vec<Tick>,
    y_ticks: Vec<Tick>,
    lines: Vec<ChartLine>,
}

/// What each variant did in each second.
pub(super) fn seconds(m: &mut Markup, experiment: &ExperimentSummary) {
    if experiment.cells.iter().all(|cell| cell.runs().all(|run| run.seconds.is_empty())) {
        return;
    }
    m.element("h3", &[], &format!("{}, every second", words::capitalized(unit_of_seconds(experiment.results.counted))));
    let text = "The run in the middle of each variant; its other runs faint behind it. Each chart has a scale of its own, from zero.";
    m.element("p", &[("class", &"note")], text);
    panels(m, experiment, |m, clients, target| {
        let cells = experiment.cells_of(clients, target);
        if let Some(chart) = seconds_chart(experiment, &cells) {
            chart.write(m, |m| tables::seconds(m, experiment, &cells));
        }
    });
}

/// What was counted in each second of a run.
pub(super) fn counts(run: &RunResults, counted: CountedUnit) -> Vec<u64> {
    let count = |second: &crate::results::SecondResults| match counted {
        CountedUnit::ChangedRows => second.changed_rows,
        _ => second.transactions,
    };
    run.seconds.iter().map(count).collect()
}

fn seconds_chart<'a>(experiment: &ExperimentSummary<'a>, cells: &[&CellSummary<'a>]) -> Option<Chart<'a>> {
    let counted = experiment.results.counted;
    let runs = || cells.iter().flat_map(|cell| cell.runs());
    let longest = runs().map(|run| run.seconds.len()).max().filter(|longest| *longest > 0)?;
    let ticks = svg::linear_ticks(runs().flat_map(|run| counts(run, counted)).max().unwrap_or(0) as f64);
    let top = ticks.last().copied().unwrap_or(1.0);
    let mut lines = Vec::new();
    for cell in cells {
        let kept = cell.cell.runs.iter().enumerate().filter(|(at, _)| cell.values[*at].is_some());
        for (at, run) in kept {
            let counts = counts(run, counted);
            let x_of = |second: usize| if longest > 1 { second as f64 / (longest - 1) as f64 } else { 0.5 };
            let (stalled, _) = run.stalls();
            let middle = words::number(median(counts.iter().map(|count| *count as f64).collect()));
            lines.push(ChartLine {
                style: style_of(experiment, cell),
                points: counts.iter().enumerate().map(|(at, count)| (x_of(at), 1.0 - *count as f64 / top)).collect(),
                has_all_markers: false,
                is_faint: cell.middle_run() != Some(at),
                run: Some(at + 1),
                values: spaced(&counts),
                variant: cell.cell.variant.clone(),
                told: format!(
                    "{}, run {}: median second {middle}, {} under half of it.",
                    cell.cell.variant,
                    at + 1,
                    words::count_of(stalled, "second")
                ),
            });
        }
    }
    let x_ticks = [0, longest / 2, longest - 1].map(|second| (second as f64 / (longest.max(2) - 1) as f64, second));
    let mut x_ticks: Vec<Tick> = x_ticks.into_iter().map(|(at, second)| (at, (second + 1).to_string())).collect();
    x_ticks.dedup_by(|a, b| a.1 == b.1);
    let CellAttributes { target, clients, .. } = CellAttributes::of(cells.first()?);
    let y_ticks = ticks.iter().map(|tick| (1.0 - tick / top, words::tick(*tick))).collect();
    Some(Chart { kind: "seconds", target, clients, x_title: "second", x_ticks, y_ticks, lines })
}

/// The latencies that so many percent of transactions kept within.
pub(super) fn latencies(m: &mut Markup, experiment: &ExperimentSummary) {
    if experiment.cells.iter().all(|cell| cell.runs().all(|run| run.latency.percentiles.is_empty())) {
        return;
    }
    m.element("h3", &[], "Latency by percentile");
    let text =
        "Medians of all runs. Both scales are logarithmic: to the right the slowest tenth, hundredth and thousandth.";
    m.element("p", &[("class", &"note")], text);
    panels(m, experiment, |m, clients, target| {
        let cells = experiment.cells_of(clients, target);
        if let Some(chart) = latency_chart(experiment, &cells) {
            chart.write(m, |m| tables::latencies(m, &cells));
        }
    });
}

/// Percentages and latencies of a cell.
pub(super) fn latency_curve(cell: &CellSummary) -> Vec<(f64, f64)> {
    let Some(first) = cell.runs().next() else { return Vec::new() };
    let percents = first.latency.percentiles.iter().map(|(percent, _)| *percent);
    percents.filter_map(|percent| Some((percent, cell.percentile_us(percent)?))).collect()
}

fn latency_chart<'a>(experiment: &ExperimentSummary<'a>, cells: &[&CellSummary<'a>]) -> Option<Chart<'a>> {
    let curves: Vec<(&CellSummary, Vec<(f64, f64)>)> =
        cells.iter().map(|cell| (*cell, latency_curve(cell))).filter(|(_, curve)| !curve.is_empty()).collect();
    // Something faster than the clock can tell is shown as one microsecond.
    let all = || curves.iter().flat_map(|(_, curve)| curve).map(|(_, us)| us.max(1.0));
    let ticks = svg::log_ticks(all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    let (bottom, top) = (ticks.first()?.log10(), ticks.last()?.log10());
    let y_of = |us: f64| 1.0 - (us.max(1.0).log10() - bottom) / (top - bottom);
    let percents = || curves.iter().flat_map(|(_, curve)| curve).map(|(percent, _)| *percent);
    let last_nines = percents().filter(|percent| *percent < 100.0).map(nines).fold(3.0, f64::max);
    let x_of = |percent: f64| if percent >= 100.0 { 1.0 } else { nines(percent) / (last_nines + 1.0) };
    let line = |(cell, curve): &(&CellSummary, Vec<(f64, f64)>)| ChartLine {
        style: style_of(experiment, cell),
        points: curve.iter().map(|(percent, us)| (x_of(*percent), y_of(*us))).collect(),
        has_all_markers: true,
        is_faint: false,
        run: None,
        values: spaced(&curve.iter().map(|(_, us)| *us).collect::<Vec<f64>>()),
        variant: cell.cell.variant.clone(),
        told: format!("{}: {}.", cell.cell.variant, told_curve(curve)),
    };
    let lines: Vec<ChartLine> = curves.iter().map(line).collect();
    let CellAttributes { target, clients, .. } = CellAttributes::of(curves.first()?.0);
    let x_ticks = [0.0, 50.0, 90.0, 99.0, 99.9, 100.0].map(|percent| (x_of(percent), words::tick(percent))).into();
    // Every second decade, where there are many.
    let step = if ticks.len() > 5 { 2 } else { 1 };
    let named = |us: &f64| words::latency(*us).replace(".00", "").replace(".0 ", " ");
    let y_ticks = ticks.iter().step_by(step).map(|us| (y_of(*us), named(us))).collect();
    Some(Chart { kind: "latencies", target, clients, x_title: "percent of transactions", x_ticks, y_ticks, lines })
}

fn told_curve(curve: &[(f64, f64)]) -> String {
    let told = curve.iter().map(|(percent, us)| format!("{percent} % within {}", words::latency(*us)));
    told.collect::<Vec<String>>().join(", ")
}

/// How many nines a percentage has: 90 has one, 99 two.
fn nines(percent: f64) -> f64 {
    (100.0 / (100.0 - percent.clamp(0.0, 99.9999))).log10()
}

fn spaced(values: &[impl ToString]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<String>>().join(" ")
}

fn style_of(experiment: &ExperimentSummary, cell: &CellSummary) -> usize {
    experiment.variants().iter().position(|name| *name == cell.cell.variant).unwrap_or(0)
}

fn panels(m: &mut Markup, experiment: &ExperimentSummary, mut write: impl FnMut(&mut Markup, usize, &str)) {
    m.within("div", &[("class", &"panels")], |m| {
        for &clients in &experiment.clients {
            experiment.targets.iter().for_each(|target| write(m, clients, target));
        }
    });
}

impl Chart<'_> {
    fn write(&self, m: &mut Markup, table: impl FnOnce(&mut Markup)) {
        let caption = format!("{}, {}", self.target, words::count_of(self.clients, "client"));
        let attributes: [Attribute; 4] = [
            ("class", &"panel"),
            ("data-chart", &self.kind),
            ("data-target", &self.target),
            ("data-clients", &self.clients),
        ];
        m.within("figure", &attributes, |m| {
            m.element("figcaption", &[], &caption);
            m.within("div", &[("class", &"plot")], |m| {
                ticks(m, "y-axis", "top", &self.y_ticks);
                self.drawing(m, &format!("{} by {}", caption, self.x_title));
                self.labels(m);
                ticks(m, "x-axis", "left", &self.x_ticks);
                m.element("p", &[("class", &"x-title")], self.x_title);
            });
            folded(m, "Figures", table);
        });
    }

    fn drawing(&self, m: &mut Markup, title: &str) {
        let told: Vec<&str> = self.lines.iter().filter(|line| !line.is_faint).map(|line| line.told.as_str()).collect();
        let lines = self.lines.iter().map(|line| PlotLine {
            style: line.style,
            points: line.points.clone(),
            has_all_markers: line.has_all_markers,
            is_faint: line.is_faint,
            data: vec![
                ("data-target", self.target.to_string()),
                ("data-clients", self.clients.to_string()),
                ("data-variant", line.variant.clone()),
                ("data-run", line.run.map_or(String::new(), |run| run.to_string())),
                ("data-value", line.values.clone()),
            ],
        });
        let plot = Plot {
            words: Words { title, description: &told.join(" ") },
            lines: lines.collect(),
            across: self.y_ticks.iter().map(|(at, _)| *at).collect(),
            down: Vec::new(),
        };
        plot.write(m);
    }

    /// Names at the ends of the lines, moved apart where they would meet. With more lines than there is room for, the key has to do.
    fn labels(&self, m: &mut Markup) {
        let ends =
            self.lines.iter().filter(|line| !line.is_faint).filter_map(|line| Some((line, line.points.last()?.1)));
        let mut ends: Vec<(&ChartLine, f64)> = ends.collect();
        ends.sort_by(|a, b| a.1.total_cmp(&b.1));
        let wanted: Vec<f64> = ends.iter().map(|(_, y)| y * PLOT_HEIGHT_PX - LABEL_HEIGHT_PX / 2.0).collect();
        let Some(places) = apart(&wanted) else { return };
        m.within("div", &[("class", &"line-labels")], |m| {
            let mut end = 0.0;
            for ((line, _), top) in ends.iter().zip(places) {
                // Labels stand below each other, so that the widest of them makes the column's width.
                let style = format!("margin-top:{:.1}px", top - end);
                end = top + LABEL_HEIGHT_PX;
                m.within("div", &[("class", &"line-label"), ("style", &style)], |m| {
                    svg::sample(m, line.style);
                    m.element("span", &[], &shortened(&line.variant));
                });
            }
        });
    }
}

fn ticks(m: &mut Markup, class: &str, side: &str, ticks: &[Tick]) {
    m.within("div", &[("class", &class)], |m| {
        for (at, name) in ticks {
            let edge = match at {
                _ if *at < 0.005 => " first",
                _ if *at > 0.995 => " last",
                _ => "",
            };
            let style = format!("{side}:{:.2}%", at * 100.0);
            m.element("span", &[("class", &format!("tick{edge}")), ("style", &style)], name);
        }
    });
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= LABEL_LETTERS {
        return name.to_string();
    }
    name.chars().take(LABEL_LETTERS - 1).chain(['…']).collect()
}

/// Places at least a label's height apart, and within the plot, for labels that would be at `wanted`, which is sorted. None: there is
/// no room for all.
fn apart(wanted: &[f64]) -> Option<Vec<f64>> {
    let room = PLOT_HEIGHT_PX - LABEL_HEIGHT_PX * wanted.len() as f64;
    if room < 0.0 {
        return None;
    }
    let mut places: Vec<f64> = Vec::new();
    for want in wanted {
        let lowest = places.last().map_or(0.0, |last| last + LABEL_HEIGHT_PX);
        places.push(want.max(lowest));
    }
    let mut highest = PLOT_HEIGHT_PX - LABEL_HEIGHT_PX;
    for place in places.iter_mut().rev() {
        *place = place.min(highest);
        highest = *place - LABEL_HEIGHT_PX;
    }
    Some(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_never_meet_and_never_leave_the_plot() {
        for wanted in
            [vec![], vec![-9.0], vec![150.0, 150.0, 151.0], vec![0.0, 1.0, 2.0, 80.0, 81.0, 150.0, 151.0, 151.0]]
        {
            let places = apart(&wanted).expect("there is room");
            assert!(places.windows(2).all(|two| two[1] - two[0] >= LABEL_HEIGHT_PX - 1e-9), "{places:?}");
            assert!(
                places.iter().all(|place| (-1e-9..=PLOT_HEIGHT_PX - LABEL_HEIGHT_PX).contains(place)),
                "{places:?}"
            );
        }
        // Where they are apart already they stay.
        assert_eq!(apart(&[10.0, 60.0]), Some(vec![10.0, 60.0]));
        assert_eq!(apart(&[0.0; 9]), None);
    }

    #[test]
    fn percentages_are_placed_by_their_nines() {
        assert!((nines(90.0) - 1.0).abs() < 1e-9 && (nines(99.9) - 3.0).abs() < 1e-9 && nines(0.0) == 0.0);
        assert_eq!(shortened("a name that is far too long"), "a name that is …");
    }
}
