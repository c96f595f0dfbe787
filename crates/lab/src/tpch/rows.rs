//! The rows of TPC-H's tables.

use super::text::{TextPool, address};
use super::words::{COLOURS, CONTAINERS, INSTRUCTIONS, MODES, NATIONS, PRIORITIES, REGIONS, SEGMENTS, TYPES};
use crate::random::RowRandom;
use std::fmt;
use std::io::{self, Write};

/// The tables in the order in which they are filled.
pub(super) const TABLES: [&str; 8] =
    ["region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem"];

/// Each table's rows come from a seed of their own.
const SEEDS: [(&str, u64); 6] =
    [("supplier", 11), ("customer", 12), ("part", 13), ("partsupp", 14), ("orders", 15), ("text", 16)];
/// The last day of an order: 151 days before the last day of all.
const LAST_ORDER_DAY: i64 = 2556 - 151;
/// 1995-06-17: the day that the data are said to be of.
const CURRENT_DAY: i64 = 1263;
/// Of so many suppliers one is complained of and one recommended.
const SUPPLIERS_PER_REMARK: i64 = 2000;

/// The tables at a scale.
pub(super) struct TpchData {
    suppliers: i64,
    parts: i64,
    customers: i64,
    orders: i64,
    clerks: i64,
    text: TextPool,
    colours: Vec<&'static str>,
    /// The days of 1992 to 1998 as texts.
    days: Vec<String>,
}

/// An amount of money in cents.
#[derive(Clone, Copy)]
struct Cents(i64);

impl fmt::Display for Cents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        write!(f, "{sign}{}.{:02}", self.0.abs() / 100, self.0.abs() % 100)
    }
}

/// A line of an order. Dates are days since 1992-01-01; discount and tax are percent.
struct OrderLine {
    part: i64,
    supplier: i64,
    quantity: i64,
    price: Cents,
    discount: i64,
    tax: i64,
    return_flag: &'static str,
    shipped: i64,
    committed: i64,
    received: i64,
}

/// An order with its lines.
struct CustomerOrder {
    key: i64,
    customer: i64,
    day: i64,
    lines: Vec<OrderLine>,
}

impl TpchData {
    pub(super) fn new(scale: f64) -> TpchData {
        let count = |rows: f64| ((rows * scale).round() as i64).max(1);
        TpchData {
            suppliers: count(10_000.0),
            parts: count(200_000.0),
            customers: count(150_000.0),
            orders: count(1_500_000.0),
            clerks: count(1000.0),
            text: TextPool::new(seed("text")),
            colours: COLOURS.split_whitespace().collect(),
            days: calendar(),
        }
    }

    /// Writes a table as COPY reads it.
    pub(super) fn write(&self, table: &str, out: &mut dyn Write) -> io::Result<()> {
        let each = |rows: i64, out: &mut dyn Write, row: fn(&Self, i64, &mut dyn Write) -> io::Result<()>| {
            (1..=rows).try_for_each(|key| row(self, key, out))
        };
        match table {
            "region" => self.regions(out),
            "nation" => self.nations(out),
            "supplier" => each(self.suppliers, out, Self::supplier),
            "customer" => each(self.customers, out, Self::customer),
            "part" => each(self.parts, out, Self::part),
            "partsupp" => each(self.parts, out, Self::suppliers_of_part),
            "orders" => each(self.orders, out, Self::order),
            "lineitem" => each(self.orders, out, Self::lines),
            _ => Err(io::Error::other(format!("TPC-H has no table {table}"))),
        }
    }

    fn regions(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut random = RowRandom::of_row(seed("text"), 1);
        REGIONS
            .iter()
            .enumerate()
            .try_for_each(|(key, name)| writeln!(out, "{key}|{name}|{}", self.text.comment(&mut random, 31, 115)))
    }

    fn nations(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut random = RowRandom::of_row(seed("text"), 2);
        NATIONS.iter().enumerate().try_for_each(|(key, (name, region))| {
            writeln!(out, "{key}|{name}|{region}|{}", self.text.comment(&mut random, 31, 114))
        })
    }

