//! The table of the rows, and which of them fail.

use super::super::figures::is_slower;
use super::script::RowBounds;
use kilndb_lab::statistics::{Better, Gain, median};

/// What was measured of the two servers.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RowFigures {
    /// Seconds of each turn. The row's figure is the ratio of the medians.
    Times([Vec<f64>; 2]),
    /// Figures of each server by itself. The row's figure is the second server's median.
    Own([Vec<f64>; 2]),
    /// A ratio that was made of others.
    Ratio(f64),
}

impl RowFigures {
    pub(super) fn add(&mut self, base: f64, other: f64) {
        if let RowFigures::Times([bases, others]) | RowFigures::Own([bases, others]) = self {
            bases.push(base);
            others.push(other);
        }
    }

    /// The medians of both servers.
    fn medians(&self) -> Option<[f64; 2]> {
        match self {
            RowFigures::Times([base, other]) | RowFigures::Own([base, other]) => {
                Some([median(base.clone()), median(other.clone())])
            }
            RowFigures::Ratio(_) => None,
        }
    }
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ExecutionRow {
    pub bounds: RowBounds,
    pub figures: RowFigures,
}

/// What is said of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// It fails the benchmark.
    AboveMust,
    AboveAim,
    /// Slower than an earlier build, which fails the benchmark too.
    Slower,
    Fine,
}

impl ExecutionRow {
    /// What the bounds are of: how many times as long the second server takes, or a figure of its own.
    pub(super) fn figure(&self) -> f64 {
        match (&self.figures, self.figures.medians()) {
            (RowFigures::Times(_), Some([base, other])) => other / base,
            (RowFigures::Own(_), Some([_, other])) => other,
            (RowFigures::Ratio(ratio), _) => *ratio,
            (_, None) => f64::NAN,
        }
    }

    /// The bounds are ratios to PostgreSQL's times; an earlier build must only not have been faster.
    pub(super) fn verdict(&self, is_to_postgres: bool) -> Verdict {
        let is_own = matches!(self.figures, RowFigures::Own(_));
        if !is_to_postgres && !is_own {
            return if self.is_slower() { Verdict::Slower } else { Verdict::Fine };
        }
        let is_above = |bound: Option<f64>| bound.is_some_and(|bound| self.figure() > bound);
        match (is_above(self.bounds.must), is_above(self.bounds.aim)) {
            (true, _) => Verdict::AboveMust,
            (false, true) => Verdict::AboveAim,
            (false, false) => Verdict::Fine,
        }
    }

    /// By the whole interval of the ratios within the pairs, as in the other parts. What was measured once is only told.
    fn is_slower(&self) -> bool {
        let RowFigures::Times([base, other]) = &self.figures else { return false };
        base.len() > 1 && Gain::of(base, other, Better::Less).is_some_and(|gain| is_slower(&gain))
    }

    fn line(&self, is_to_postgres: bool) -> String {
        let [base, other] = self.figures.medians().map_or_else(Default::default, |medians| medians.map(figure));
        let bound = |bound: Option<f64>| bound.map_or(String::new(), |bound| bound.to_string());
        let verdict = match self.verdict(is_to_postgres) {
            Verdict::AboveMust => "above must",
            Verdict::AboveAim => "above aim",
            Verdict::Slower => "slower",
            Verdict::Fine => "",
        };
        let RowBounds { name, must, aim } = &self.bounds;
        format!(
            "| {name} | {base} | {other} | {} | {} | {} | {verdict} |",
            figure(self.figure()),
            bound(*must),
            bound(*aim)
        )
    }
}

/// Three digits at least, and those before the point.
fn figure(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

pub(super) fn print(rows: &[ExecutionRow], names: [&str; 2], is_to_postgres: bool) {
    println!("| | {}, s | {}, s | times as long | must | aim | |", names[0], names[1]);
    println!("|---|---:|---:|---:|---:|---:|---|");
    rows.iter().for_each(|row| println!("{}", row.line(is_to_postgres)));
    println!();
}

/// A line for a row that has just been measured.
pub(super) fn progress(row: &ExecutionRow) {
    let [base, other] = row.figures.medians().map_or_else(Default::default, |medians| medians.map(figure));
    eprintln!("{}: {} ({base}, {other})", row.bounds.name, figure(row.figure()));
}

/// What fails the benchmark.
pub(super) fn wrong(rows: &[ExecutionRow], base: &str, is_to_postgres: bool) -> Vec<String> {
    let of = |wanted: Verdict| -> Vec<String> {
        let rows = rows.iter().filter(|row| row.verdict(is_to_postgres) == wanted);
        rows.map(|row| format!("{} ({})", row.bounds.name, figure(row.figure()))).collect()
    };
    let told = |what: &str, rows: Vec<String>| (!rows.is_empty()).then(|| format!("{what}: {}", rows.join("; ")));
    let above = told("above what they must not exceed", of(Verdict::AboveMust));
    let slower = told(&format!("slower than {base} by their whole interval"), of(Verdict::Slower));
    above.into_iter().chain(slower).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(figures: RowFigures) -> ExecutionRow {
        ExecutionRow { bounds: RowBounds::new("row", 0.7, 0.3), figures }
    }

    fn times(base: &[f64], other: &[f64]) -> ExecutionRow {
        row(RowFigures::Times([base.to_vec(), other.to_vec()]))
    }

    #[test]
    fn a_row_is_held_against_its_bounds_by_its_medians() {
        let outlier = times(&[1.0, 1.0, 1.0], &[0.2, 9.0, 0.25]);
        assert_eq!((outlier.figure(), outlier.verdict(true)), (0.25, Verdict::Fine));
        assert_eq!(times(&[2.0], &[1.0]).verdict(true), Verdict::AboveAim);
        assert_eq!(times(&[2.0], &[1.5]).verdict(true), Verdict::AboveMust);
        assert_eq!(row(RowFigures::Ratio(0.71)).verdict(true), Verdict::AboveMust);
        let told =
            ExecutionRow { bounds: RowBounds { name: "told".into(), ..RowBounds::default() }, ..times(&[1.0], &[9.0]) };
        assert_eq!(told.verdict(true), Verdict::Fine);
        let lines = wrong(&[times(&[2.0], &[1.5]), told], "PostgreSQL", true);
        assert_eq!(lines, ["above what they must not exceed: row (0.750)"]);
    }

    #[test]
    fn a_figure_of_its_own_is_no_ratio() {
        let own = row(RowFigures::Own([vec![4.0], vec![0.5]]));
        assert_eq!((own.figure(), own.verdict(true), own.verdict(false)), (0.5, Verdict::AboveAim, Verdict::AboveAim));
        assert_eq!(own.line(true), "| row | 4.00 | 0.500 | 0.500 | 0.7 | 0.3 | above aim |");
    }

    #[test]
    fn an_earlier_build_must_only_not_have_been_faster() {
        assert_eq!(times(&[1.0, 1.0, 1.0], &[0.99, 1.01, 1.0]).verdict(false), Verdict::Fine);
        assert_eq!(times(&[1.0, 1.0, 1.0], &[1.5, 1.51, 1.49]).verdict(false), Verdict::Slower);
        assert_eq!(times(&[1.0], &[1.5]).verdict(false), Verdict::Fine);
        assert_eq!(row(RowFigures::Ratio(5.0)).verdict(false), Verdict::Fine);
    }
}
