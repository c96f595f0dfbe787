//! Shapes of charts as SVG: lines, bars with their intervals, samples of line styles.
//!
//! 1. A drawing has no text that is seen. It is stretched to whatever width there is, and only lengths are (`preserveAspectRatio`,
//!    `vector-effect`): strokes, dashes and markers keep their sizes. Labels are HTML beside it, so that they have the page's size at
//!    every width; text within a drawing would shrink to nothing on a phone.
//! 2. Each drawing is one image to a screen reader, with a title and its values in words; each shape has its values in `data-value`.
//! 3. Lines differ by colour, dashes and markers; colours come from the style sheet by class.
//!
//! Must not know: what is drawn, and results.

use super::markup::{Attribute, Markup};
use std::fmt::Write;

/// A drawing is so wide and high in its own units; the style sheet says how large it is on the page.
const SIZE: f64 = 1000.0;
const COLOURS: usize = 6;
const MARKERS: usize = 4;

/// Classes of the `style`-th line: its colour, dashes and marker. Dashes move on by one against the colours where those begin again.
fn classes(style: usize) -> String {
    let turn = style / COLOURS;
    format!("c{} d{} m{}", style % COLOURS, (style + turn) % COLOURS, (style + turn) % MARKERS)
}

/// What a drawing says to those who do not see it.
pub(super) struct Words<'a> {
    pub title: &'a str,
    /// The values.
    pub description: &'a str,
}

/// A line and what it shows. Points are parts of the width, from the left, and of the height, from the top.
pub(super) struct PlotLine {
    pub style: usize,
    pub points: Vec<(f64, f64)>,
    /// At each point; without it at the last one.
    pub has_all_markers: bool,
    /// It stands behind others.
    pub is_faint: bool,
    /// What it is and which values it has, as attributes `data-…`.
    pub data: Vec<(&'static str, String)>,
}

/// Lines over a grid.
pub(super) struct Plot<'a> {
    pub words: Words<'a>,
    pub lines: Vec<PlotLine>,
    /// Where the lines of the grid are.
    pub across: Vec<f64>,
    pub down: Vec<f64>,
}

impl Plot<'_> {
    pub(super) fn write(&self, m: &mut Markup) {
        drawing(m, "plot-drawing", &self.words, |m| {
            let across = self.across.iter().map(|y| format!("M0 {}H{SIZE}", at(*y)));
            let down = self.down.iter().map(|x| format!("M{} 0V{SIZE}", at(*x)));
            let grid: String = across.chain(down).collect();
            m.empty("path", &[("class", &"grid"), ("d", &grid)]);
            // Those that stand behind come first.
            for is_faint in [true, false] {
                self.lines.iter().filter(|line| line.is_faint == is_faint).for_each(|line| line.write(m));
            }
        });
    }
}

impl PlotLine {
    fn write(&self, m: &mut Markup) {
        let class = format!("line {}{}", classes(self.style), if self.is_faint { " faint" } else { "" });
        let mut attributes: Vec<Attribute> = vec![("class", &class)];
        attributes.extend(self.data.iter().map(|(name, value)| -> Attribute { (name, value) }));
        m.within("g", &attributes, |m| {
            let mut path = String::new();
            for (number, (x, y)) in self.points.iter().enumerate() {
                let _ = write!(path, "{}{} {}", if number == 0 { 'M' } else { 'L' }, at(*x), at(*y));
            }
            m.empty("path", &[("class", &"stroke"), ("d", &path)]);
            let first = if self.has_all_markers { 0 } else { self.points.len().saturating_sub(1) };
            if !self.is_faint {
                markers(m, &self.points[first..]);
            }
        });
    }
}

/// A marker is the cap of a line without a length: it keeps its shape however the drawing is stretched. A second, smaller one in the
/// page's colour makes it hollow where the class says so.
fn markers(m: &mut Markup, points: &[(f64, f64)]) {
    let path: String = points.iter().map(|(x, y)| format!("M{} {}h.01", at(*x), at(*y))).collect();
    m.empty("path", &[("class", &"marker"), ("d", &path)]);
    m.empty("path", &[("class", &"marker-core"), ("d", &path)]);
}

/// A value from the left edge on, and its interval, in parts of the width.
pub(super) struct Bar<'a> {
    pub words: Words<'a>,
    pub style: usize,
    pub value: f64,
    /// An end beyond the right edge has no cap.
    pub interval: Option<(f64, f64)>,
}

impl Bar<'_> {
    pub(super) fn write(&self, m: &mut Markup) {
        drawing(m, &format!("bar-drawing {}", classes(self.style)), &self.words, |m| {
            // What is there is seen, however small it is beside the others.
            let width = at(self.value.max(0.002));
            m.empty("rect", &[("class", &"fill"), ("x", &0), ("y", &150), ("width", &width), ("height", &700)]);
            if let Some(interval) = self.interval {
                whisker(m, interval);
            }
        });
    }
}

/// A ratio and its interval beside a line where both are the same, in parts of the width.
pub(super) struct RatioMark<'a> {
    pub words: Words<'a>,
    pub value: f64,
    pub interval: Option<(f64, f64)>,
    /// Where one is.
    pub same: f64,
}

