//! The page: one file that fetches nothing, for a wide screen, a phone and paper, light and dark.
//!
//! 1. The page has no script, and its policy lets it load nothing.
//! 2. Whatever a chart shows stands in a table beside it, and in its shapes as `data-value`.
//! 3. Labels of charts are text of the page; only shapes are drawn (`svg`).
//!
//! Must not know: how values are computed, and files.

mod bars;
mod lines;
mod section;
mod tables;

pub(super) use tables::PageTable;

use super::bounds;
use super::markup::Markup;
use super::summary::ExperimentSummary;
use super::verdict::verdict;
use super::words;
use crate::results::{LabResults, TargetFacts};

/// A whole page of a run's results.
pub fn page(results: &LabResults) -> String {
    let summaries = ExperimentSummary::all(results);
    let title = match &results.experiments[..] {
        [one] => one.title.clone(),
        _ => "Report of the lab".into(),
    };
    document(&title, |m| {
        header(m, &title, results);
        m.within("main", &[], |m| {
            contents(m, &summaries);
            for (at, summary) in summaries.iter().enumerate() {
                section::write(m, &anchor(at), summary, &bounds::of_experiment(results, summary.results));
            }
        });
    })
}

/// A page with the style sheet of all pages.
pub(super) fn document(title: &str, body: impl FnOnce(&mut Markup)) -> String {
    let mut m = Markup::default();
    m.within("html", &[("lang", &"en")], |m| {
        m.within("head", &[], |m| {
            m.empty("meta", &[("charset", &"utf-8")]);
            let policy = "default-src 'none'; style-src 'unsafe-inline'";
            m.empty("meta", &[("http-equiv", &"Content-Security-Policy"), ("content", &policy)]);
            m.empty("meta", &[("name", &"viewport"), ("content", &"width=device-width, initial-scale=1")]);
            m.empty("meta", &[("name", &"color-scheme"), ("content", &"light dark")]);
            m.element("title", &[], title);
            m.style_sheet(include_str!("style.css"));
        });
        m.within("body", &[], body);
    });
    m.document()
}

/// What all experiments have in common: when, where, on what.
fn header(m: &mut Markup, title: &str, results: &LabResults) {
    m.within("header", &[], |m| {
        m.element("h1", &[], title);
        machine(m, results);
        m.within("div", &[("class", &"targets")], |m| {
            for target in &results.targets {
                target_facts(m, target);
            }
        });
    });
}

fn machine(m: &mut Markup, results: &LabResults) {
    let machine = &results.machine;
    let place = [
        machine.processor.clone(),
        words::count_of(machine.cores, "core"),
        format!("{} of memory", words::bytes(machine.memory_bytes as f64)),
        machine.kernel.clone(),
    ];
    let place: Vec<String> = place.into_iter().filter(|part| !part.is_empty()).collect();
    m.within("dl", &[("class", &"facts")], |m| {
        for (name, value) in [("When", results.began.clone()), ("Machine", place.join(", "))] {
            m.element("dt", &[], name);
            m.element("dd", &[], &value);
        }
        if let Some(limit) = machine.wire_limit {
            m.element("dt", &[], "Wire limit");
            let told = format!(
                "{} transactions of one statement a second, from a server that only answers",
                words::number(limit)
            );
            m.element("dd", &[], &told);
        }
        m.element("dt", &[], "Command");
        m.within("dd", &[], |m| m.element("code", &[], &results.command));
    });
}

fn target_facts(m: &mut Markup, target: &TargetFacts) {
    m.within("section", &[("class", &"target")], |m| {
        m.element("h2", &[], &target.name);
        let version = if target.version.is_empty() { "version unknown" } else { &target.version };
        m.element("p", &[], &format!("{version}; {}", target.place));
        if let Some(problem) = &target.problem {
            m.element("p", &[("class", &"problem")], problem);
        }
        if !target.settings.is_empty() {
            m.within("details", &[], |m| {
                let count = words::count_of(target.settings.len(), "setting");
                m.element("summary", &[], &format!("{count} not as by default"));
                m.within("dl", &[("class", &"settings")], |m| {
                    for (name, value) in &target.settings {
                        m.element("dt", &[], name);
                        m.element("dd", &[], value);
                    }
                });
            });
        }
    });
}

