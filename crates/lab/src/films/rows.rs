//! The rows of a database of films: what is frequent is very frequent, and columns depend on one another.
//!
//! A film's fame decides how many rows of other tables belong to it; its kind decides its years, its country its
//! companies and languages, its genre its keywords and who plays in it.

use super::words::*;
use crate::random::RowRandom;
use std::io::{self, Write};

/// The tables in the order in which they are filled.
pub(super) const TABLES: [&str; 21] = [
    "kind_type",
    "company_type",
    "info_type",
    "role_type",
    "link_type",
    "comp_cast_type",
    "company_name",
    "keyword",
    "name",
    "char_name",
    "title",
    "aka_name",
    "aka_title",
    "cast_info",
    "complete_cast",
    "movie_companies",
    "movie_info",
    "movie_info_idx",
    "movie_keyword",
    "movie_link",
    "person_info",
];

const FILM_SEED: u64 = 100;
const COMPANY_SEED: u64 = 200;
const PERSON_SEED: u64 = 300;
const FIRST_YEAR: i64 = 1900;
const LAST_YEAR: i64 = 2013;
/// The kinds of `KINDS` that the rows depend on.
const MOVIE: usize = 0;
const SERIES: usize = 1;
const VIDEO_GAME: usize = 5;
const EPISODE: usize = 6;

/// The sizes of the tables, which follow from the number of films.
pub(super) struct FilmData {
    films: i64,
}

/// What the rows about a film depend on.
struct Film {
    kind: usize,
    year: Option<i64>,
    country: usize,
    genre: usize,
    /// From 0 to 1; most films are near 0.
    fame: f64,
}

/// A number from 0 to `length` - 1: the higher the power, the more frequent are the low ones.
fn skewed(random: &mut RowRandom, length: i64, power: i32) -> i64 {
    let at = random.between(0, 999_999) as f64 / 1e6;
    ((length as f64 * at.powi(power)) as i64).min(length - 1)
}

fn chance(random: &mut RowRandom, percent: i64) -> bool {
    random.between(0, 99) < percent
}

/// A name of two or three syllables, which has beginnings and parts in common with others.
fn word(random: &mut RowRandom) -> String {
    let mut text = String::new();
    for _ in 0..random.between(2, 3) {
        text.push_str(SYLLABLES[skewed(random, SYLLABLES.len() as i64, 2) as usize]);
    }
    text[..1].to_uppercase() + &text[1..]
}

/// NULL as COPY writes it.
fn or_null(value: Option<i64>) -> String {
    value.map_or("\\N".into(), |value| value.to_string())
}

fn fixed(out: &mut dyn Write, list: &[&str]) -> io::Result<()> {
    list.iter().zip(1..).try_for_each(|(text, id): (_, usize)| writeln!(out, "{id}\t{text}"))
}

impl FilmData {
    pub(super) fn new(films: u32) -> FilmData {
        FilmData { films: i64::from(films) }
    }

    fn people(&self) -> i64 {
        self.films * 2
    }
    fn companies(&self) -> i64 {
        self.films / 10
    }
    fn keywords(&self) -> i64 {
        self.films / 10
    }
    fn characters(&self) -> i64 {
        self.films
    }

    fn film(&self, id: i64) -> Film {
        let random = &mut RowRandom::of_row(FILM_SEED, id as u64);
        let kind = [MOVIE, EPISODE, EPISODE, EPISODE, MOVIE, 3, 2, SERIES, VIDEO_GAME, MOVIE][random.index(10)];
        let age = skewed(random, LAST_YEAR - FIRST_YEAR, 3);
        let year = match kind {
            EPISODE | SERIES => LAST_YEAR - age / 2,
            VIDEO_GAME => LAST_YEAR - age / 4,
            _ => LAST_YEAR - age,
        };
        let year = (!chance(random, if kind == SERIES { 30 } else { 3 })).then_some(year);
        // Series come from few countries, and old films too.
        let power = if kind == EPISODE || year.is_some_and(|year| year < 1950) { 6 } else { 3 };
        let country = skewed(random, COUNTRIES.len() as i64, power) as usize;
        let genre = (skewed(random, GENRES.len() as i64, 2) as usize + country * 3 + kind) % GENRES.len();
        let place = random.between(0, 999_999) as f64 / 1e6;
        let fame = place.powi(if kind == EPISODE {
            40
        } else if kind == MOVIE {
            6
        } else {
            14
        });
        Film { kind, year, country, genre, fame }
    }