impl RatioMark<'_> {
    pub(super) fn write(&self, m: &mut Markup) {
        drawing(m, "bar-drawing c0 d0 m0", &self.words, |m| {
            m.empty("path", &[("class", &"same"), ("d", &format!("M{} 0V{SIZE}", at(self.same)))]);
            if let Some(interval) = self.interval {
                whisker(m, interval);
            }
            markers(m, &[(self.value, 0.5)]);
        });
    }
}

fn whisker(m: &mut Markup, (from, to): (f64, f64)) {
    let mut path = format!("M{} 500H{}", at(from), at(to));
    for end in [from, to].into_iter().filter(|end| (0.0..=1.0).contains(end)) {
        let _ = write!(path, "M{} 300V700", at(end));
    }
    m.empty("path", &[("class", &"whisker-halo"), ("d", &path)]);
    m.empty("path", &[("class", &"whisker"), ("d", &path)]);
}

/// A piece of a line, for labels. The label says what it is, so screen readers pass it over.
pub(super) fn sample(m: &mut Markup, style: usize) {
    let class = format!("sample line {}", classes(style));
    let attributes: [Attribute; 4] =
        [("class", &class), ("viewBox", &"0 0 1000 1000"), ("preserveAspectRatio", &"none"), ("aria-hidden", &"true")];
    m.within("svg", &attributes, |m| {
        m.empty("path", &[("class", &"stroke"), ("d", &"M0 500H1000")]);
        markers(m, &[(0.5, 0.5)]);
    });
}

fn drawing(m: &mut Markup, class: &str, words: &Words, content: impl FnOnce(&mut Markup)) {
    let attributes: [Attribute; 4] =
        [("class", &class), ("viewBox", &"0 0 1000 1000"), ("preserveAspectRatio", &"none"), ("role", &"img")];
    m.within("svg", &attributes, |m| {
        m.element("title", &[], words.title);
        m.element("desc", &[], words.description);
        content(m);
    });
}

/// A part of the size in the drawing's units, without more digits than can be seen.
fn at(part: f64) -> f64 {
    let part = if part.is_finite() { part.clamp(-0.05, 1.05) } else { 0.0 };
    (part * SIZE * 10.0).round() / 10.0
}

/// Round values from zero to at least `max`, at most five of them.
pub(super) fn linear_ticks(max: f64) -> Vec<f64> {
    let max = if max.is_finite() && max > 0.0 { max } else { 1.0 };
    let decade = 10f64.powf((max / 4.0).log10().floor());
    let step =
        [1.0, 2.0, 2.5, 5.0, 10.0].map(|times| times * decade).into_iter().find(|step| step * 4.0 >= max * 0.9999);
    let step = step.unwrap_or(max / 4.0);
    let count = (max / step - 1e-9).ceil().max(1.0) as usize;
    (0..=count).map(|number| step * number as f64).collect()
}

/// Powers of ten that have all values between them.
pub(super) fn log_ticks(min: f64, max: f64) -> Vec<f64> {
    let is_usable = min.is_finite() && max.is_finite() && min > 0.0 && max >= min;
    let (min, max) = if is_usable { (min, max) } else { (1.0, 10.0) };
    let first = min.log10().floor() as i32;
    let last = (max.log10().ceil() as i32).max(first + 1);
    (first..=last).map(|power| 10f64.powi(power)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::markup::tests::elements;

    #[test]
    fn ticks_are_round_and_reach_to_the_end() {
        assert_eq!(linear_ticks(61_000.0), [0.0, 20_000.0, 40_000.0, 60_000.0, 80_000.0]);
        assert_eq!(linear_ticks(4.0), [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(linear_ticks(0.0).last(), Some(&1.0));
        for max in [0.03, 1.0, 7.3, 99.0, 101.0, 116_928.0] {
            let ticks = linear_ticks(max);
            assert!(ticks.len() <= 5 && ticks.len() >= 3 && ticks[ticks.len() - 1] >= max * 0.999, "{max}: {ticks:?}");
        }
        assert_eq!(log_ticks(250.0, 90_000.0), [100.0, 1000.0, 10_000.0, 100_000.0]);
        assert_eq!(log_ticks(100.0, 100.0), [100.0, 1000.0]);
        assert_eq!(log_ticks(f64::NAN, 0.0), [1.0, 10.0]);
    }

    #[test]
    fn styles_of_many_lines_differ() {
        let all: Vec<String> = (0..36).map(classes).collect();
        assert!(
            (0..36)
                .all(|a| (0..a).all(|b| all[a].split_once(" m").map(|x| x.0) != all[b].split_once(" m").map(|x| x.0)))
        );
    }

    #[test]
    fn an_interval_beyond_the_edge_has_no_cap_there() {
        let bar = |to| {
            let mut m = Markup::default();
            let words = Words { title: "t", description: "d" };
            Bar { words, style: 1, value: 0.4, interval: Some((0.2, to)) }.write(&mut m);
            elements(&m.document())
        };
        let path = |to| {
            let whisker = bar(to).into_iter().find(|element| element.1.iter().any(|(_, value)| value == "whisker"));
            whisker.and_then(|element| element.1.into_iter().find(|(name, _)| name == "d")).expect("a path").1
        };
        assert_eq!(path(0.6), "M200 500H600M200 300V700M600 300V700");
        assert_eq!(path(7.0), "M200 500H1050M200 300V700");
        let texts: Vec<String> =
            bar(0.6).into_iter().filter(|e| e.0 == "title" || e.0 == "desc").map(|e| e.2).collect();
        assert_eq!(texts, ["t", "d"]);
    }
}
