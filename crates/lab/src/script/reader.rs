//! Reads a script's text into commands.
//!
//! A statement ends with a semicolon, or where a backslash command begins; `\;` stands between statements that are sent as one.
//! Quotes, dollar quotes and comments are looked through for neither. A backslash command ends with its line, unless a backslash
//! is the last thing on it.

use super::expression::ScriptExpression;
use super::notes::StatementNotes;
use super::sql::{SqlResults, SqlText};
use super::variables::{VariableNames, Variables};
use std::time::Duration;

/// A script that can be run.
pub struct Script {
    pub name: String,
    pub commands: Vec<ScriptCommand>,
}

/// What one line or statement of a script says.
pub struct ScriptCommand {
    /// Where it begins, from 1.
    pub line: usize,
    pub step: ScriptStep,
    /// What comments in front of a statement say of it.
    pub notes: StatementNotes,
}

pub enum ScriptStep {
    Sql(SqlText),
    Set {
        variable: usize,
        expression: ScriptExpression,
    },
    /// Goes on at the command with this number unless the condition is true.
    Unless {
        condition: ScriptExpression,
        go_on_at: usize,
    },
    Jump {
        to: usize,
    },
    Sleep(SleepTime),
    /// The words of a command of the shell, and the variable that gets the number that it prints.
    Shell {
        words: Vec<ShellWord>,
        into: Option<usize>,
    },
    StartPipeline,
    SyncPipeline,
    EndPipeline,
}

pub enum SleepTime {
    Always(Duration),
    /// So many of these as a variable says.
    OfVariable {
        variable: usize,
        unit: Duration,
    },
}

impl SleepTime {
    /// How long it is. Errors: its variable is no number.
    pub fn length(&self, variables: &Variables, names: &VariableNames) -> Result<Duration, String> {
        match self {
            SleepTime::Always(time) => Ok(*time),
            SleepTime::OfVariable { variable, unit } => {
                let count = variables.value(*variable, names)?.to_int()?;
                Ok(unit.saturating_mul(u32::try_from(count.max(0)).unwrap_or(u32::MAX)))
            }
        }
    }
}

pub enum ShellWord {
    Text(String),
    Variable(usize),
}

impl Script {
    /// Errors: the place and what is wrong there.
    pub fn read(name: &str, text: &str, names: &mut VariableNames) -> Result<Script, String> {
        let mut reader = ScriptReader { text, at: 0, names, commands: Vec::new(), open: Vec::new() };
        match reader.read() {
            Ok(()) => Ok(Script { name: name.to_string(), commands: reader.commands }),
            Err(e) => Err(format!("{name}:{}: {e}", line_of(text, reader.at))),
        }
    }
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text[..at.min(text.len())].bytes().filter(|c| *c == b'\n').count()
}

/// An `\if` whose `\endif` has not come.
struct OpenCondition {
    /// The command that jumps over the present branch, if that has a condition.
    unless: Option<usize>,
    /// The jumps from the ends of branches to that of all.
    ends: Vec<usize>,
    has_else: bool,
}

struct ScriptReader<'r> {
    text: &'r str,
    at: usize,
    names: &'r mut VariableNames,
    commands: Vec<ScriptCommand>,
    open: Vec<OpenCondition>,
}

impl<'r> ScriptReader<'r> {
    fn read(&mut self) -> Result<(), String> {
        while self.at < self.text.len() {
            let begin = self.at;
            let (end, ended_by) = statement_end(&self.text[begin..]);
            let sql = &self.text[begin..begin + end];
            self.at = begin + end;
            match ended_by {
                EndedBy::Semicolon => {
                    self.at += 1;
                    self.add_sql(begin, sql, SqlResults::Ignored)?;
                }
                EndedBy::End => self.add_sql(begin, sql, SqlResults::Ignored)?,
                EndedBy::Backslash => self.command(begin, sql)?,
            }
        }
        match self.open.is_empty() {
            true => Ok(()),
            false => Err("\\if without matching \\endif".into()),
        }
    }

    fn add_sql(&mut self, begin: usize, sql: &str, results: SqlResults) -> Result<(), String> {
        let plain = plain(sql);
        let trimmed = plain.trim();
        if trimmed.is_empty() {
            return Ok(());
        }
        let comments = &sql[..beginning(sql)];
        let line = line_of(self.text, begin + comments.len());
        let notes = StatementNotes::read(comments)?;
        let step = ScriptStep::Sql(SqlText::read(trimmed, results, self.names));
        self.commands.push(ScriptCommand { line, step, notes });
        Ok(())
    }