    /// Writes a table's rows as COPY wants them.
    pub(super) fn write(&self, table: &str, out: &mut dyn Write) -> io::Result<()> {
        match table {
            "kind_type" => fixed(out, &KINDS),
            "company_type" => fixed(out, &COMPANY_TYPES),
            "info_type" => fixed(out, &INFO_TYPES),
            "role_type" => fixed(out, &ROLES),
            "link_type" => fixed(out, &LINKS),
            "comp_cast_type" => fixed(out, &CAST_TYPES),
            "company_name" => self.write_companies(out),
            "keyword" => self.write_keywords(out),
            "name" => self.write_people(out),
            "char_name" => self.write_characters(out),
            "title" => self.write_titles(out),
            "aka_name" | "person_info" => self.write_of_people(table, out),
            _ => self.write_of_films(table, out),
        }
    }

    fn write_companies(&self, out: &mut dyn Write) -> io::Result<()> {
        for id in 1..=self.companies() {
            let random = &mut RowRandom::of_row(COMPANY_SEED, id as u64);
            let country = COUNTRIES[self.company_country(id)].0;
            let ending = random.choice(&["Pictures", "Film", "Entertainment", "Television", "Warner", "Home Video"]);
            let code = if chance(random, 5) { "\\N" } else { country };
            writeln!(out, "{id}\t{} {ending}\t{code}\t{}", word(random), SYLLABLES[random.index(SYLLABLES.len())])?;
        }
        Ok(())
    }

    /// Companies stand in runs of their country, the first countries' runs being the longest.
    fn company_country(&self, id: i64) -> usize {
        let place = (id - 1) as f64 / self.companies() as f64;
        ((COUNTRIES.len() as f64 * place * place * place) as usize).min(COUNTRIES.len() - 1)
    }

    fn write_keywords(&self, out: &mut dyn Write) -> io::Result<()> {
        for id in 1..=self.keywords() {
            let random = &mut RowRandom::of_row(400, id as u64);
            let known = KEYWORDS.get(id as usize - 1).map(|text| text.to_string());
            let text = known.unwrap_or_else(|| format!("{}-{}-{id}", word(random).to_lowercase(), word(random)));
            writeln!(out, "{id}\t{text}\t{}", SYLLABLES[random.index(SYLLABLES.len())])?;
        }
        Ok(())
    }

    fn write_people(&self, out: &mut dyn Write) -> io::Result<()> {
        for id in 1..=self.people() {
            let random = &mut RowRandom::of_row(PERSON_SEED, id as u64);
            let gender = match random.between(0, 9) {
                0..=1 => "\\N",
                // Those who play most are men here.
                2..=4 if id > self.people() / 20 => "f",
                _ => "m",
            };
            writeln!(out, "{id}\t{}, {}\t{gender}\t{}", word(random), word(random), SYLLABLES[random.index(9)])?;
        }
        Ok(())
    }

    fn write_characters(&self, out: &mut dyn Write) -> io::Result<()> {
        for id in 1..=self.characters() {
            let random = &mut RowRandom::of_row(500, id as u64);
            writeln!(out, "{id}\t{} {}", random.choice(&["Queen", "Man", "Dr.", "Himself", "The"]), word(random))?;
        }
        Ok(())
    }

    fn write_titles(&self, out: &mut dyn Write) -> io::Result<()> {
        for id in 1..=self.films {
            let film = self.film(id);
            let random = &mut RowRandom::of_row(600, id as u64);
            let episode = (film.kind == EPISODE).then(|| skewed(random, 60, 2) + 1);
            let season = episode.map(|episode| 1 + episode / 13);
            let year = or_null(film.year);
            let first = if film.fame > 0.5 { "The " } else { "" };
            writeln!(
                out,
                "{id}\t{first}{} {}\t{}\t{year}\t{}\t{}",
                word(random),
                word(random),
                film.kind + 1,
                or_null(episode),
                or_null(season)
            )?;
        }
        Ok(())
    }

