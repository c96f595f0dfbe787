//! Numbers as people read them: with as many digits as mean something, and with units.
//!
//! Must not know: what is measured.

/// Three digits that count, thousands apart: `61,200`, `340`, `3.42`.
pub(super) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "—".into();
    }
    let size = value.abs();
    let decimals = match size {
        _ if size == 0.0 || size >= 100.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 => 2,
        _ => (2 - size.log10().floor() as i32).min(6) as usize,
    };
    if decimals > 0 {
        return format!("{value:.decimals$}");
    }
    let step = 10f64.powi((size.max(1.0).log10().floor() as i32 - 2).max(0));
    thousands((value / step).round() * step)
}

/// A whole number with its thousands apart.
pub(super) fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::from(if value < 0.0 && digits != "0" { "−" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// How many times: `18`, `2.1`, `1.04`.
pub(super) fn times(value: f64) -> String {
    if (0.095..1000.0).contains(&value) { format!("{value:.*}", times_decimals(value)) } else { number(value) }
}

fn times_decimals(value: f64) -> usize {
    match value {
        // What is rounded to ten has two digits already, and what is rounded to two one.
        _ if value >= 9.95 => 0,
        _ if value >= 1.995 => 1,
        _ => 2,
    }
}

/// `(1.9–2.3)`, as of how many times. Empty: there is none.
pub(super) fn times_interval(interval: Option<(f64, f64)>) -> String {
    let Some((from, to)) = interval else { return String::new() };
    // Both ends with as many digits, unless they are far apart.
    if from >= 0.095 && to < from * 2.0 && to < 1000.0 {
        let decimals = times_decimals(from);
        return format!("({from:.decimals$}–{to:.decimals$})");
    }
    format!("({}–{})", times(from), times(to))
}

/// How far an interval reaches from its middle: `±3 %`, and both ends where that is more than the half.
pub(super) fn interval(interval: Option<(f64, f64)>) -> String {
    let Some((from, to)) = interval else { return String::new() };
    // Its middle is that of the logarithms, from which both ends are as many times away.
    let percent = 100.0 * ((to / from).sqrt() - 1.0);
    match percent {
        _ if percent > 50.0 => format!("({}–{})", number(from), number(to)),
        _ if percent < 10.0 => format!("±{percent:.1} %"),
        _ => format!("±{percent:.0} %"),
    }
}

/// Microseconds as whatever has few digits.
pub(super) fn latency(us: f64) -> String {
    match us {
        _ if us < 1_000.0 => format!("{us:.0} µs"),
        _ if us < 1_000_000.0 => format!("{} ms", number(us / 1e3)),
        _ => format!("{} s", number(us / 1e6)),
    }
}

pub(super) fn bytes(count: f64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    // Less than a tenth of a byte comes of dividing and means nothing.
    let mut left = if count.abs() < 0.1 { 0.0 } else { count };
    let mut unit = 0;
    while left.abs() >= 1024.0 && unit + 1 < UNITS.len() {
        left /= 1024.0;
        unit += 1;
    }
    format!("{} {}", number(left).replace('-', "−"), UNITS[unit])
}

/// `1 client`, `1,920 clients`.
pub(super) fn count_of(count: usize, one: &str) -> String {
    format!("{} {one}{}", thousands(count as f64), if count == 1 { "" } else { "s" })
}

/// The first letter as at the beginning of a sentence.
pub(super) fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// What is shown as a line and nothing else: names and messages come from elsewhere.
pub(super) fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// The beginning of a text, with a mark where it has been cut off.
pub(super) fn cut(text: &str, letters: usize) -> String {
    match text.chars().count() > letters {
        true => text.chars().take(letters.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_string(),
    }
}

/// `a, b and c`.
pub(super) fn list(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// What a number on an axis is called, in few letters: `60k`, `1.5M`.
pub(super) fn tick(value: f64) -> String {
    match value {
        _ if value >= 1e6 => format!("{}M", trimmed(value / 1e6)),
        _ if value >= 1e4 => format!("{}k", trimmed(value / 1e3)),
        _ => trimmed(value),
    }
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_that_count() {
        let shown = [0.0, 0.012_345, 0.5, 3.418, 12.34, 340.4, 61_234.0, 116_928.0, 2_345_678.0].map(number);
        assert_eq!(shown, ["0", "0.0123", "0.500", "3.42", "12.3", "340", "61,200", "117,000", "2,350,000"]);
        assert_eq!(number(f64::NAN), "—");
        assert_eq!([times(18.2), times(2.13), times(1.04), times(0.5)], ["18", "2.1", "1.04", "0.50"]);
        assert_eq!([bytes(-2048.0), bytes(1536.0), bytes(-0.006)], ["−2.00 kB", "1.50 kB", "0 B"]);
        assert_eq!([latency(512.4), latency(3_100.0), latency(2.5e6)], ["512 µs", "3.10 ms", "2.50 s"]);
        assert_eq!([tick(60_000.0), tick(250.0), tick(1.5e6), tick(0.1)], ["60k", "250", "1.5M", "0.1"]);
    }

    #[test]
    fn both_ends_of_an_interval_have_as_many_digits() {
        let shown = [(1.95, 2.12), (9.8, 10.4), (0.5, 18.0), (17.4, 18.5)].map(|ends| times_interval(Some(ends)));
        assert_eq!(shown, ["(1.95–2.12)", "(9.8–10.4)", "(0.50–18)", "(17–18)"]);
        assert_eq!(times_interval(None), "");
    }

    #[test]
    fn intervals_are_told_by_their_ends_when_they_are_wide() {
        assert_eq!(interval(Some((97.0, 103.0))), "±3.0 %");
        assert_eq!(interval(Some((80.0, 120.0))), "±22 %");
        assert_eq!(interval(Some((10.0, 1000.0))), "(10.0–1,000)");
        assert_eq!(interval(None), "");
        assert_eq!(list(&["a", "b", "c"].map(String::from)), "a, b and c");
    }
}
