//! The tables of queries, what is said below them, and what fails.

use super::measure::{LIMIT_S, QueryComparison, QueryFigures, QueryOutcome};
use kilndb_lab::statistics::median;

/// What the ratios of the second server to the first are to stay below. They are listed and do not fail the benchmark.
pub(in crate::bench) struct RatioBounds {
    /// The bound of the sum of all times, or of the median ratio.
    pub time: f64,
    pub worst_time: f64,
    /// The bounds of the rows that plans produce: of the sum, and of a query.
    pub rows: Option<(f64, f64)>,
}

/// A group of queries.
pub(in crate::bench) struct PlanReport<'a> {
    pub title: &'a str,
    /// What the first and the second server are called.
    pub names: [&'static str; 2],
    pub queries: &'a [QueryComparison],
    pub bounds: &'a RatioBounds,
}

impl PlanReport<'_> {
    pub(super) fn print(&self) {
        let [base, other] = self.names;
        println!("\n### {}\n", self.title);
        println!("| | {base}, ms | {other}, ms | times as long | {base}, rows | {other}, rows | times as many |");
        println!("|---|---:|---:|---:|---:|---:|---:|");
        self.queries.iter().for_each(|query| println!("{}", line(query)));
        println!();
        self.summary().iter().for_each(|line| println!("{line}"));
    }

    /// What is below the table.
    fn summary(&self) -> Vec<String> {
        let mut lines = vec![self.times(), self.rows()];
        lines.extend(self.cut_off());
        lines.extend(self.without_rows());
        lines.extend(self.without_answer());
        lines.extend(self.over_bounds());
        lines.into_iter().filter(|line| !line.is_empty()).collect()
    }

    /// Totals are of the queries that both servers did: a query that one refuses is no time.
    fn totals(&self, value: impl Fn(&QueryFigures) -> Option<f64>) -> (f64, f64) {
        let pairs = self.queries.iter().filter_map(|query| Some((value(&query.base)?, value(&query.other)?)));
        pairs.fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1))
    }

    fn time_ratio(&self) -> f64 {
        let (base, other) = self.totals(|figures| figures.outcome.seconds());
        other / base
    }

    fn median_time_ratio(&self) -> f64 {
        median(self.queries.iter().filter_map(QueryComparison::time_ratio).collect())
    }

    fn rows_ratio(&self) -> f64 {
        let (base, other) = self.totals(|figures| figures.produced);
        other / base
    }

    fn times(&self) -> String {
        let (base, other) = self.totals(|figures| figures.outcome.seconds());
        let sums = format!(
            "Times: {} {base:.2} s, {} {other:.2} s, {:.2} times as long; median ratio {:.2}",
            self.names[0],
            self.names[1],
            other / base,
            self.median_time_ratio()
        );
        self.with_worst(sums, QueryComparison::time_ratio)
    }

    fn rows(&self) -> String {
        let (base, other) = self.totals(|figures| figures.produced);
        let ratios = self.queries.iter().filter_map(QueryComparison::rows_ratio).collect();
        let sums = format!(
            "Rows of all plan nodes: {} {base:.0}, {} {other:.0}, {:.2} times as many; median ratio {:.2}",
            self.names[0],
            self.names[1],
            other / base,
            median(ratios)
        );
        self.with_worst(sums, QueryComparison::rows_ratio)
    }

    fn with_worst(&self, sums: String, ratio: impl Fn(&QueryComparison) -> Option<f64>) -> String {
        let ratios = self.queries.iter().filter_map(|query| Some((ratio(query)?, query.name.as_str())));
        match ratios.max_by(|a, b| a.0.total_cmp(&b.0)) {
            Some((worst, name)) => format!("{sums}, worst {worst:.1} ({name})."),
            None => format!("{sums}."),
        }
    }

    fn cut_off(&self) -> Option<String> {
        let cut = |figures: &QueryFigures| figures.outcome == QueryOutcome::CutOff;
        let of = |side: usize| -> Vec<String> {
            let queries = self.queries.iter().filter(|query| cut(if side == 0 { &query.base } else { &query.other }));
            queries.map(|query| format!("{} ({})", query.name, self.names[side])).collect()
        };
        let all = [of(0), of(1)].concat();
        (!all.is_empty()).then(|| format!("Cut off after {LIMIT_S} s: {}.", all.join(", ")))
    }

    /// Queries that were done, and whose plan tells no rows: EXPLAIN ANALYZE was refused, or cut off.
    fn without_rows(&self) -> Option<String> {
        let silent =
            |figures: &QueryFigures| matches!(figures.outcome, QueryOutcome::Done(_)) && figures.produced.is_none();
        let queries = self.queries.iter().filter(|query| silent(&query.base) || silent(&query.other));
        let names: Vec<&str> = queries.map(|query| query.name.as_str()).collect();
        (!names.is_empty()).then(|| format!("EXPLAIN ANALYZE told no rows: {}.", names.join("; ")))
    }

    /// Queries that found nothing: what they measure may not be what they are meant to.
    fn without_answer(&self) -> Option<String> {
        let queries = self.queries.iter().filter(|query| query.answered == Some(0));
        let names: Vec<&str> = queries.map(|query| query.name.as_str()).collect();
        (!names.is_empty()).then(|| format!("Answered without a row: {}.", names.join("; ")))
    }

    /// What goes beyond the bounds, query by query and as a whole.
    fn over_bounds(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let whole = if self.bounds.rows.is_some() { self.time_ratio() } else { self.median_time_ratio() };
        lines.extend(over("Time as a whole", whole, self.bounds.time));
        lines.extend(self.queries_over("time", self.bounds.worst_time, QueryComparison::time_ratio));
        if let Some((rows, worst_rows)) = self.bounds.rows {
            lines.extend(over("Rows as a whole", self.rows_ratio(), rows));
            lines.extend(self.queries_over("rows", worst_rows, QueryComparison::rows_ratio));
        }
        lines
    }

    fn queries_over(&self, what: &str, bound: f64, ratio: impl Fn(&QueryComparison) -> Option<f64>) -> Option<String> {
        let ratios = self.queries.iter().filter_map(|query| Some((ratio(query)?, query.name.as_str())));
        let mut over: Vec<(f64, &str)> = ratios.filter(|(ratio, _)| *ratio > bound).collect();
        over.sort_by(|a, b| b.0.total_cmp(&a.0));
        let names: Vec<String> = over.iter().map(|(ratio, name)| format!("{name} {ratio:.1}")).collect();
        (!names.is_empty()).then(|| format!("Above the bound of {bound} in {what}: {}.", names.join("; ")))
    }

    /// What fails the benchmark: other answers, and queries that a server refuses.
    pub(in crate::bench) fn wrong(&self) -> Vec<String> {
        let refused = |query: &QueryComparison, figures: &QueryFigures, name: &str| match &figures.outcome {
            QueryOutcome::Refused(error) => Some(format!("{}, {}: {name}: {error}", self.title, query.name)),
            _ => None,
        };
        let of = |query: &QueryComparison| {
            let difference = query.difference.as_ref();
            let difference = difference.map(|what| format!("{}, {}: another answer: {what}", self.title, query.name));
            [difference, refused(query, &query.base, self.names[0]), refused(query, &query.other, self.names[1])]
        };
        self.queries.iter().flat_map(of).flatten().collect()
    }
}