    /// People with low numbers play more, and more is known of them.
    fn write_of_people(&self, table: &str, out: &mut dyn Write) -> io::Result<()> {
        let mut id = 0;
        for person in 1..=self.people() {
            let random = &mut RowRandom::of_row(if table == "aka_name" { 700 } else { 701 }, person as u64);
            let is_known = person < self.people() / 20;
            for _ in 0..random.between(0, if is_known { 8 } else { 1 }) {
                id += 1;
                if table == "aka_name" {
                    writeln!(out, "{id}\t{person}\t{}", word(random))?;
                    continue;
                }
                let info = 15 + skewed(random, 25, if is_known { 1 } else { 4 });
                let note = if info == 15 && is_known { "Volker Boehm" } else { "\\N" };
                writeln!(out, "{id}\t{person}\t{info}\t{}\t{note}", word(random))?;
            }
        }
        Ok(())
    }

    fn write_of_films(&self, table: &str, out: &mut dyn Write) -> io::Result<()> {
        let seed = 800 + TABLES.iter().position(|known| *known == table).unwrap_or_default() as u64;
        let mut id = 0;
        for key in 1..=self.films {
            let film = self.film(key);
            let random = &mut RowRandom::of_row(seed, key as u64);
            for row in self.of_film(table, &film, random) {
                id += 1;
                writeln!(out, "{id}\t{key}\t{row}")?;
            }
        }
        Ok(())
    }

    /// The rows about a film, without their key and the film's.
    fn of_film(&self, table: &str, film: &Film, random: &mut RowRandom) -> Vec<String> {
        let many =
            |random: &mut RowRandom, low: i64, most: f64| random.between(low, low + (most * film.fame) as i64 + 1);
        let count = match table {
            "cast_info" => many(random, 2, 80.0),
            "movie_companies" => many(random, 0, 14.0),
            "movie_info" => many(random, 3, 50.0),
            "movie_keyword" => many(random, 0, 50.0),
            "movie_info_idx" => return self.ratings(film, random),
            "aka_title" | "complete_cast" => i64::from(film.fame > 0.05) * random.between(0, 2),
            _ => i64::from(film.fame > 0.2) * random.between(0, 3),
        };
        (0..count).map(|at| self.row_of_film(table, film, random, at)).collect()
    }

    /// Votes and rating belong together: famous films have many votes and good ratings.
    fn ratings(&self, film: &Film, random: &mut RowRandom) -> Vec<String> {
        if film.fame < 0.001 && !chance(random, 20) {
            return Vec::new();
        }
        let votes = 5 + (film.fame * 100_000.0) as i64 + random.between(0, 50);
        let rating = (30 + (film.fame * 50.0) as i64 + random.between(0, 18)).min(99);
        let mut rows = vec![format!("100\t{votes}"), format!("101\t{}.{}", rating / 10, rating % 10)];
        if film.fame > 0.8 && film.kind == MOVIE {
            rows.push(format!("112\t{}", random.between(1, 250)));
        }
        rows
    }

    fn row_of_film(&self, table: &str, film: &Film, random: &mut RowRandom, at: i64) -> String {
        match table {
            "cast_info" => self.cast(film, random, at),
            "movie_companies" => self.company(film, random),
            "movie_info" => self.info(film, random, at),
            "movie_keyword" => {
                // A famous film has the frequent keywords, any other those of its genre.
                let of_genre = film.genre as i64 * self.keywords() / GENRES.len() as i64;
                let offset = if chance(random, 30 + (film.fame * 60.0) as i64) { 0 } else { of_genre };
                format!("{}", (offset + skewed(random, self.keywords(), 5)) % self.keywords() + 1)
            }
            "aka_title" => format!("{} {}\t{}", word(random), word(random), film.kind + 1),
            "complete_cast" => format!("{}\t{}", random.between(1, 2), 3 + i64::from(film.fame > 0.5)),
            _ => format!("{}\t{}", skewed(random, self.films, 2) + 1, skewed(random, LINKS.len() as i64, 3) + 1),
        }
    }

