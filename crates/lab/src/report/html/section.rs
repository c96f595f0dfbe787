//! What the page says of one experiment.
//!
//! Must not know: how charts and tables are written.

use super::super::bounds::BoundRow;
use super::super::markup::Markup;
use super::super::summary::ExperimentSummary;
use super::super::svg;
use super::super::verdict::verdict;
use super::super::words;
use super::{bars, folded, lines, tables, unbroken};
use crate::results::CountedUnit;

pub(super) fn write(m: &mut Markup, anchor: &str, experiment: &ExperimentSummary, bounds: &[BoundRow]) {
    let results = experiment.results;
    m.within("section", &[("class", &"experiment"), ("id", &anchor), ("data-experiment", &results.name)], |m| {
        m.element("h2", &[], &results.title);
        m.element("p", &[("class", &"question")], &results.question);
        m.element("p", &[("class", &"verdict")], &unbroken(&verdict(experiment)));
        problems(m, experiment);
        key(m, experiment);
        m.within("div", &[("class", &"beside")], |m| {
            bars::write(m, experiment);
            m.within("div", &[("class", &"notes")], |m| {
                tables::between_targets(m, experiment);
                results.figures.iter().for_each(|set| tables::known_figures(m, set, &experiment.variants()));
                expected(m, &results.expected);
            });
        });
        match results.counted {
            CountedUnit::StatementTime => tables::statements(m, experiment),
            counted if counted.runs_once() => {}
            _ => {
                lines::seconds(m, experiment);
                lines::latencies(m, experiment);
            }
        }
        tables::bounds(m, bounds);
        tables::used(m, experiment);
        tables::waits(m, experiment);
        sql(m, experiment);
    });
}

/// What went wrong, where the reader looks before he believes a chart.
fn problems(m: &mut Markup, experiment: &ExperimentSummary) {
    let cells = experiment.in_order().into_iter();
    let told = cells.flat_map(|cell| cell.problems().into_iter().map(move |problem| (cell.cell, problem)));
    let told: Vec<_> = told.collect();
    if told.is_empty() {
        return;
    }
    m.within("ul", &[("class", &"problems")], |m| {
        for (cell, problem) in told {
            let clients = words::count_of(cell.clients, "client");
            m.within("li", &[], |m| {
                m.element("b", &[], &format!("{} on {} with {clients}:", cell.variant, cell.target));
                m.text(&format!(" {problem}"));
            });
        }
    });
}

/// What the lines of all charts stand for.
fn key(m: &mut Markup, experiment: &ExperimentSummary) {
    m.within("ul", &[("class", &"key")], |m| {
        for (style, variant) in experiment.variants().into_iter().enumerate() {
            m.within("li", &[], |m| {
                svg::sample(m, style);
                m.within("span", &[], |m| {
                    m.element("b", &[], variant);
                    let title = experiment.variant_facts(variant).map_or("", |facts| facts.title.as_str());
                    if !title.is_empty() {
                        m.text(&format!(" {title}"));
                    }
                });
            });
        }
    });
}

fn expected(m: &mut Markup, expected: &[String]) {
    if !expected.is_empty() {
        let order = expected.join(", ");
        m.element("p", &[("class", &"note")], &format!("Expected, from the best to the worst: {order}."));
    }
}

fn sql(m: &mut Markup, experiment: &ExperimentSummary) {
    let results = experiment.results;
    let block = |m: &mut Markup, title: &str, text: &str| {
        if !text.trim().is_empty() {
            m.element("h4", &[], title);
            let label = format!("SQL: {title}");
            m.within("pre", &[("tabindex", &0), ("role", &"region"), ("aria-label", &label)], |m| {
                m.element("code", &[], text.trim_end());
            });
        }
    };
    folded(m, "SQL and scripts", |m| {
        block(m, "Before all variants", &results.setup);
        for variant in &results.variants {
            block(m, &format!("Before {}", variant.name), &variant.setup);
            block(m, &variant.name, &variant.script);
        }
    });
}
