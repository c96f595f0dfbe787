//! The bars of one experiment as a picture by itself, for a document that cannot have a page in it: `README.md`.
//!
//! 1. It fetches nothing, has no script, and asks for fonts by their generic family only.
//! 2. It stands on paper of its own, dark where the reader's system is, so that it can be read on any background.
//! 3. What is seen is also there in words: a title, and a sentence for each bar.
//!
//! Must not know: files, and how values are computed.

use super::markup::{Attribute, Markup};
use super::summary::{CellSummary, ExperimentSummary, better, unit};
use super::words;
use crate::results::LabResults;
use crate::statistics::Better;

const WIDTH: f64 = 820.0;
const MARGIN: f64 = 24.0;
const BAR_HEIGHT: f64 = 15.0;
const BAR_STEP: f64 = 19.0;
/// Space between variants, and between numbers of clients.
const GAP: f64 = 9.0;
const HEADING_HEIGHT: f64 = 30.0;
/// What a letter takes of the width in the sizes that are used here: somewhat more than most fonts need.
const LETTER_WIDTH: f64 = 7.4;
const NAME_WIDTH_MAX: f64 = 230.0;
/// As wide as a value whose interval is told by both ends.
const VALUE_WIDTH: f64 = 200.0;
const TITLE: &str = "title";
/// A title's letters are so many times as wide.
const TITLE_TIMES: f64 = 1.45;
/// Colours differ up to here.
const COLOURS: usize = 4;

