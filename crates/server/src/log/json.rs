//! A record as one line of JSON, with the keys of PostgreSQL's jsonlog in their order.

use super::facts::LineFacts;
use kilndb_context::log::LogRecord;
use std::fmt::Write;

/// `line`: the record's number within its session or process.
pub fn write(out: &mut String, record: &LogRecord<'_>, facts: &LineFacts<'_>, line: u64) {
    let mut object = JsonObjectWriter { out, is_empty: true };
    object.text("timestamp", &facts.now.milliseconds());
    if let Some(session) = &facts.session {
        object.text_if_any("user", &session.activity.user);
        object.text_if_any("dbname", &session.activity.database);
    }
    object.number("pid", facts.process_id);
    if let Some(session) = &facts.session {
        object.text("remote_host", session.remote_host());
        if let Some(port) = session.activity.client_port {
            object.number("remote_port", port);
        }
    }
    object.text("session_id", &facts.session_id());
    object.number("line_num", line);
    if let Some(session) = &facts.session {
        object.text("ps", session.command);
    }
    object.text("session_start", &facts.start.seconds());
    if let Some(id) = facts.virtual_id() {
        object.text("vxid", &id);
    }
    object.number("txid", facts.session.as_ref().map_or(0, |s| s.transaction_id));
    write_message(&mut object, record);
    if let Some(session) = &facts.session {
        object.text_if_any("application_name", &session.activity.application_name);
    }
    object.text("backend_type", facts.backend_type());
    object.number("query_id", 0);
    object.out.push_str("}\n");
}

fn write_message(object: &mut JsonObjectWriter<'_>, record: &LogRecord<'_>) {
    let fields = record.fields;
    object.text("error_severity", fields.severity.as_str());
    if fields.sqlstate.as_str() != "00000" {
        object.text("state_code", fields.sqlstate.as_str());
    }
    object.text("message", &fields.message);
    for (key, text) in [("detail", &fields.detail), ("hint", &fields.hint), ("internal_query", &fields.internal_query)]
    {
        if let Some(text) = text {
            object.text(key, text);
        }
    }
    if let Some(position) = fields.internal_position {
        object.number("internal_position", position);
    }
    if let Some(context) = &fields.context {
        object.text("context", context);
    }
    if let Some(statement) = record.statement {
        object.text("statement", statement);
        if let Some(position) = fields.position {
            object.number("cursor_position", position);
        }
    }
}

struct JsonObjectWriter<'a> {
    out: &'a mut String,
    is_empty: bool,
}

impl JsonObjectWriter<'_> {
    fn key(&mut self, key: &str) {
        self.out.push(if self.is_empty { '{' } else { ',' });
        self.is_empty = false;
        push_quoted(self.out, key);
        self.out.push(':');
    }
    fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        push_quoted(self.out, value);
    }
    fn text_if_any(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            self.text(key, value);
        }
    }
    fn number(&mut self, key: &str, value: impl std::fmt::Display) {
        self.key(key);
        // Nothing fails that is written to a text.
        let _ = write!(self.out, "{value}");
    }
}

fn push_quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}