/// The list of experiments, with what each says.
fn contents(m: &mut Markup, summaries: &[ExperimentSummary]) {
    if summaries.len() < 2 {
        return;
    }
    m.within("nav", &[("aria-label", &"Contents")], |m| {
        m.within("ol", &[], |m| {
            for (at, summary) in summaries.iter().enumerate() {
                m.within("li", &[], |m| {
                    m.element("a", &[("href", &format!("#{}", anchor(at)))], &summary.results.title);
                    m.element("p", &[], &unbroken(&verdict(summary)));
                });
            }
        });
    });
}

/// Names come from elsewhere and may be anything; places do not.
fn anchor(at: usize) -> String {
    format!("experiment-{}", at + 1)
}

/// Both ends of an interval stay on one line.
fn unbroken(text: &str) -> String {
    text.replace('–', "\u{2060}–\u{2060}")
}

/// What is there to be looked up, and does not stand in the way.
fn folded(m: &mut Markup, title: &str, content: impl FnOnce(&mut Markup)) {
    m.within("details", &[], |m| {
        m.element("summary", &[], title);
        content(m);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::markup::tests::elements;
    use crate::report::sample;

    #[test]
    fn the_page_is_well_formed_whatever_the_names() {
        for results in [sample::results(), sample::hostile_results(), sample::results_of(Vec::new())] {
            let elements = elements(&page(&results));
            assert!(!elements.iter().any(|(tag, ..)| tag == "script"));
            let shown = sample::HOSTILE.replace('\u{1b}', "\u{fffd}");
            let has_hostile = elements.iter().any(|(tag, _, text)| tag == "pre" && text.contains(&shown));
            assert_eq!(has_hostile, results.began == sample::HOSTILE);
        }
    }

    #[test]
    fn the_page_fetches_nothing_and_runs_nothing() {
        let page = page(&sample::results());
        for (tag, attributes, _) in elements(&page) {
            assert!(
                !["script", "link", "img", "iframe", "object", "use", "image", "base"].contains(&tag.as_str()),
                "{tag}"
            );
            for (name, value) in attributes {
                assert!(!["src", "srcset", "data", "action", "poster"].contains(&name.as_str()), "{name}");
                assert!(!name.starts_with("on") && !value.contains("url("), "{name}={value}");
                assert!(name != "href" || value.starts_with('#'), "{value}");
            }
        }
        assert!(
            !page.contains("http:") && !page.contains("https:") && !page.contains("@import") && !page.contains("url(")
        );
    }

    #[test]
    fn all_there_is_to_be_said_is_on_the_page() {
        let results = sample::results();
        let text = elements(&page(&results))[0].2.replace('\u{2060}', "");
        for experiment in &results.experiments {
            let summary = ExperimentSummary::of(&results, experiment);
            for part in [&experiment.title, &experiment.question, &experiment.setup, &verdict(&summary)] {
                assert!(text.contains(part.trim_end()), "{part}");
            }
            experiment.variants.iter().for_each(|variant| assert!(text.contains(variant.script.trim_end())));
            let statements = experiment.cells.iter().flat_map(|cell| &cell.runs).flat_map(|run| &run.statements);
            statements.for_each(|statement| assert!(text.contains(&statement.text)));
        }
        for part in [
            results.command.as_str(),
            "Some Processor 9000",
            "53300: sorry, too many clients already",
            "run 3 does not count, as a check failed: the count is what is left",
            "the document, PostgreSQL 14, 64 cores, 1,920 clients",
            "116,928",
            "Lock: tuple",
            "40P01",
            "max_connections",
        ] {
            assert!(text.contains(part), "{part}");
        }
    }
}
