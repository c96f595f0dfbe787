//! What can be said of values that were measured several times: medians, intervals, and how many times as good one is as another.
//!
//! 1. Intervals are Student's, of logarithms: speeds vary by a factor and not by an amount, and no interval reaches below zero.
//! 2. What was measured once has no interval, and nothing is sure of it.
//!
//! Must not know: what was measured.

/// Which of two values is the better one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Better {
    More,
    Less,
}

/// How many times as good one thing is as another, with the 95 % confidence interval of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Gain {
    pub times: f64,
    /// The 95 % confidence interval; None: there are too few values for one.
    pub interval: Option<(f64, f64)>,
}

impl Gain {
    /// Of pairs: the n-th values of both were measured within seconds of each other, so that a machine whose speed changes from
    /// minute to minute changes both. The geometric mean of the ratios, and Student's interval of its logarithm. None: there are no
    /// pairs, or a value is nothing.
    pub fn of(base: &[f64], other: &[f64], better: Better) -> Option<Gain> {
        let logs: Vec<f64> = base.iter().zip(other).map(|(base, other)| (other / base).ln()).collect();
        Some(LogMean::of(&logs)?.gain(better))
    }

    /// Of values that have nothing to do with each other, as of two days: Welch's interval. None: as of pairs.
    pub fn of_unpaired(base: &[f64], other: &[f64], better: Better) -> Option<Gain> {
        let logs_of = |values: &[f64]| -> Vec<f64> { values.iter().map(|value| value.ln()).collect() };
        let (base, other) = (LogMean::of(&logs_of(base))?, LogMean::of(&logs_of(other))?);
        let square_error = base.square_error.zip(other.square_error).map(|(a, b)| a + b);
        // Welch's and Satterthwaite's degrees of freedom. Two things without any variation have as many as both together.
        let part = |one: &LogMean| one.square_error.map_or(0.0, |square| square.powi(2) / one.degrees as f64);
        let parts = part(&base) + part(&other);
        let degrees = match square_error {
            Some(sum) if parts > 0.0 => (sum.powi(2) / parts + 1e-9) as usize,
            _ => base.degrees + other.degrees,
        };
        Some(LogMean { mean: other.mean - base.mean, square_error, degrees }.gain(better))
    }

    /// The whole interval lies below the bound. What was measured once is what it is.
    pub fn is_worse_than(&self, bound: f64) -> bool {
        self.interval.map_or(self.times, |(_, upper)| upper) < bound
    }
    /// The whole interval says that it is better. Never of what was measured once.
    pub fn is_surely_better(&self) -> bool {
        self.interval.is_some_and(|(lower, _)| lower > 1.0)
    }
    /// The whole interval says that it is worse. Never of what was measured once.
    pub fn is_surely_worse(&self) -> bool {
        self.interval.is_some_and(|(_, upper)| upper < 1.0)
    }
    /// The same, seen from the other one.
    pub fn inverse(&self) -> Gain {
        Gain { times: 1.0 / self.times, interval: self.interval.map(|(lower, upper)| (1.0 / upper, 1.0 / lower)) }
    }
}

/// What a value comes to that was measured several times.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    pub median: f64,
    /// The 95 % confidence interval of the geometric mean; None: there is one value only, or one of them is nothing.
    pub interval: Option<(f64, f64)>,
}

impl Measured {
    /// None: there are no values.
    pub fn of(values: &[f64]) -> Option<Measured> {
        let median = median(values.to_vec());
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        let interval = LogMean::of(&logs).and_then(|mean| mean.interval());
        (!median.is_nan()).then_some(Measured { median, interval })
    }
}

/// A mean of logarithms, and how far it may be off.
struct LogMean {
    mean: f64,
    /// The square of its standard error. None: there is one logarithm only.
    square_error: Option<f64>,
    degrees: usize,
}

impl LogMean {
    /// None: there are none, or one of them is the logarithm of nothing.
    fn of(logs: &[f64]) -> Option<LogMean> {
        if logs.is_empty() || logs.iter().any(|log| !log.is_finite()) {
            return None;
        }
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let squares = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
        let square_error = (logs.len() > 1).then(|| squares / (count - 1.0) / count);
        Some(LogMean { mean, square_error, degrees: logs.len() - 1 })
    }
    fn interval(&self) -> Option<(f64, f64)> {
        let half = student_97_5(self.degrees) * self.square_error?.sqrt();
        Some(((self.mean - half).exp(), (self.mean + half).exp()))
    }
    fn gain(&self, better: Better) -> Gain {
        let more = Gain { times: self.mean.exp(), interval: self.interval() };
        match better {
            Better::More => more,
            Better::Less => more.inverse(),
        }
    }
}