    fn supplier(&self, key: i64, out: &mut dyn Write) -> io::Result<()> {
        let random = &mut RowRandom::of_row(seed("supplier"), key as u64);
        let (address, nation) = (address(random), random.between(0, 24));
        let (phone, balance) = (phone(random, nation), balance(random));
        let mut comment = self.text.comment(random, 25, 100).to_string();
        // The residues are any two of which the smallest scales have a supplier.
        let remark = match key % SUPPLIERS_PER_REMARK {
            41 => Some("Complaints"),
            83 => Some("Recommends"),
            _ => None,
        };
        if let Some(remark) = remark {
            let remark = format!("Customer {remark}");
            let begin = random.index(comment.len() - remark.len());
            comment.replace_range(begin..begin + remark.len(), &remark);
        }
        writeln!(out, "{key}|Supplier#{key:09}|{address}|{nation}|{phone}|{balance}|{comment}")
    }

    fn customer(&self, key: i64, out: &mut dyn Write) -> io::Result<()> {
        let random = &mut RowRandom::of_row(seed("customer"), key as u64);
        let (address, nation) = (address(random), random.between(0, 24));
        let (phone, balance) = (phone(random, nation), balance(random));
        let segment = random.choice(&SEGMENTS);
        let comment = self.text.comment(random, 29, 116);
        writeln!(out, "{key}|Customer#{key:09}|{address}|{nation}|{phone}|{balance}|{segment}|{comment}")
    }

    fn part(&self, key: i64, out: &mut dyn Write) -> io::Result<()> {
        let random = &mut RowRandom::of_row(seed("part"), key as u64);
        let name = self.name_of_part(random);
        let maker = random.between(1, 5);
        let brand = maker * 10 + random.between(1, 5);
        let kind = TYPES.map(|list| random.choice(list)).join(" ");
        let size = random.between(1, 50);
        let container = CONTAINERS.map(|list| random.choice(list)).join(" ");
        let price = retail_price(key);
        let comment = self.text.comment(random, 5, 22);
        writeln!(out, "{key}|{name}|Manufacturer#{maker}|Brand#{brand}|{kind}|{size}|{container}|{price}|{comment}")
    }

    /// Five colours, each another.
    fn name_of_part(&self, random: &mut RowRandom) -> String {
        let mut words: Vec<&str> = Vec::new();
        while words.len() < 5 {
            let word = random.choice(&self.colours);
            if !words.contains(&word) {
                words.push(word);
            }
        }
        words.join(" ")
    }

    fn suppliers_of_part(&self, part: i64, out: &mut dyn Write) -> io::Result<()> {
        let random = &mut RowRandom::of_row(seed("partsupp"), part as u64);
        (0..4).try_for_each(|nth| {
            let supplier = self.supplier_of_part(part, nth);
            let (available, cost) = (random.between(1, 9999), Cents(random.between(100, 100_000)));
            let comment = self.text.comment(random, 49, 198);
            writeln!(out, "{part}|{supplier}|{available}|{cost}|{comment}")
        })
    }

    /// The specification's formula: the four suppliers of a part lie a quarter of all suppliers apart.
    fn supplier_of_part(&self, part: i64, nth: i64) -> i64 {
        (part + nth * (self.suppliers / 4 + (part - 1) / self.suppliers)) % self.suppliers + 1
    }

    fn order(&self, number: i64, out: &mut dyn Write) -> io::Result<()> {
        let (order, random) = self.order_with_lines(number);
        let mut random = random;
        let total: i64 = order.lines.iter().map(|line| line.charge()).sum();
        let open = order.lines.iter().filter(|line| line.is_open()).count();
        let status = match open {
            0 => 'F',
            n if n == order.lines.len() => 'O',
            _ => 'P',
        };
        let priority = random.choice(&PRIORITIES);
        let clerk = random.between(1, self.clerks);
        let comment = self.text.comment(&mut random, 19, 78);
        let (key, customer, day) = (order.key, order.customer, self.day(order.day));
        let total = Cents(total);
        writeln!(out, "{key}|{customer}|{status}|{total}|{day}|{priority}|Clerk#{clerk:09}|0|{comment}")
    }

    fn lines(&self, number: i64, out: &mut dyn Write) -> io::Result<()> {
        let (order, mut random) = self.order_with_lines(number);
        order.lines.iter().enumerate().try_for_each(|(nth, line)| {
            let status = if line.is_open() { 'O' } else { 'F' };
            let (instruction, mode) = (random.choice(&INSTRUCTIONS), random.choice(&MODES));
            let comment = self.text.comment(&mut random, 10, 43);
            let (price, discount, tax) = (line.price, Cents(line.discount), Cents(line.tax));
            let days = [line.shipped, line.committed, line.received].map(|day| self.day(day)).join("|");
            write!(out, "{}|{}|{}|{}|{}|", order.key, line.part, line.supplier, nth + 1, line.quantity)?;
            let flag = line.return_flag;
            writeln!(out, "{price}|{discount}|{tax}|{flag}|{status}|{days}|{instruction}|{mode}|{comment}")
        })
    }

