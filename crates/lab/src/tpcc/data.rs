//! The rows that TPC-C begins with (clause 4.3.3), in COPY's text format.

use super::choices::{name_of_customer, one_of, percent};
use super::{DISTRICTS, TpccSize};
use crate::random::RowRandom;
use std::fmt::Write as _;
use std::io::{self, Write};

/// The tables in the order in which they are filled.
pub(super) const TABLES: [&str; 9] =
    ["item", "warehouse", "district", "stock", "customer", "history", "orders", "new_order", "order_line"];

/// Cents that customers, districts and warehouses have been paid at the beginning, per customer.
const FIRST_PAYMENT_CENTS: u32 = 1_000;
const LINES_MIN: u32 = 5;
const LINES_MAX: u32 = 15;
const NOW: &str = "2026-01-01 00:00:00";

pub(super) struct TpccData {
    pub size: TpccSize,
    pub seed: u64,
}

impl TpccData {
    /// Writes all rows of a table.
    pub(super) fn write(&self, table: &str, out: &mut dyn Write) -> io::Result<()> {
        let mut rows = RowText { out, text: String::new() };
        match table {
            "item" => (1..=self.size.items).try_for_each(|item| self.item(&mut rows, item)),
            "warehouse" => self.warehouses().try_for_each(|warehouse| self.warehouse(&mut rows, warehouse)),
            "stock" => self
                .warehouses()
                .try_for_each(|w| (1..=self.size.items).try_for_each(|item| self.stock(&mut rows, w, item))),
            _ => self.warehouses().try_for_each(|w| {
                (1..=DISTRICTS).try_for_each(|district| self.of_district(&mut rows, table, (w, district)))
            }),
        }
    }

    fn warehouses(&self) -> std::ops::RangeInclusive<u32> {
        1..=self.size.warehouses
    }

    fn of_district(&self, rows: &mut RowText<'_>, table: &str, place: (u32, u32)) -> io::Result<()> {
        let customers = 1..=self.size.customers;
        match table {
            "district" => self.district(rows, place),
            "customer" => customers.into_iter().try_for_each(|customer| self.customer(rows, place, customer)),
            "history" => customers.into_iter().try_for_each(|customer| self.history(rows, place, customer)),
            "orders" => {
                let order_of = self.customers_of_orders(place);
                (1..).zip(order_of).try_for_each(|(order, customer)| self.order(rows, place, (order, customer)))
            }
            "new_order" => (self.first_undelivered()..=self.size.customers)
                .try_for_each(|order| rows.end(format_args!("{}\t{}\t{order}", place.0, place.1))),
            _ => customers.into_iter().try_for_each(|order| self.order_lines(rows, place, order)),
        }
    }

    fn first_undelivered(&self) -> u32 {
        self.size.customers - self.size.undelivered() + 1
    }