    /// Famous films have the people that play most, any other those of its country.
    fn cast(&self, film: &Film, random: &mut RowRandom, at: i64) -> String {
        let role = if at < 3 { at % 2 } else { skewed(random, ROLES.len() as i64, 2) };
        let of_country = film.country as i64 * self.people() / COUNTRIES.len() as i64;
        let power = if film.fame > 0.3 { 4 } else { 2 };
        let person = (of_country + skewed(random, self.people(), power)) % self.people() + 1;
        let character = (role < 2 && chance(random, 70)).then(|| skewed(random, self.characters(), 2) + 1);
        let note = match (film.kind, role) {
            (VIDEO_GAME, 0..=1) => random.choice(&["(voice)", "(voice: English version)", "(voice) (uncredited)"]),
            (EPISODE, 3) => "(executive producer)",
            (_, 3) => random.choice(&["(producer)", "(executive producer)", "(co-producer)"]),
            (_, 4) => random.choice(&["(writer)", "(story)", "(head writer)", "(screenplay)"]),
            (_, 0..=1) if chance(random, 12) => "(uncredited)",
            _ => "\\N",
        };
        format!("{person}\t{}\t{note}\t{}\t{}", or_null(character), or_null((role < 2).then_some(at + 1)), role + 1)
    }

    /// A film's companies are mostly of its country.
    fn company(&self, film: &Film, random: &mut RowRandom) -> String {
        let begin = (film.country as f64 / COUNTRIES.len() as f64).cbrt() * self.companies() as f64;
        let offset = if chance(random, 85) { begin as i64 } else { 0 };
        let company = (offset + skewed(random, self.companies() / 4, 3)) % self.companies() + 1;
        let kind = if film.kind == EPISODE { 1 } else { 1 + skewed(random, COMPANY_TYPES.len() as i64, 2) };
        let country = COUNTRIES[film.country].1;
        let year = or_null(film.year);
        let note = match (kind, random.between(0, 4)) {
            (2, 0..=1) => "\\N".into(),
            (1, 0..=1) => format!("({year}) ({country}) (TV)").replace("(\\N) ", ""),
            (1, 2) => format!("({country}) (theatrical)"),
            (_, 3) => "(co-production)".into(),
            (1, _) => "(worldwide) (VHS)".into(),
            _ => "(presents)".into(),
        };
        format!("{company}\t{kind}\t{note}")
    }

    fn info(&self, film: &Film, random: &mut RowRandom, at: i64) -> String {
        let (name, language) = (COUNTRIES[film.country].1, COUNTRIES[film.country].2);
        match at {
            0 => return format!("3\t{}\t\\N", GENRES[film.genre]),
            1 => return format!("8\t{name}\t\\N"),
            2 => return format!("4\t{language}\t\\N"),
            _ => {}
        }
        match random.between(0, 9) {
            0 => format!("3\t{}\t\\N", GENRES[(film.genre + 1) % GENRES.len()]),
            1..=4 => {
                let note = if film.fame > 0.3 { "(internet)" } else { "\\N" };
                let year = film.year.unwrap_or(LAST_YEAR);
                format!("16\t{name}:{} {year}\t{note}", random.between(1, 28))
            }
            5 => format!("105\t{},000\t(estimated)", random.between(1, 900) * (1 + (film.fame * 50.0) as i64)),
            6 => format!("1\t{}\t\\N", if film.kind == EPISODE { 30 } else { random.between(70, 140) }),
            7 => format!(
                "2\t{}\t\\N",
                if film.year.is_some_and(|year| year < 1960) { "Black and White" } else { "Color" }
            ),
            _ => format!("{}\t{}\t\\N", 40 + skewed(random, 50, 2), word(random)),
        }
    }
}