    /// The order with what it and its lines have in common, and the numbers that the rest of a row is made of.
    fn order_with_lines(&self, number: i64) -> (CustomerOrder, RowRandom) {
        let mut random = RowRandom::of_row(seed("orders"), number as u64);
        let day = random.between(0, LAST_ORDER_DAY);
        let customer = self.customer_with_orders(&mut random);
        let count = random.between(1, 7);
        let lines = (0..count).map(|_| self.line(&mut random, day)).collect();
        (CustomerOrder { key: sparse_key(number), customer, day, lines }, random)
    }

    /// Every third customer has no orders.
    fn customer_with_orders(&self, random: &mut RowRandom) -> i64 {
        loop {
            let customer = random.between(1, self.customers);
            if customer % 3 != 0 {
                return customer;
            }
        }
    }

    fn line(&self, random: &mut RowRandom, ordered: i64) -> OrderLine {
        let part = random.between(1, self.parts);
        let supplier = self.supplier_of_part(part, random.between(0, 3));
        let quantity = random.between(1, 50);
        let (discount, tax) = (random.between(0, 10), random.between(0, 8));
        let shipped = ordered + random.between(1, 121);
        let committed = ordered + random.between(30, 90);
        let received = shipped + random.between(1, 30);
        let returned = random.choice(&["R", "A"]);
        let return_flag = if received <= CURRENT_DAY { returned } else { "N" };
        let price = Cents(quantity * retail_price(part).0);
        OrderLine { part, supplier, quantity, price, discount, tax, return_flag, shipped, committed, received }
    }

    fn day(&self, day: i64) -> &str {
        &self.days[day as usize]
    }
}

impl OrderLine {
    fn is_open(&self) -> bool {
        self.shipped > CURRENT_DAY
    }
    /// What is to be paid, in cents.
    fn charge(&self) -> i64 {
        (self.price.0 * (100 - self.discount) * (100 + self.tax) + 5_000) / 10_000
    }
}

fn seed(table: &str) -> u64 {
    SEEDS.iter().find(|(name, _)| *name == table).map_or(0, |(_, seed)| *seed)
}

/// Of 32 keys the first eight are used.
fn sparse_key(number: i64) -> i64 {
    let before = number - 1;
    before / 8 * 32 + before % 8 + 1
}

fn retail_price(part: i64) -> Cents {
    Cents(90_000 + (part / 10) % 20_001 + 100 * (part % 1000))
}

fn balance(random: &mut RowRandom) -> Cents {
    Cents(random.between(-99_999, 999_999))
}

fn phone(random: &mut RowRandom, nation: i64) -> String {
    let (area, local, line) = (random.between(100, 999), random.between(100, 999), random.between(1000, 9999));
    format!("{}-{area}-{local}-{line}", nation + 10)
}