fn over(what: &str, ratio: f64, bound: f64) -> Option<String> {
    (ratio > bound).then(|| format!("{what}: {ratio:.2} is above the bound of {bound}."))
}

/// A query's line of the table.
pub(super) fn line(query: &QueryComparison) -> String {
    let time = |figures: &QueryFigures| match &figures.outcome {
        QueryOutcome::Done(seconds) => format!("{:.2}", seconds * 1e3),
        QueryOutcome::CutOff => "cut off".into(),
        QueryOutcome::Refused(_) => "refused".into(),
    };
    let rows = |figures: &QueryFigures| figures.produced.map_or(String::new(), |rows| format!("{rows:.0}"));
    let ratio = |ratio: Option<f64>| ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"));
    let mark = if query.difference.is_some() { " **another answer**" } else { "" };
    format!(
        "| {}{mark} | {} | {} | {} | {} | {} | {} |",
        query.name,
        time(&query.base),
        time(&query.other),
        ratio(query.time_ratio()),
        rows(&query.base),
        rows(&query.other),
        ratio(query.rows_ratio())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(name: &str, base: QueryOutcome, other: QueryOutcome, rows: (f64, f64)) -> QueryComparison {
        let figures = |outcome: QueryOutcome, rows| {
            let produced = matches!(outcome, QueryOutcome::Done(_)).then_some(rows);
            QueryFigures { outcome, produced }
        };
        let (base, other) = (figures(base, rows.0), figures(other, rows.1));
        QueryComparison { name: name.into(), base, other, answered: Some(1), difference: None }
    }

    #[test]
    fn the_summary_names_the_worst_and_what_is_above_the_bounds() {
        let done = QueryOutcome::Done;
        let mut queries = vec![
            query("fast", done(1.0), done(0.5), (99.0, 99.0)),
            query("slow", done(1.0), done(11.0), (99.0, 299.0)),
            query("cut", done(1.0), QueryOutcome::CutOff, (99.0, 0.0)),
            query("refused", done(1.0), QueryOutcome::Refused("0A000 no".into()), (99.0, 0.0)),
        ];
        queries[0].difference = Some("1 rows instead of 2".into());
        let bounds = RatioBounds { time: 5.0, worst_time: 20.0, rows: Some((1.2, 2.0)) };
        let report = PlanReport { title: "T", names: ["A", "B"], queries: &queries, bounds: &bounds };
        let lines = report.summary();
        assert_eq!(lines[0], "Times: A 3.00 s, B 71.50 s, 23.83 times as long; median ratio 11.00, worst 60.0 (cut).");
        assert!(lines[1].contains("A 198, B 398, 2.01 times as many") && lines[1].ends_with("worst 3.0 (slow)."));
        assert_eq!(lines[2], "Cut off after 60 s: cut (B).");
        assert_eq!(lines[3], "Time as a whole: 23.83 is above the bound of 5.");
        assert_eq!(lines[4], "Above the bound of 20 in time: cut 60.0.");
        assert_eq!(lines[5], "Rows as a whole: 2.01 is above the bound of 1.2.");
        assert_eq!(lines[6..], ["Above the bound of 2 in rows: slow 3.0."]);
        assert_eq!(report.wrong(), ["T, fast: another answer: 1 rows instead of 2", "T, refused: B: 0A000 no"]);
    }
}
