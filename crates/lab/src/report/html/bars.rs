//! The bars of an experiment: what each variant comes to on each target, for each number of clients.
//!
//! A bar is a drawing of its own in a row of three columns; on a phone it goes below its name and value.
//!
//! Must not know: anything but an experiment's summary.

use super::super::markup::{Attribute, Markup};
use super::super::summary::{CellSummary, ExperimentSummary, better, unit};
use super::super::svg::{Bar, Words};
use super::super::words;
use super::{folded, tables};
use crate::statistics::Better;

pub(super) fn write(m: &mut Markup, experiment: &ExperimentSummary) {
    let scale = experiment.bar_scale();
    m.within("div", &[("class", &"bar-charts")], |m| {
        let unit = unit(experiment.results.counted);
        let direction = match better(experiment.results.counted) {
            Better::More => "",
            Better::Less => "; less is better",
        };
        m.element("h3", &[], &words::capitalized(unit));
        let text = format!("Medians of all runs with their 95 % intervals, on one scale{direction}.");
        m.element("p", &[("class", &"note")], &text);
        for &clients in &experiment.clients {
            chart(m, experiment, clients, scale);
        }
    });
}

fn chart(m: &mut Markup, experiment: &ExperimentSummary, clients: usize, scale: f64) {
    let caption = words::count_of(clients, "client");
    m.within("figure", &[("class", &"bars"), ("data-chart", &"bars"), ("data-clients", &clients)], |m| {
        m.element("figcaption", &[], &caption);
        for target in &experiment.targets {
            let cells = experiment.cells_of(clients, target);
            if !cells.is_empty() {
                m.element("p", &[("class", &"bar-target")], target);
                cells.into_iter().for_each(|cell| row(m, experiment, cell, scale));
            }
        }
        folded(m, "Figures", |m| tables::values(m, experiment, clients));
    });
}

fn row(m: &mut Markup, experiment: &ExperimentSummary, cell: &CellSummary, scale: f64) {
    let CellAttributes { target, variant, clients } = CellAttributes::of(cell);
    let style = experiment.variants().iter().position(|name| *name == variant).unwrap_or(0);
    let Some(value) = cell.value else {
        let attributes: [Attribute; 5] = [
            ("class", &"bar-row"),
            ("data-target", &target),
            ("data-variant", &variant),
            ("data-clients", &clients),
            ("data-problem", &"yes"),
        ];
        m.within("div", &attributes, |m| {
            m.element("span", &[("class", &"bar-name")], variant);
            m.element("span", &[("class", &"bar-problem")], &cell.problems().join("; "));
        });
        return;
    };
    let (from, to) = value.interval.map_or((String::new(), String::new()), |(a, b)| (a.to_string(), b.to_string()));
    let attributes: [Attribute; 7] = [
        ("class", &"bar-row"),
        ("data-target", &target),
        ("data-variant", &variant),
        ("data-clients", &clients),
        ("data-value", &value.median),
        ("data-low", &from),
        ("data-high", &to),
    ];
    m.within("div", &attributes, |m| {
        m.element("span", &[("class", &"bar-name")], variant);
        let title = format!("{variant} on {target} with {}", words::count_of(clients, "client"));
        let interval = value.interval.map_or("measured once".to_string(), |(from, to)| {
            format!("95 % interval {} to {}", words::number(from), words::number(to))
        });
        let unit = unit(experiment.results.counted);
        let description = format!("{} {unit}, {interval}", words::number(value.median));
        let bar = Bar {
            words: Words { title: &title, description: &description },
            style,
            value: value.median / scale,
            interval: value.interval.map(|(from, to)| (from / scale, to / scale)),
        };
        bar.write(m);
        m.within("span", &[("class", &"bar-value")], |m| {
            m.element("b", &[], &words::number(value.median));
            let interval = words::interval(value.interval);
            if !interval.is_empty() {
                m.element("span", &[("class", &"interval")], &format!(" {interval}"));
            }
        });
    });
}

/// Which cell it is, as all shapes of charts say it.
pub(super) struct CellAttributes<'a> {
    pub target: &'a str,
    pub variant: &'a str,
    pub clients: usize,
}

impl<'a> CellAttributes<'a> {
    pub(super) fn of(cell: &CellSummary<'a>) -> CellAttributes<'a> {
        CellAttributes { target: &cell.cell.target, variant: &cell.cell.variant, clients: cell.cell.clients }
    }
}
