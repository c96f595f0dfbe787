//! `log_line_prefix`: read once, written before each line.

use super::facts::LineFacts;
use std::fmt::Write;

/// One part of a prefix.
#[derive(Clone, PartialEq, Eq, Debug)]
enum PrefixItem {
    Literal(String),
    /// An escape's letter. `width`: the text is padded to so many characters, on the right if it is negative.
    Escape {
        letter: char,
        width: i32,
    },
    /// `%q`: what speaks for no session ends here.
    SessionsOnly,
}

/// `log_line_prefix`, taken apart.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LinePrefix(Vec<PrefixItem>);

impl LinePrefix {
    /// Reads a prefix as PostgreSQL does: escapes that it does not know are nothing.
    pub fn parse(text: &str) -> LinePrefix {
        let mut items = Vec::new();
        let mut literal = String::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            if c != '%' {
                literal.push(c);
                continue;
            }
            let is_left = chars.next_if_eq(&'-').is_some();
            let mut width = 0i32;
            while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
                chars.next();
                width = width.saturating_mul(10).saturating_add(digit as i32).min(1000);
            }
            let item = match chars.next() {
                Some('%') => {
                    literal.push('%');
                    continue;
                }
                Some('q') => PrefixItem::SessionsOnly,
                Some(letter) => PrefixItem::Escape { letter, width: if is_left { -width } else { width } },
                None => break,
            };
            if !literal.is_empty() {
                items.push(PrefixItem::Literal(std::mem::take(&mut literal)));
            }
            items.push(item);
        }
        if !literal.is_empty() {
            items.push(PrefixItem::Literal(literal));
        }
        LinePrefix(items)
    }

    /// `line`: this line's number within its session or process; `sqlstate`: five characters.
    pub fn write(&self, out: &mut String, facts: &LineFacts<'_>, line: u64, sqlstate: &str) {
        for item in &self.0 {
            match item {
                PrefixItem::Literal(text) => out.push_str(text),
                PrefixItem::SessionsOnly if facts.session.is_none() => return,
                PrefixItem::SessionsOnly => {}
                PrefixItem::Escape { letter, width } => {
                    let Some(text) = value_of(*letter, facts, line, sqlstate) else { continue };
                    let columns = width.unsigned_abs() as usize;
                    // Nothing fails that is written to a text.
                    let _ = match *width < 0 {
                        true => write!(out, "{text:<columns$}"),
                        false => write!(out, "{text:>columns$}"),
                    };
                }
            }
        }
    }
}

/// What an escape stands for; None: there is no such escape.
fn value_of(letter: char, facts: &LineFacts<'_>, line: u64, sqlstate: &str) -> Option<String> {
    let session = facts.session.as_ref();
    let named = |name: &str| if name.is_empty() { "[unknown]".to_string() } else { name.to_string() };
    Some(match letter {
        'a' => session.map_or(String::new(), |s| named(&s.activity.application_name)),
        'u' => session.map_or(String::new(), |s| named(&s.activity.user)),
        'd' => session.map_or(String::new(), |s| named(&s.activity.database)),
        'b' => facts.backend_type().to_string(),
        'c' => facts.session_id(),
        'e' => sqlstate.to_string(),
        'h' => session.map_or(String::new(), |s| s.remote_host().to_string()),
        'r' => session.map_or(String::new(), |s| match s.activity.client_port {
            Some(port) => format!("{}({port})", s.remote_host()),
            None => s.remote_host().to_string(),
        }),
        'L' => session.map_or("[none]", |s| s.local_host()).to_string(),
        'i' => session.map_or("", |s| s.command).to_string(),
        'l' => line.to_string(),
        'm' => facts.now.milliseconds(),
        'n' => facts.now.epoch(),
        'p' => facts.process_id.to_string(),
        // A statement's other threads do not speak.
        'P' => String::new(),
        // Queries have no ids.
        'Q' => "0".to_string(),
        's' => facts.start.seconds(),
        't' => facts.now.seconds(),
        'v' => facts.virtual_id().unwrap_or_default(),
        'x' => session.map_or(0, |s| s.transaction_id).to_string(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::facts::{ProcessFacts, SessionFacts};
    use super::super::moment::LogMoment;
    use super::*;
    use kilndb_context::client::Activity;
    use kilndb_types::datetime::zone::Zone;

    fn written(prefix: &str, session: Option<SessionFacts<'_>>) -> String {
        let process = ProcessFacts { id: 4711, start_unix_micros: 1_795_549_100_000_000 };
        let facts = LineFacts {
            now: LogMoment::new(1_795_549_167_153_000, &Zone::utc()),
            start: LogMoment::new(process.start_unix_micros, &Zone::utc()),
            process_id: process.id,
            session,
        };
        let mut out = String::new();
        LinePrefix::parse(prefix).write(&mut out, &facts, 7, "00000");
        out
    }

    fn session(port: Option<i32>) -> SessionFacts<'static> {
        let activity = Activity {
            user: "ann".into(),
            database: "shop".into(),
            client_addr: port.map(|_| "10.0.0.1".into()),
            client_port: port,
            server_addr: port.map(|_| "10.0.0.2".into()),
            lock_owner: Some(12),
            ..Activity::default()
        };
        SessionFacts { activity, command: "SELECT", transaction_id: 99 }
    }

    const ALL: &str =
        "a=%a u=%u d=%d r=%r h=%h L=%L b=%b p=%p P=%P t=%t m=%m n=%n i=%i e=%e c=%c l=%l s=%s v=%v x=%x Q=%Q %% ";

    #[test]
    fn every_escape_is_written() {
        assert_eq!(
            written(ALL, Some(session(Some(5)))),
            "a=[unknown] u=ann d=shop r=10.0.0.1(5) h=10.0.0.1 L=10.0.0.2 b=client backend p=4711 P= \
             t=2026-11-24 19:39:27 UTC m=2026-11-24 19:39:27.153 UTC n=1795549167.153 i=SELECT e=00000 c=6b05e7ac.1267 l=7 \
             s=2026-11-24 19:38:20 UTC v=4711/12 x=99 Q=0 % "
        );
        assert_eq!(written("%r %h %L", Some(session(None))), "[local] [local] [local]");
    }

    #[test]
    fn the_server_itself_has_no_session() {
        assert_eq!(written("%a%u%d%r%h|%L|%b|%i|%v|%x| %q%m", None), "|[none]|postmaster|||0| ");
    }

    #[test]
    fn escapes_are_padded_and_unknown_ones_are_nothing() {
        assert_eq!(written("[%6u][%-6u]%y%%%", Some(session(None))), "[   ann][ann   ]%");
        assert_eq!(written("%", None), "");
    }
}