    /// A backslash command at the present place, with the statement that stands before it.
    fn command(&mut self, begin: usize, sql: &str) -> Result<(), String> {
        let (written, length) = command_line(&self.text[self.at..]);
        let line = line_of(self.text, self.at);
        let (word, rest) = first_word(&written[1..]);
        let results = match word {
            "gset" | "aset" => {
                let (prefix, more) = first_word(rest);
                if !more.trim().is_empty() {
                    return Err(format!("too many arguments in command \"{word}\""));
                }
                if plain(sql).trim().is_empty() {
                    return Err(format!("\\{word} must follow an SQL command"));
                }
                let prefix = prefix.to_string();
                if word == "gset" { SqlResults::OneRow { prefix } } else { SqlResults::LastRows { prefix } }
            }
            _ => SqlResults::Ignored,
        };
        self.add_sql(begin, sql, results)?;
        if !matches!(word, "gset" | "aset") {
            self.step(line, word, rest)?;
        }
        self.at += length;
        Ok(())
    }

    fn push(&mut self, line: usize, step: ScriptStep) -> usize {
        self.commands.push(ScriptCommand { line, step, notes: StatementNotes::default() });
        self.commands.len() - 1
    }

    fn step(&mut self, line: usize, word: &str, rest: &str) -> Result<(), String> {
        match word {
            "set" => {
                let (variable, expression) = first_word(rest);
                if variable.is_empty() {
                    return Err("missing argument in command \"set\"".into());
                }
                let variable = self.names.number(variable);
                let expression = self.expression(word, expression)?;
                self.push(line, ScriptStep::Set { variable, expression });
            }
            "if" | "elif" | "else" | "endif" => self.condition(line, word, rest)?,
            "sleep" => {
                let time = self.sleep(rest)?;
                self.push(line, ScriptStep::Sleep(time));
            }
            "shell" | "setshell" => self.shell(line, word, rest)?,
            "startpipeline" | "syncpipeline" | "endpipeline" => {
                no_argument(word, rest)?;
                let step = match word {
                    "startpipeline" => ScriptStep::StartPipeline,
                    "syncpipeline" => ScriptStep::SyncPipeline,
                    _ => ScriptStep::EndPipeline,
                };
                self.push(line, step);
            }
            other => return Err(format!("invalid command \"{other}\"")),
        }
        Ok(())
    }

    fn expression(&mut self, word: &str, text: &str) -> Result<ScriptExpression, String> {
        ScriptExpression::read(text, self.names).map_err(|e| format!("{e} in command \"{word}\""))
    }

    fn condition(&mut self, line: usize, word: &str, rest: &str) -> Result<(), String> {
        if word == "if" {
            let condition = self.expression(word, rest)?;
            let unless = self.push(line, ScriptStep::Unless { condition, go_on_at: 0 });
            self.open.push(OpenCondition { unless: Some(unless), ends: Vec::new(), has_else: false });
            return Ok(());
        }
        let Some(mut open) = self.open.pop() else { return Err(format!("\\{word} without matching \\if")) };
        if word != "endif" {
            if open.has_else {
                return Err(format!("\\{word} after \\else"));
            }
            open.ends.push(self.push(line, ScriptStep::Jump { to: 0 }));
        }
        self.go_on_here(open.unless.take());
        match word {
            "elif" => {
                let condition = self.expression(word, rest)?;
                open.unless = Some(self.push(line, ScriptStep::Unless { condition, go_on_at: 0 }));
            }
            "else" => {
                no_argument(word, rest)?;
                open.has_else = true;
            }
            _ => {
                no_argument(word, rest)?;
                open.ends.drain(..).for_each(|jump| self.go_on_here(Some(jump)));
                return Ok(());
            }
        }
        self.open.push(open);
        Ok(())
    }

    /// The command with this number leads to the one that comes next.
    fn go_on_here(&mut self, command: Option<usize>) {
        let here = self.commands.len();
        match command.and_then(|number| self.commands.get_mut(number)).map(|command| &mut command.step) {
            Some(ScriptStep::Unless { go_on_at, .. }) => *go_on_at = here,
            Some(ScriptStep::Jump { to }) => *to = here,
            _ => {}
        }
    }

    fn sleep(&mut self, rest: &str) -> Result<SleepTime, String> {
        let (amount, rest) = first_word(rest);
        if amount.is_empty() {
            return Err("missing argument in command \"sleep\"".into());
        }
        // The unit may stand right behind the number.
        let (number, unit) = match amount.starts_with(':') {
            true => (amount, ""),
            false => amount.split_at(amount.find(|c: char| !c.is_ascii_digit()).unwrap_or(amount.len())),
        };
        let (unit, rest) = if unit.is_empty() { first_word(rest) } else { (unit, rest) };
        no_argument("sleep", rest)?;
        let unit = match unit.to_ascii_lowercase().as_str() {
            "us" => Duration::from_micros(1),
            "ms" => Duration::from_millis(1),
            "s" | "" => Duration::from_secs(1),
            other => {
                return Err(format!("unrecognized time unit, must be us, ms or s in command \"sleep\" (\"{other}\")"));
            }
        };
        if let Some(name) = number.strip_prefix(':') {
            return Ok(SleepTime::OfVariable { variable: self.names.number(name), unit });
        }
        let wrong = || format!("invalid sleep time, must be an integer in command \"sleep\" (\"{amount}\")");
        let number: u32 = number.parse().map_err(|_| wrong())?;
        Ok(SleepTime::Always(unit * number))
    }