const STYLE: &str = "
text { font: 13px sans-serif; fill: #1d1d1b; }
.title { font: 600 18px sans-serif; } .soft { fill: #5d5c57; } .clients { font: 600 13px sans-serif; }
.paper { fill: #fdfdfb; stroke: #cfcdc6; } .axis { stroke: #cfcdc6; } .whisker { stroke: #1d1d1b; fill: none; stroke-width: 1.5; }
.c0 { fill: #5b9dcb; } .c1 { fill: #dc8d5c; } .c2 { fill: #5fae9b; } .c3 { fill: #c58cb5; }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e2dc; } .soft { fill: #a5a39b; } .paper { fill: #16181b; stroke: #45474b; } .axis { stroke: #45474b; }
  .whisker { stroke: #e4e2dc; }
  .c0 { fill: #2f77a8; } .c1 { fill: #b4602a; } .c2 { fill: #248a6e; } .c3 { fill: #96578a; }
}
";

/// The picture of the experiment of that name.
pub fn of_experiment(results: &LabResults, name: &str) -> Result<String, String> {
    let Some(experiment) = results.experiments.iter().find(|experiment| experiment.name == name) else {
        let names: Vec<String> = results.experiments.iter().map(|experiment| experiment.name.clone()).collect();
        return Err(format!("the results have no experiment {name}: they have {}", words::list(&names)));
    };
    Ok(BarPicture::new(results, &ExperimentSummary::of(results, experiment)).text())
}

/// A picture, and how far down it has come.
struct BarPicture<'p> {
    results: &'p LabResults,
    experiment: &'p ExperimentSummary<'p>,
    /// Where bars begin, and how long the value at the right edge is.
    bars_from: f64,
    bars_width: f64,
    scale: f64,
    y: f64,
    body: Markup,
}

impl<'p> BarPicture<'p> {
    fn new(results: &'p LabResults, experiment: &'p ExperimentSummary<'p>) -> BarPicture<'p> {
        let longest = experiment.variants().iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let names_width = (longest as f64 * LETTER_WIDTH).min(NAME_WIDTH_MAX);
        let bars_from = MARGIN + names_width + 12.0;
        BarPicture {
            results,
            experiment,
            bars_from,
            bars_width: WIDTH - bars_from - VALUE_WIDTH - MARGIN,
            scale: experiment.bar_scale(),
            y: MARGIN,
            body: Markup::default(),
        }
    }

    fn text(mut self) -> String {
        self.head();
        let experiment = self.experiment;
        for &clients in &experiment.clients {
            self.clients(clients);
        }
        let height = self.y + MARGIN - GAP;
        let view = format!("0 0 {WIDTH} {height}");
        let attributes: [Attribute; 6] = [
            ("xmlns", &"http://www.w3.org/2000/svg"),
            ("viewBox", &view),
            ("width", &WIDTH),
            ("height", &height),
            ("role", &"img"),
            ("data-experiment", &experiment.results.name),
        ];
        let mut picture = Markup::default();
        picture.within("svg", &attributes, |m| {
            m.element("title", &[], &experiment.results.title);
            m.element("desc", &[], &self.description());
            m.style_sheet(STYLE);
            let (width, height) = (WIDTH - 1.0, height - 1.0);
            let paper: [Attribute; 6] =
                [("class", &"paper"), ("x", &0.5), ("y", &0.5), ("width", &width), ("height", &height), ("rx", &6)];
            m.empty("rect", &paper);
            m.append(self.body);
        });
        picture.file()
    }

    /// The title, what is counted, where, and which colour is which target.
    fn head(&mut self) {
        let (results, machine) = (self.experiment.results, &self.results.machine);
        self.line(TITLE, MARGIN, 18.0, &results.title);
        let direction = match better(results.counted) {
            Better::More => "",
            Better::Less => "; less is better",
        };
        let told = format!("{}{direction}; medians with 95 % intervals", unit(results.counted));
        self.line("soft", MARGIN, 22.0, &told);
        let began = self.results.began.split('T').next().unwrap_or_default();
        let place = [machine.processor.as_str(), &words::count_of(machine.cores, "core"), began]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(", ");
        self.line("soft", MARGIN, 18.0, &place);
        let mut x = MARGIN;
        self.y += 14.0;
        for (at, target) in self.experiment.targets.iter().enumerate() {
            let (class, y) = (colour(at), self.y);
            self.body.empty("rect", &[("class", &class), ("x", &x), ("y", &y), ("width", &14), ("height", &12)]);
            let shown = shortened(target, NAME_WIDTH_MAX);
            self.body.element("text", &[("x", &(x + 20.0)), ("y", &(y + 11.0))], &shown);
            x += 44.0 + shown.chars().count() as f64 * LETTER_WIDTH;
        }
        self.y += 18.0;
    }

    /// A line of text below what there is.
    fn line(&mut self, class: &str, x: f64, height: f64, text: &str) {
        self.y += height;
        let room = WIDTH - x - MARGIN;
        let shown = shortened(text, if class == TITLE { room / TITLE_TIMES } else { room });
        self.body.element("text", &[("class", &class), ("x", &x), ("y", &(self.y - 4.0))], &shown);
    }

    fn clients(&mut self, clients: usize) {
        self.line("clients", MARGIN, HEADING_HEIGHT, &words::count_of(clients, "client"));
        self.y += 4.0;
        let experiment = self.experiment;
        let top = self.y;
        for variant in experiment.variants() {
            let cells = experiment.targets.iter().enumerate();
            let cells: Vec<_> = cells.filter_map(|(at, t)| Some((at, experiment.cell(clients, t, variant)?))).collect();
            if cells.is_empty() {
                continue;
            }
            let middle = self.y + (cells.len() as f64 * BAR_STEP) / 2.0 + 3.0;
            let (x, shown) = (self.bars_from - 10.0, shortened(variant, NAME_WIDTH_MAX));
            self.body.element("text", &[("x", &x), ("y", &middle), ("text-anchor", &"end")], &shown);
            cells.into_iter().for_each(|(at, cell)| self.bar(at, cell));
            self.y += GAP;
        }
        let path = format!("M{} {top}V{}", self.bars_from, self.y - GAP);
        self.body.empty("path", &[("class", &"axis"), ("d", &path)]);
    }

    fn bar(&mut self, at: usize, cell: &CellSummary) {
        let (y, from) = (self.y, self.bars_from);
        self.y += BAR_STEP;
        let baseline = y + BAR_HEIGHT - 3.0;
        let Some(value) = cell.value else {
            let attributes: [Attribute; 3] = [("class", &"soft"), ("x", &(from + 6.0)), ("y", &baseline)];
            self.body.element("text", &attributes, &format!("{}: failed", cell.cell.target));
            return;
        };
        let class = colour(at);
        // What is there is seen, however small it is beside the others.
        let place = |value: f64| rounded((value / self.scale * self.bars_width).clamp(0.0, self.bars_width));
        let width = place(value.median).max(1.5);
        let attributes: [Attribute; 9] = [
            ("class", &class),
            ("x", &from),
            ("y", &y),
            ("width", &width),
            ("height", &BAR_HEIGHT),
            ("data-target", &cell.cell.target),
            ("data-variant", &cell.cell.variant),
            ("data-clients", &cell.cell.clients),
            ("data-value", &value.median),
        ];
        let mut end = width;
        let whisker = value.interval.map(|(low, high)| {
            end = end.max(place(high));
            let (low, high, middle) = (from + place(low), from + place(high), y + BAR_HEIGHT / 2.0);
            let (top, bottom) = (middle - 3.5, middle + 3.5);
            format!("M{low} {middle}H{high}M{low} {top}V{bottom}M{high} {top}V{bottom}")
        });
        self.body.empty("rect", &attributes);
        if let Some(path) = whisker {
            self.body.empty("path", &[("class", &"whisker"), ("d", &path)]);
        }
        let shown = format!("{} {}", words::number(value.median), words::interval(value.interval));
        self.body.element("text", &[("x", &(from + end + 8.0)), ("y", &baseline)], shown.trim_end());
    }

    /// A sentence for each bar.
    fn description(&self) -> String {
        let unit = unit(self.experiment.results.counted);
        let sentence = |cell: &&CellSummary| {
            let of = cell.cell;
            let clients = words::count_of(of.clients, "client");
            let value = cell.value.map_or("failed".into(), |value| {
                format!("{} {unit} {}", words::number(value.median), words::interval(value.interval))
            });
            format!("{} on {} with {clients}: {}.", of.variant, of.target, value.trim_end())
        };
        self.experiment.in_order().iter().map(sentence).collect::<Vec<_>>().join(" ")
    }
}

fn colour(at: usize) -> String {
    format!("c{}", at % COLOURS)
}

/// A text that fits, with a mark where it ends too early.
fn shortened(text: &str, width: f64) -> String {
    words::cut(text, (width / LETTER_WIDTH) as usize)
}

/// A tenth of a unit is more than can be seen.
fn rounded(length: f64) -> f64 {
    (length * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::markup::tests::elements;
    use crate::report::sample::{self, cell_of_rates, experiment_of};
    use crate::results::CountedUnit;

    fn drawn(results: &LabResults, at: usize) -> Vec<(String, Vec<(String, String)>, String)> {
        let text = of_experiment(results, &results.experiments[at].name).expect("there is one");
        elements(&format!("<!DOCTYPE html>{text}"))
    }
    fn attribute<'e>(element: &'e (String, Vec<(String, String)>, String), name: &str) -> &'e str {
        element.1.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.as_str())
    }

    #[test]
    fn each_cell_has_a_bar_as_long_as_its_value() {
        let results = sample::results();
        for (at, experiment) in results.experiments.iter().enumerate() {
            let (elements, summary) = (drawn(&results, at), ExperimentSummary::of(&results, experiment));
            let bars: Vec<_> = elements.iter().filter(|element| !attribute(element, "data-value").is_empty()).collect();
            assert_eq!(bars.len(), summary.cells.iter().filter(|cell| cell.value.is_some()).count());
            let number = |bar, name: &str| attribute(bar, name).parse::<f64>().expect("a number");
            let sizes = bars.iter().map(|bar| (number(bar, "width"), number(bar, "data-value")));
            let (longest, largest) = sizes.max_by(|a, b| a.0.total_cmp(&b.0)).expect("a bar");
            for bar in &bars {
                let (value, width) = (number(bar, "data-value"), number(bar, "width"));
                let cell = summary
                    .cell(
                        number(bar, "data-clients") as usize,
                        attribute(bar, "data-target"),
                        attribute(bar, "data-variant"),
                    )
                    .and_then(|cell| cell.value);
                assert_eq!(cell.map(|cell| cell.median), Some(value));
                assert!(width <= 1.5 || (width - value * longest / largest).abs() < 0.2, "{width} of {value}");
                assert!(number(bar, "x") + width < WIDTH);
            }
            let description = &elements.iter().find(|element| element.0 == "desc").expect("words").2;
            summary.cells.iter().for_each(|cell| {
                assert!(description.contains(&format!("{} on {} with", cell.cell.variant, cell.cell.target)));
            });
        }
    }

    #[test]
    fn all_is_within_the_picture_and_nothing_over_something_else() {
        let wide = |variant: &str| cell_of_rates("KilnDB", variant, 64, &[121_000.0, 60_000.0, 230_000.0]);
        let wide = experiment_of(CountedUnit::Transactions, vec![wide("a"), wide("b")]);
        for results in [sample::results(), sample::results_of(vec![wide])] {
            assert_all_within(&drawn(&results, 0));
        }
    }

    fn assert_all_within(elements: &[(String, Vec<(String, String)>, String)]) {
        let height: f64 = attribute(&elements[0], "height").parse().expect("a number");
        let bars: Vec<_> = elements.iter().filter(|element| !attribute(element, "data-value").is_empty()).collect();
        let top = |bar| attribute(bar, "y").parse::<f64>().expect("a number");
        assert!(bars.windows(2).all(|pair| top(pair[0]) + BAR_HEIGHT < top(pair[1])));
        for element in elements.iter().filter(|element| element.0 == "text") {
            let place = |name: &str| attribute(element, name).parse::<f64>().expect("a number");
            assert!(place("y") > 0.0 && place("y") < height - 4.0, "{element:?}");
            let times = if attribute(element, "class") == TITLE { TITLE_TIMES } else { 1.0 };
            let width = element.2.chars().count() as f64 * LETTER_WIDTH * times;
            let is_left = attribute(element, "text-anchor") == "end";
            let (from, to) = if is_left { (place("x") - width, place("x")) } else { (place("x"), place("x") + width) };
            assert!(from >= 0.0 && to <= WIDTH, "{element:?}");
        }
    }

    #[test]
    fn it_is_well_formed_and_fetches_nothing_whatever_the_names() {
        let mut results = sample::hostile_results();
        results.experiments[0].cells[0].variant = "a very long name of a variant that goes on and on and on".into();
        for at in 0..results.experiments.len() {
            let elements = drawn(&results, at);
            assert_eq!(elements[0].0, "svg");
            let tags = ["svg", "title", "desc", "style", "rect", "text", "path"];
            assert!(elements.iter().all(|(tag, ..)| tags.contains(&tag.as_str())));
            assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
        }
        let told = of_experiment(&results, "none").expect_err("there is none");
        assert!(told.contains("no experiment none: they have hot-row"), "{told}");
    }
}