    /// Numbers for one row: `table` is a name, `key` what identifies the row in it.
    fn random(&self, table: &str, (warehouse, district): (u32, u32), key: u32) -> RowRandom {
        let table = table.bytes().fold(self.seed, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
        RowRandom::of_row(table, (u64::from(warehouse) * 16 + u64::from(district)) << 32 | u64::from(key))
    }

    fn item(&self, rows: &mut RowText<'_>, item: u32) -> io::Result<()> {
        let random = &mut self.random("item", (0, 0), item);
        let image = one_of(random, 10_000);
        rows.start(format_args!("{item}\t{image}\t"));
        rows.letters(random, 14, 24);
        rows.start(format_args!("\t{}\t", Cents(random.between(100, 10_000))));
        rows.original(random);
        rows.end(format_args!(""))
    }

    fn warehouse(&self, rows: &mut RowText<'_>, warehouse: u32) -> io::Result<()> {
        let random = &mut self.random("warehouse", (warehouse, 0), 0);
        rows.start(format_args!("{warehouse}\t"));
        rows.letters(random, 6, 10);
        rows.address(random);
        let paid = i64::from(self.size.customers * DISTRICTS * FIRST_PAYMENT_CENTS);
        rows.end(format_args!("\t0.{:04}\t{}", random.between(0, 2_000), Cents(paid)))
    }

    fn district(&self, rows: &mut RowText<'_>, place: (u32, u32)) -> io::Result<()> {
        let random = &mut self.random("district", place, 0);
        rows.start(format_args!("{}\t{}\t", place.0, place.1));
        rows.letters(random, 6, 10);
        rows.address(random);
        let paid = i64::from(self.size.customers * FIRST_PAYMENT_CENTS);
        let next = self.size.customers + 1;
        rows.end(format_args!("\t0.{:04}\t{}\t{next}", random.between(0, 2_000), Cents(paid)))
    }

    fn stock(&self, rows: &mut RowText<'_>, warehouse: u32, item: u32) -> io::Result<()> {
        let random = &mut self.random("stock", (warehouse, 0), item);
        rows.start(format_args!("{warehouse}\t{item}\t{}", random.between(10, 100)));
        for _ in 0..DISTRICTS {
            rows.start(format_args!("\t"));
            rows.letters(random, 24, 24);
        }
        rows.start(format_args!("\t0\t0\t0\t"));
        rows.original(random);
        rows.end(format_args!(""))
    }

    fn customer(&self, rows: &mut RowText<'_>, place: (u32, u32), customer: u32) -> io::Result<()> {
        let random = &mut self.random("customer", place, customer);
        rows.start(format_args!("{}\t{}\t{customer}\t", place.0, place.1));
        rows.letters(random, 8, 16);
        rows.start(format_args!("\tOE\t{}", name_of_customer(random, customer)));
        rows.address(random);
        rows.start(format_args!("\t{:016}", random.between(0, 9_999_999_999_999_999)));
        let credit = if percent(random, 10) { "BC" } else { "GC" };
        let discount = random.between(0, 5_000);
        let paid = Cents(i64::from(FIRST_PAYMENT_CENTS));
        rows.start(format_args!("\t{NOW}\t{credit}\t50000.00\t0.{discount:04}\t-{paid}\t{paid}\t1\t0\t"));
        rows.letters(random, 300, 500);
        rows.end(format_args!(""))
    }

    fn history(&self, rows: &mut RowText<'_>, (warehouse, district): (u32, u32), customer: u32) -> io::Result<()> {
        let random = &mut self.random("history", (warehouse, district), customer);
        let paid = Cents(i64::from(FIRST_PAYMENT_CENTS));
        rows.start(format_args!("{customer}\t{district}\t{warehouse}\t{district}\t{warehouse}\t{NOW}\t{paid}\t"));
        rows.letters(random, 12, 24);
        rows.end(format_args!(""))
    }

    /// Each of a district's customers once, in the order of their orders.
    fn customers_of_orders(&self, place: (u32, u32)) -> Vec<u32> {
        let mut customers: Vec<u32> = (1..=self.size.customers).collect();
        let random = &mut self.random("orders of customers", place, 0);
        for last in (1..customers.len()).rev() {
            customers.swap(last, random.index(last + 1));
        }
        customers
    }

    fn lines_of(&self, place: (u32, u32), order: u32) -> u32 {
        let random = &mut self.random("lines of orders", place, order);
        LINES_MIN + one_of(random, LINES_MAX - LINES_MIN + 1) - 1
    }

    fn order(&self, rows: &mut RowText<'_>, place: (u32, u32), (order, customer): (u32, u32)) -> io::Result<()> {
        let random = &mut self.random("orders", place, order);
        rows.start(format_args!("{}\t{}\t{order}\t{customer}\t{NOW}\t", place.0, place.1));
        match order < self.first_undelivered() {
            true => rows.start(format_args!("{}", one_of(random, 10))),
            false => rows.start(format_args!("\\N")),
        }
        rows.end(format_args!("\t{}\t1", self.lines_of(place, order)))
    }

    fn order_lines(&self, rows: &mut RowText<'_>, place: (u32, u32), order: u32) -> io::Result<()> {
        let random = &mut self.random("order_line", place, order);
        let (warehouse, district) = place;
        for line in 1..=self.lines_of(place, order) {
            let item = one_of(random, self.size.items);
            rows.start(format_args!("{warehouse}\t{district}\t{order}\t{line}\t{item}\t{warehouse}\t"));
            match order < self.first_undelivered() {
                true => rows.start(format_args!("{NOW}\t5\t0.00\t")),
                false => rows.start(format_args!("\\N\t5\t{}\t", Cents(random.between(1, 999_999)))),
            }
            rows.letters(random, 24, 24);
            rows.end(format_args!(""))?;
        }
        Ok(())
    }
}

/// An amount of money as a numeric with two digits after the point.
pub(super) struct Cents(pub i64);

impl std::fmt::Display for Cents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        write!(f, "{sign}{}.{:02}", self.0.unsigned_abs() / 100, self.0.unsigned_abs() % 100)
    }
}