/// The days from 1992-01-01 to 1998-12-31.
fn calendar() -> Vec<String> {
    let mut days = Vec::new();
    for year in 1992..=1998 {
        let february = if year % 4 == 0 { 29 } else { 28 };
        for (month, length) in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31].into_iter().enumerate() {
            days.extend((1..=length).map(|day| format!("{year}-{:02}-{day:02}", month + 1)));
        }
    }
    days
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const SCALE: f64 = 0.01;

    fn table(data: &TpchData, name: &str) -> Vec<Vec<String>> {
        let mut bytes = Vec::new();
        data.write(name, &mut bytes).expect("memory can be written to");
        let text = String::from_utf8(bytes).expect("text");
        text.lines().map(|line| line.split('|').map(str::to_string).collect()).collect()
    }

    fn number(text: &str) -> f64 {
        text.parse().expect("a number")
    }

    #[test]
    fn the_same_scale_gives_the_same_bytes() {
        let (one, two) = (TpchData::new(SCALE), TpchData::new(SCALE));
        for name in TABLES {
            let rows = table(&one, name);
            assert!(rows == table(&two, name), "{name}");
            assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{name}");
        }
        let mut none = Vec::new();
        assert!(one.write("nothing", &mut none).is_err());
    }

    #[test]
    fn the_days_are_those_of_the_calendar() {
        let days = calendar();
        assert_eq!((days.len(), days[0].as_str(), days[2556].as_str()), (2557, "1992-01-01", "1998-12-31"));
        assert_eq!((days[59].as_str(), days[CURRENT_DAY as usize].as_str()), ("1992-02-29", "1995-06-17"));
        assert_eq!(days[LAST_ORDER_DAY as usize], "1998-08-02");
    }

    #[test]
    fn parts_have_the_prices_and_suppliers_of_the_formulas() {
        let data = TpchData::new(SCALE);
        let (parts, supplies) = (table(&data, "part"), table(&data, "partsupp"));
        assert_eq!((parts.len(), supplies.len()), (2000, 8000));
        assert_eq!(parts[0][7], "901.00");
        assert_eq!((parts[998][7].as_str(), parts[1998][7].as_str()), ("1899.99", "1900.99"));
        let pairs: BTreeSet<(&str, &str)> = supplies.iter().map(|row| (row[0].as_str(), row[1].as_str())).collect();
        assert_eq!(pairs.len(), 8000);
        assert!(supplies.iter().all(|row| (1.0..=100.0).contains(&number(&row[1]))));
        assert!(parts.iter().all(|row| row[1].split(' ').collect::<BTreeSet<_>>().len() == 5));
        assert!(parts.iter().all(|row| row[3].starts_with(&row[2].replace("Manufacturer", "Brand"))));
    }

    #[test]
    fn orders_have_sparse_keys_and_customers_but_every_third() {
        let orders = table(&TpchData::new(SCALE), "orders");
        assert_eq!(orders.len(), 15_000);
        assert_eq!((orders[7][0].as_str(), orders[8][0].as_str()), ("8", "33"));
        assert!(orders.iter().all(|row| {
            let customer = number(&row[1]);
            (1.0..=1500.0).contains(&customer) && customer % 3.0 != 0.0
        }));
        assert!(orders.iter().all(|row| row[4].as_str() >= "1992-01-01" && row[4].as_str() <= "1998-08-02"));
        let customers: BTreeSet<&str> = orders.iter().map(|row| row[1].as_str()).collect();
        assert!(customers.len() > 990);
    }

    #[test]
    fn lines_belong_to_their_orders() {
        let data = TpchData::new(SCALE);
        let lines = table(&data, "lineitem");
        assert!((58_000..62_000).contains(&lines.len()), "{}", lines.len());
        for row in &lines {
            let (shipped, received) = (row[10].as_str(), row[12].as_str());
            assert!(shipped < received && shipped >= "1992-01-02" && received <= "1998-12-31", "{row:?}");
            assert!((1.0..=50.0).contains(&number(&row[4])) && number(&row[6]) <= 0.1 && number(&row[7]) <= 0.08);
            assert_eq!(row[9] == "O", shipped > "1995-06-17", "{row:?}");
            assert_eq!(row[8] == "N", received > "1995-06-17", "{row:?}");
            let (part, supplier) = (number(&row[1]) as i64, number(&row[2]) as i64);
            assert!((0..4).any(|nth| data.supplier_of_part(part, nth) == supplier), "{row:?}");
        }
        let order = &table(&data, "orders")[0];
        let own = lines.iter().filter(|row| row[0] == order[0]);
        let charges = own.map(|row| number(&row[5]) * (1.0 - number(&row[6])) * (1.0 + number(&row[7])));
        assert!((charges.sum::<f64>() - number(&order[3])).abs() < 0.05);
    }

    #[test]
    fn comments_have_the_words_that_queries_look_for() {
        let data = TpchData::new(SCALE);
        let has = |text: &str, first: &str, second: &str| {
            text.split_once(first).is_some_and(|(_, rest)| rest.contains(second))
        };
        let orders = table(&data, "orders");
        let special = orders.iter().filter(|row| has(&row[8], "special", "requests")).count();
        assert!((50..1000).contains(&special), "{special}");
        let suppliers = table(&data, "supplier");
        assert_eq!(suppliers.iter().filter(|row| has(&row[6], "Customer", "Complaints")).count(), 1);
        assert!(suppliers.iter().all(|row| (25..=100).contains(&row[6].len())));
        assert!(suppliers.iter().all(|row| (-999.99..=9999.99).contains(&number(&row[5]))));
    }
}
