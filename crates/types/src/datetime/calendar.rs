//! The proleptic Gregorian calendar over Julian day numbers.

/// Julian day of 2000-01-01 and 1970-01-01.
pub(crate) const POSTGRES_EPOCH_JDATE: i32 = 2_451_545;
/// The first day of March of the year 0.
pub(super) const MARCH_OF_YEAR_0_JDATE: i32 = 1_721_120;
pub(crate) const UNIX_EPOCH_JDATE: i32 = 2_440_588;
pub(crate) const USECS_PER_DAY: i64 = 86_400_000_000;
pub(crate) const USECS_PER_HOUR: i64 = 3_600_000_000;
pub(crate) const USECS_PER_MINUTE: i64 = 60_000_000;
pub(crate) const USECS_PER_SEC: i64 = 1_000_000;
pub const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A broken-down time. Years count astronomically: 0 is 1 BC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tm {
    pub year: i32,
    pub month: i32,
    pub day: i32,
    pub hour: i32,
    pub minute: i32,
    pub second: i32,
    pub micros: i32,
}

pub(crate) fn is_leap(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}
pub(crate) fn days_in_month(year: i32, month: i32) -> i32 {
    match month {
        2 => 28 + i32::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}
/// Julian day number; months may lie outside 1..12.
pub fn to_julian(year: i32, month: i32, day: i32) -> i32 {
    let months = i64::from(year) * 12 + i64::from(month) - 1;
    let (mut y, mut m) = (months.div_euclid(12), months.rem_euclid(12) + 1);
    // Count from March, so that the leap day is a year's last.
    if m > 2 {
        m -= 3;
    } else {
        m += 9;
        y -= 1;
    }
    let era = y.div_euclid(400);
    let yoe = y.rem_euclid(400);
    let doy = (153 * m + 2) / 5 + i64::from(day) - 1;
    let doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    (era * 146_097 + doe) as i32 + MARCH_OF_YEAR_0_JDATE
}
pub(crate) fn from_julian(jd: i32) -> (i32, i32, i32) {
    let z = i64::from(jd) - i64::from(MARCH_OF_YEAR_0_JDATE);
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + i64::from(month <= 2);
    (year as i32, month as i32, day as i32)
}
/// The day of the week of a Julian day; 0 is Sunday.
pub fn day_of_week(jd: i32) -> i32 {
    (jd + 1).rem_euclid(7)
}
pub(crate) fn is_valid_julian(year: i32, month: i32) -> bool {
    (year > -4713 || (year == -4713 && month >= 11)) && (year < 5_874_898 || (year == 5_874_898 && month < 6))
}
/// The ISO week-numbering year's first Monday.
pub(crate) fn iso_week_start(year: i32) -> i32 {
    let day4 = to_julian(year, 1, 4);
    day4 - (day_of_week(day4) + 6) % 7
}
/// (ISO year, ISO week).
pub(crate) fn iso_year_week(year: i32, month: i32, day: i32) -> (i32, i32) {
    let jd = to_julian(year, month, day);
    let mut y = year;
    if jd >= iso_week_start(year + 1) {
        y += 1;
    } else if jd < iso_week_start(year) {
        y -= 1;
    }
    (y, (jd - iso_week_start(y)) / 7 + 1)
}

/// Breaks down microseconds since 2000-01-01.
pub fn tm_of(ts: i64) -> Tm {
    let days = ts.div_euclid(USECS_PER_DAY);
    let (year, month, day) = from_julian(days as i32 + POSTGRES_EPOCH_JDATE);
    let mut tm = time_of(ts.rem_euclid(USECS_PER_DAY));
    (tm.year, tm.month, tm.day) = (year, month, day);
    tm
}
pub fn time_of(time: i64) -> Tm {
    Tm {
        hour: (time / USECS_PER_HOUR) as i32,
        minute: (time / USECS_PER_MINUTE % 60) as i32,
        second: (time / USECS_PER_SEC % 60) as i32,
        micros: (time % USECS_PER_SEC) as i32,
        ..Tm::default()
    }
}
impl Tm {
    pub(crate) fn time_micros(&self) -> i64 {
        ((i64::from(self.hour) * 60 + i64::from(self.minute)) * 60 + i64::from(self.second)) * USECS_PER_SEC
            + i64::from(self.micros)
    }
    /// Days since 2000-01-01.
    pub fn date(&self) -> i32 {
        to_julian(self.year, self.month, self.day) - POSTGRES_EPOCH_JDATE
    }
    /// Microseconds since 2000-01-01, None outside the range of timestamp.
    pub fn timestamp(&self) -> Option<i64> {
        if !is_valid_julian(self.year, self.month) {
            return None;
        }
        i64::from(self.date()).checked_mul(USECS_PER_DAY)?.checked_add(self.time_micros())
    }
}