/// A row under way.
struct RowText<'a> {
    out: &'a mut dyn Write,
    text: String,
}

impl RowText<'_> {
    fn start(&mut self, fields: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.text.write_fmt(fields);
    }

    fn end(&mut self, fields: std::fmt::Arguments<'_>) -> io::Result<()> {
        self.start(fields);
        self.text.push('\n');
        self.out.write_all(self.text.as_bytes())?;
        self.text.clear();
        Ok(())
    }

    /// So many letters and digits, from `low` to `high`.
    fn letters(&mut self, random: &mut RowRandom, low: i64, high: i64) {
        const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789aA";
        let mut left = random.between(low, high);
        while left > 0 {
            let mut bits = random.bits();
            for _ in 0..left.min(10) {
                self.text.push(LETTERS[(bits % 64) as usize] as char);
                bits /= 64;
            }
            left -= 10;
        }
    }

    /// Two streets, city, state and zip code, each after a tab.
    fn address(&mut self, random: &mut RowRandom) {
        for _ in 0..3 {
            self.text.push('\t');
            self.letters(random, 10, 20);
        }
        self.text.push('\t');
        self.letters(random, 2, 2);
        self.start(format_args!("\t{:04}11111", random.between(0, 9_999)));
    }

    /// The text of an item or its stock: one in ten has ORIGINAL in it.
    fn original(&mut self, random: &mut RowRandom) {
        let begin = self.text.len();
        self.letters(random, 26, 50);
        if percent(random, 10) {
            let at = begin + random.index(self.text.len() - begin - "ORIGINAL".len());
            self.text.replace_range(at..at + "ORIGINAL".len(), "ORIGINAL");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows_of(table: &str) -> Vec<Vec<String>> {
        let data = TpccData { size: TpccSize { warehouses: 2, items: 50, customers: 20 }, seed: 7 };
        let mut out = Vec::new();
        data.write(table, &mut out).expect("memory can be written to");
        let text = String::from_utf8(out).expect("text");
        text.lines().map(|line| line.split('\t').map(str::to_string).collect()).collect()
    }

    #[test]
    fn tables_have_their_rows() {
        let counts: Vec<usize> = TABLES.iter().map(|table| rows_of(table).len()).collect();
        // Two warehouses of ten districts of twenty customers, of whose orders the last six are not delivered.
        assert_eq!(counts[..8], [50, 2, 20, 100, 400, 400, 400, 120]);
        let lines: usize = rows_of("orders").iter().map(|order| order[6].parse::<usize>().expect("a number")).sum();
        assert_eq!(counts[8], lines);
        assert_eq!(rows_of("stock"), rows_of("stock"));
    }

    #[test]
    fn orders_are_of_each_customer_once() {
        let mut customers: Vec<u32> =
            rows_of("orders").iter().take(20).map(|order| order[3].parse().expect("a number")).collect();
        assert_ne!(customers, (1..=20).collect::<Vec<_>>());
        customers.sort_unstable();
        assert_eq!(customers, (1..=20).collect::<Vec<_>>());
    }
}