    fn shell(&mut self, line: usize, word: &str, rest: &str) -> Result<(), String> {
        let (into, rest) = match word {
            "setshell" => {
                let (variable, rest) = first_word(rest);
                if variable.is_empty() {
                    return Err("missing argument in command \"setshell\"".into());
                }
                (Some(self.names.number(variable)), rest)
            }
            _ => (None, rest),
        };
        let mut words = Vec::new();
        for word in rest.split_whitespace() {
            words.push(match word.strip_prefix(':') {
                // Two colons stand for one.
                Some(literal) if literal.starts_with(':') => ShellWord::Text(literal.to_string()),
                Some(name) => ShellWord::Variable(self.names.number(name)),
                None => ShellWord::Text(word.to_string()),
            });
        }
        if words.is_empty() {
            return Err(format!("missing command in command \"{word}\""));
        }
        self.push(line, ScriptStep::Shell { words, into });
        Ok(())
    }
}

fn no_argument(word: &str, rest: &str) -> Result<(), String> {
    match rest.trim().is_empty() {
        true => Ok(()),
        false => Err(format!("unexpected argument in command \"{word}\"")),
    }
}

/// The first word of a text, and what stands behind it.
fn first_word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()))
}

/// A backslash command with the lines that go on with it as one line, and how long it is in the text.
fn command_line(text: &str) -> (String, usize) {
    let (mut written, mut length) = (String::new(), 0);
    for line in text.split_inclusive('\n') {
        length += line.len();
        let line = line.trim_end_matches(['\n', '\r']);
        match line.strip_suffix('\\').filter(|_| length < text.len()) {
            Some(more) => {
                written.push_str(more);
                written.push(' ');
            }
            None => {
                written.push_str(line);
                break;
            }
        }
    }
    (written, length)
}

enum EndedBy {
    Semicolon,
    Backslash,
    End,
}

/// Where a statement ends, and by what.
fn statement_end(text: &str) -> (usize, EndedBy) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b';' => return (at, EndedBy::Semicolon),
            b'\\' if bytes.get(at + 1) == Some(&b';') => at += 2,
            b'\\' => return (at, EndedBy::Backslash),
            _ => at += skipped(&text[at..]).max(1),
        }
    }
    (bytes.len(), EndedBy::End)
}

/// How long the quoted text or comment is that a text begins with; 0: it begins with neither.
fn skipped(text: &str) -> usize {
    if let Some(comment) = comment_length(text) {
        return comment;
    }
    match text.as_bytes().first() {
        Some(b'\'') => quoted_length(text, 1, '\'', false),
        Some(b'"') => quoted_length(text, 1, '"', false),
        Some(b'e' | b'E') if text[1..].starts_with('\'') => quoted_length(text, 2, '\'', true),
        Some(b'$') => {
            let tag_length = text[1..].find('$').map_or(0, |end| end + 2);
            let tag = &text[..tag_length];
            let is_tag = tag_length > 1 && tag[1..tag_length - 1].chars().all(|c| c.is_alphanumeric() || c == '_');
            match is_tag && !tag[1..].starts_with(|c: char| c.is_ascii_digit()) {
                true => text[tag_length..].find(tag).map_or(text.len(), |end| end + 2 * tag_length),
                false => 0,
            }
        }
        // A name that ends with e, before a quote, is no escape string's beginning.
        Some(c) if c.is_ascii_alphanumeric() || *c == b'_' => {
            let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).unwrap_or(text.len());
            if end > 1 { end } else { 0 }
        }
        _ => text.chars().next().map_or(0, char::len_utf8),
    }
}

/// How long the quoted text is that begins with so many bytes up to its first quote. `escapes`: a backslash takes the next
/// character's meaning away.
fn quoted_length(text: &str, begin: usize, quote: char, escapes: bool) -> usize {
    let mut is_escaped = false;
    let end = text[begin..].find(|c: char| {
        let ends = c == quote && !is_escaped;
        is_escaped = escapes && c == '\\' && !is_escaped;
        ends
    });
    end.map_or(text.len(), |end| begin + end + quote.len_utf8())
}

/// How long the comment is that a text begins with.
fn comment_length(text: &str) -> Option<usize> {
    if text.starts_with("--") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if !text.starts_with("/*") {
        return None;
    }
    // Comments of this kind may have others within them.
    let (mut depth, mut at) = (0usize, 0);
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return Some(at);
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    Some(text.len())
}

