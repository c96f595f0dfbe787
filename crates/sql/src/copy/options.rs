//! COPY's options.

use kilndb_base::{Error, Result, sqlstate};
use kilndb_syntax::{Node, nodes};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Format {
    Text,
    Csv,
    Binary,
}

#[derive(Clone, Debug)]
pub(super) struct CopyOptions {
    pub format: Format,
    pub delimiter: u8,
    pub null: String,
    pub header: bool,
    pub header_match: bool,
    pub quote: u8,
    pub escape: u8,
    /// Columns always quoted on output; `*` is all.
    pub force_quote: Vec<String>,
    pub force_not_null: Vec<String>,
    pub force_null: Vec<String>,
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}

fn text(d: &nodes::DefElem) -> String {
    match d.arg() {
        Node::String(s) => s.sval().unwrap_or("").to_string(),
        Node::Integer(i) => i.ival.to_string(),
        Node::Float(f) => f.fval().unwrap_or("").to_string(),
        Node::Boolean(b) => b.boolval.to_string(),
        Node::TypeName(t) => t.names().iter().filter_map(|n| n.sval()).next_back().unwrap_or("").to_string(),
        _ => String::new(),
    }
}

fn flag(d: &nodes::DefElem) -> Result<bool> {
    if matches!(d.arg(), Node::None) {
        return Ok(true);
    }
    match text(d).to_ascii_lowercase().as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err(Error::new(sqlstate::SYNTAX_ERROR, format!("{} requires a Boolean value", d.defname().unwrap_or("")))),
    }
}

fn names(d: &nodes::DefElem) -> Vec<String> {
    match d.arg() {
        Node::NodeList(list) => list.iter().filter_map(|n| n.as_str().map(str::to_string)).collect(),
        Node::A_Star(_) => vec!["*".to_string()],
        _ => Vec::new(),
    }
}

fn one_byte(value: &str, what: &str) -> Result<u8> {
    match value.as_bytes() {
        [b] => Ok(*b),
        _ => Err(Error::unsupported(format!("COPY {what} must be a single one-byte character"))),
    }
}

impl CopyOptions {
    pub fn parse(s: &nodes::CopyStmt) -> Result<CopyOptions> {
        let mut format = Format::Text;
        for d in s.options().iter().filter(|d| d.defname() == Some("format")) {
            format = match text(d).as_str() {
                "text" => Format::Text,
                "csv" => Format::Csv,
                "binary" => Format::Binary,
                other => return Err(invalid(format!("COPY format \"{other}\" not recognized"))),
            };
        }
        let csv = format == Format::Csv;
        let mut options = CopyOptions {
            format,
            delimiter: if csv { b',' } else { b'\t' },
            null: if csv { "" } else { "\\N" }.to_string(),
            header: false,
            header_match: false,
            quote: b'"',
            escape: b'"',
            force_quote: Vec::new(),
            force_not_null: Vec::new(),
            force_null: Vec::new(),
        };
        let mut escape_given = false;
        for d in s.options() {
            let name = d.defname().unwrap_or("");
            if format == Format::Binary && matches!(name, "delimiter" | "null" | "header") {
                return Err(Error::unsupported(format!("cannot specify {} in BINARY mode", name.to_uppercase())));
            }
            if !csv && matches!(name, "quote" | "escape" | "force_quote" | "force_not_null" | "force_null") {
                return Err(Error::unsupported(format!("COPY {} requires CSV mode", name.to_uppercase())));
            }
            match name {
                "format" | "freeze" => {}
                "delimiter" => options.delimiter = one_byte(&text(d), "delimiter")?,
                "null" => options.null = text(d),
                "header" => {
                    if text(d).eq_ignore_ascii_case("match") {
                        options.header = true;
                        options.header_match = true;
                    } else {
                        options.header = flag(d)?;
                    }
                }
                "quote" => options.quote = one_byte(&text(d), "quote")?,
                "escape" => {
                    options.escape = one_byte(&text(d), "escape")?;
                    escape_given = true;
                }
                "force_quote" => options.force_quote = names(d),
                "force_not_null" => options.force_not_null = names(d),
                "force_null" => options.force_null = names(d),
                "encoding" => {
                    let encoding = text(d);
                    if !matches!(
                        encoding.to_ascii_lowercase().replace(['-', '_'], "").as_str(),
                        "utf8" | "unicode" | "sqlascii"
                    ) {
                        return Err(Error::unsupported(format!(
                            "COPY encoding \"{encoding}\" is not supported: only UTF8 is"
                        )));
                    }
                }
                "on_error" if text(d) == "stop" => {}
                "on_error" | "reject_limit" | "default" | "log_verbosity" => {
                    return Err(Error::unsupported(format!("COPY option \"{name}\" is not supported")));
                }
                other => return Err(Error::new(sqlstate::SYNTAX_ERROR, format!("option \"{other}\" not recognized"))),
            }
        }
        if csv && !escape_given {
            options.escape = options.quote;
        }
        options.check()?;
        Ok(options)
    }

    fn check(&self) -> Result<()> {
        if matches!(self.delimiter, b'\n' | b'\r') {
            return Err(invalid("COPY delimiter cannot be newline or carriage return"));
        }
        if self.null.contains(['\n', '\r']) {
            return Err(invalid("COPY null representation cannot use newline or carriage return"));
        }
        if self.format == Format::Text && b"\\.abcdefghijklmnopqrstuvwxyz0123456789".contains(&self.delimiter) {
            return Err(invalid(format!("COPY delimiter cannot be \"{}\"", self.delimiter as char)));
        }
        if self.format == Format::Csv && self.delimiter == self.quote {
            return Err(invalid("COPY delimiter and quote must be different"));
        }
        if self.format != Format::Binary && self.null.bytes().any(|b| b == self.delimiter) {
            return Err(invalid("COPY delimiter character must not appear in the NULL specification"));
        }
        Ok(())
    }
}