/// The 97.5 % quantile of Student's distribution.
fn student_97_5(degrees: usize) -> f64 {
    const FIRST: [f64; 20] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086,
    ];
    // Beyond the table this is right to two digits after the point.
    FIRST.get(degrees.saturating_sub(1)).copied().unwrap_or(1.96 + 2.5 / degrees as f64)
}

/// The value in the middle, or between the two there. Of no values: not a number.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        n if n.is_multiple_of(2) => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gain(base: &[f64], other: &[f64], better: Better) -> Gain {
        Gain::of(base, other, better).expect("pairs")
    }

    #[test]
    fn pairs_count_and_not_means() {
        // The machine halves its speed in the middle; within each pair the second is 2 % faster or slower.
        let base = [100.0, 100.0, 50.0, 50.0];
        let other = [102.0, 98.0, 51.0, 49.0];
        let (from, to) = gain(&base, &other, Better::More).interval.expect("several pairs");
        assert!(from < 1.0 && to > 1.0 && to - from < 0.1, "{from} to {to}");
        // The same without pairs: nothing is known.
        let (from, to) = Gain::of_unpaired(&base, &other, Better::More).and_then(|gain| gain.interval).expect("values");
        assert!(to - from > 1.0, "{from} to {to}");
    }

    #[test]
    fn the_interval_is_students() {
        // Logarithms 0.1, 0.2, 0.3: mean 0.2, standard error 0.1 / sqrt(3), quantile 4.303 of two degrees.
        let other: Vec<f64> = [0.1f64, 0.2, 0.3].iter().map(|log| log.exp()).collect();
        let found = gain(&[1.0; 3], &other, Better::More);
        let (from, to) = found.interval.expect("several pairs");
        assert!((found.times.ln() - 0.2).abs() < 1e-9);
        assert!((from.ln() - (0.2 - 0.248_434)).abs() < 1e-5 && (to.ln() - (0.2 + 0.248_434)).abs() < 1e-5);
        assert_eq!(Measured::of(&other).expect("values").interval, Some((from, to)));
        assert!((Measured::of(&other).expect("values").median - 0.2f64.exp()).abs() < 1e-12);
    }

    #[test]
    fn the_interval_without_pairs_is_welchs() {
        // Logarithms 0, 0.2 (square error 0.01, one degree) and 1.0, 1.1, 1.2 (square error 0.01 / 3, two degrees): the difference is
        // 1.0, its square error 0.04 / 3, and the degrees (0.04 / 3)² / (0.0001 + 0.01² / 18) = 1.68, of which one is whole.
        let exp = |logs: &[f64]| -> Vec<f64> { logs.iter().map(|log| log.exp()).collect() };
        let found = Gain::of_unpaired(&exp(&[0.0, 0.2]), &exp(&[1.0, 1.1, 1.2]), Better::More).expect("values");
        let (from, to) = found.interval.expect("several values");
        let half = 12.706 * (0.04f64 / 3.0).sqrt();
        assert!((found.times.ln() - 1.0).abs() < 1e-9);
        assert!((from.ln() - (1.0 - half)).abs() < 1e-9 && (to.ln() - (1.0 + half)).abs() < 1e-9);
        // No variation at all is no division of nothing by nothing.
        let same = Gain::of_unpaired(&[2.0, 2.0], &[4.0, 4.0], Better::Less).expect("values");
        assert_eq!((same.times, same.interval), (0.5, Some((0.5, 0.5))));
    }

    #[test]
    fn once_is_never_sure() {
        let once = gain(&[1.0], &[3.0], Better::More);
        assert!(!once.is_surely_better() && !once.inverse().is_surely_worse() && !once.is_worse_than(1.0));
        assert_eq!(Gain::of_unpaired(&[1.0], &[2.0, 2.1], Better::More).expect("values").interval, None);
        assert_eq!(Measured::of(&[7.0]), Some(Measured { median: 7.0, interval: None }));
        let several = gain(&[1.0, 1.0, 1.0], &[3.0, 3.1, 3.2], Better::Less);
        assert!(several.is_surely_worse() && several.inverse().is_surely_better());
    }

    #[test]
    fn nothing_is_no_ratio() {
        assert_eq!(Gain::of(&[0.0], &[1.0], Better::Less), None);
        assert_eq!(Gain::of_unpaired(&[1.0], &[], Better::More), None);
        assert_eq!(Measured::of(&[]), None);
        assert_eq!(Measured::of(&[0.0, 4.0]), Some(Measured { median: 2.0, interval: None }));
    }
}