/// Where the first thing stands that is neither space nor comment.
fn beginning(sql: &str) -> usize {
    let mut at = 0;
    loop {
        at += sql[at..].len() - sql[at..].trim_start().len();
        match comment_length(&sql[at..]) {
            Some(length) => at += length,
            None => return at,
        }
    }
}

/// The text with a space for each comment, and a semicolon where statements that are sent as one have `\;` between them.
fn plain(sql: &str) -> String {
    let mut out = String::new();
    let mut at = 0;
    while at < sql.len() {
        let rest = &sql[at..];
        let length = match comment_length(rest) {
            Some(length) => {
                out.push(' ');
                length
            }
            None if rest.starts_with("\\;") => {
                out.push(';');
                2
            }
            None => {
                let length = skipped(rest).max(rest.chars().next().map_or(1, char::len_utf8));
                out.push_str(&rest[..length]);
                length
            }
        };
        at += length;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let mut names = VariableNames::default();
        let script = Script::read("s", text, &mut names).expect("it is a script");
        let show = |command: &ScriptCommand| {
            let what = match &command.step {
                ScriptStep::Sql(sql) => format!("{} {:?}", sql.with_parameters(), sql.results),
                ScriptStep::Set { variable, .. } => format!("set {}", names.name(*variable)),
                ScriptStep::Unless { go_on_at, .. } => format!("unless {go_on_at}"),
                ScriptStep::Jump { to } => format!("jump {to}"),
                ScriptStep::Sleep(SleepTime::Always(time)) => format!("sleep {time:?}"),
                ScriptStep::Sleep(SleepTime::OfVariable { unit, .. }) => format!("sleep n * {unit:?}"),
                ScriptStep::Shell { words, into } => format!("shell {} {into:?}", words.len()),
                ScriptStep::StartPipeline => "start".into(),
                ScriptStep::SyncPipeline => "sync".into(),
                ScriptStep::EndPipeline => "end".into(),
            };
            format!("{}: {what}", command.line)
        };
        script.commands.iter().map(show).collect()
    }

    #[test]
    fn statements_end_where_they_should() {
        let text = "-- a; comment\nselect ';', '\\;', \"a;b\", $x$ ; $x$, e'\\';';\n\nbegin; /* ; /* ; */ ; */ select 1 \\; select 2;\nselect 3";
        assert_eq!(
            shown(text),
            [
                "2: select ';', '\\;', \"a;b\", $x$ ; $x$, e'\\';' Ignored",
                "4: begin Ignored",
                "4: select 1 ; select 2 Ignored",
                "5: select 3 Ignored",
            ]
        );
    }

    #[test]
    fn commands_end_with_their_lines() {
        let text = "\\set aid random(1, \\\n  10)\nselect :aid as x \\gset p_\nselect 1\n\\sleep 10ms\n\\sleep 5 us\n\\sleep :n s\n\\setshell v echo :n ::x\n";
        assert_eq!(
            shown(text),
            [
                "1: set aid",
                "3: select $1 as x OneRow { prefix: \"p_\" }",
                "4: select 1 Ignored",
                "5: sleep 10ms",
                "6: sleep 5µs",
                "7: sleep n * 1s",
                "8: shell 3 Some(2)",
            ]
        );
    }

    #[test]
    fn conditions_jump() {
        let text = "\\if :a\nselect 1;\n\\elif :b\nselect 2;\n\\else\nselect 3;\n\\endif\nselect 4;\n";
        assert_eq!(
            shown(text),
            [
                "1: unless 3",
                "2: select 1 Ignored",
                "3: jump 7",
                "3: unless 6",
                "4: select 2 Ignored",
                "5: jump 7",
                "6: select 3 Ignored",
                "8: select 4 Ignored",
            ]
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let wrong = |text: &str| Script::read("s", text, &mut VariableNames::default()).err().unwrap_or_default();
        assert_eq!(wrong("select 1;\n\\foo"), "s:2: invalid command \"foo\"");
        assert_eq!(wrong("\\endif"), "s:1: \\endif without matching \\if");
        assert_eq!(wrong("\\if true\nselect 1;"), "s:2: \\if without matching \\endif");
        assert_eq!(wrong("\\if true\n\\else\n\\elif true\n\\endif"), "s:3: \\elif after \\else");
        assert_eq!(wrong("\\gset"), "s:1: \\gset must follow an SQL command");
        assert_eq!(wrong("\\set x"), "s:1: unexpected end of the expression in command \"set\"");
        assert_eq!(
            wrong("\\sleep 1 h"),
            "s:1: unrecognized time unit, must be us, ms or s in command \"sleep\" (\"h\")"
        );
        assert_eq!(wrong("select 1;\n-- name: a\n-- must: b\nselect 2;"), "s:4: must is no number above zero but b");
    }
}
