//! Writes HTML that is XML too, and SVG: every element is closed, and every text is escaped on its way in.
//!
//! 1. Text and attributes can only be given as what they say; the one way around it is for the style sheet, which is a constant.
//!
//! Must not know: what is shown.

use std::fmt::{Display, Write};

pub(super) type Attribute<'a> = (&'a str, &'a dyn Display);

/// What has been written so far.
#[derive(Default)]
pub(super) struct Markup {
    text: String,
}

impl Markup {
    /// An element and what is in it.
    pub(super) fn within(&mut self, tag: &str, attributes: &[Attribute], content: impl FnOnce(&mut Markup)) {
        self.begin(tag, attributes);
        self.text.push('>');
        content(self);
        let _ = write!(self.text, "</{tag}>");
    }
    /// An element with nothing but text in it.
    pub(super) fn element(&mut self, tag: &str, attributes: &[Attribute], text: &str) {
        self.within(tag, attributes, |m| m.text(text));
    }
    /// An element that never has anything in it: one of SVG, or of HTML's empty ones.
    pub(super) fn empty(&mut self, tag: &str, attributes: &[Attribute]) {
        self.begin(tag, attributes);
        self.text += "/>";
    }
    pub(super) fn text(&mut self, text: &str) {
        escape_into(&mut self.text, text);
    }
    /// A style sheet of this program's own: HTML reads it as it stands.
    pub(super) fn style_sheet(&mut self, sheet: &'static str) {
        self.within("style", &[], |m| m.text += sheet);
    }
    /// Puts what has been written elsewhere here.
    pub(super) fn append(&mut self, other: Markup) {
        self.text += &other.text;
    }
    /// The page.
    pub(super) fn document(self) -> String {
        format!("<!DOCTYPE html>\n{}\n", self.text)
    }
    /// A file of XML, which a picture is.
    pub(super) fn file(self) -> String {
        format!("{}\n", self.text.trim_start())
    }

    fn begin(&mut self, tag: &str, attributes: &[Attribute]) {
        if BEGIN_LINES.contains(&tag) {
            self.text.push('\n');
        }
        let _ = write!(self.text, "<{tag}");
        for (name, value) in attributes {
            let _ = write!(self.text, " {name}=\"");
            escape_into(&mut self.text, &value.to_string());
            self.text.push('"');
        }
    }
}

/// Space before these changes nothing that is seen, and the file can be read.
const BEGIN_LINES: [&str; 14] =
    ["head", "body", "header", "nav", "section", "figure", "table", "tr", "svg", "details", "h2", "h3", "p", "li"];

fn escape_into(into: &mut String, text: &str) {
    for letter in text.chars() {
        match letter {
            '&' => *into += "&amp;",
            '<' => *into += "&lt;",
            '>' => *into += "&gt;",
            '"' => *into += "&quot;",
            '\'' => *into += "&#39;",
            '\n' | '\t' => into.push(letter),
            // No document may have these, however they are written.
            _ if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => into.push('\u{fffd}'),
            _ => into.push(letter),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Reads a document as strictly as XML asks for. Gives its elements back, each with its attributes and the text in it.
    pub(crate) fn elements(text: &str) -> Vec<(String, Vec<(String, String)>, String)> {
        let mut rest = text.strip_prefix("<!DOCTYPE html>").expect("a document");
        let mut open: Vec<usize> = Vec::new();
        let mut found: Vec<(String, Vec<(String, String)>, String)> = Vec::new();
        while let Some(at) = rest.find('<') {
            let (before, tag) = rest.split_at(at);
            let before = unescaped(before);
            assert!(!open.is_empty() || before.trim().is_empty(), "text outside: {before}");
            open.iter().for_each(|element| found[*element].2 += &before);
            if let Some(closed) = tag.strip_prefix("</") {
                let (name, after) = closed.split_once('>').expect("an end");
                let element = open.pop().expect("an open element");
                assert_eq!(found[element].0, name, "closed in order");
                rest = after;
                continue;
            }
            let end = tag.find([' ', '>', '/']).expect("an end of a name");
            let name = &tag[1..end];
            assert!(!name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric()), "{name}");
            let (attributes, after) = attributes(&tag[end..]);
            found.push((name.to_string(), attributes, String::new()));
            rest = after
                .strip_prefix("/>")
                .or_else(|| {
                    open.push(found.len() - 1);
                    after.strip_prefix('>')
                })
                .expect("the end of a tag");
        }
        assert!(open.is_empty() && rest.trim().is_empty(), "all is closed");
        found
    }

    fn attributes(mut rest: &str) -> (Vec<(String, String)>, &str) {
        let mut found: Vec<(String, String)> = Vec::new();
        while let Some(after) = rest.strip_prefix(' ') {
            let (name, after) = after.split_once("=\"").expect("an attribute");
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || "-:".contains(c)), "{name}");
            let (value, after) = after.split_once('"').expect("the end of a value");
            assert!(!value.contains('<') && !found.iter().any(|(known, _)| known == name), "{name} {value}");
            found.push((name.to_string(), unescaped(value)));
            rest = after;
        }
        (found, rest)
    }

    fn unescaped(text: &str) -> String {
        let mut parts = text.split('&');
        let mut plain = parts.next().unwrap_or_default().to_string();
        for part in parts {
            let (name, rest) = part.split_once(';').expect("a reference");
            plain += match name {
                "amp" => "&",
                "lt" => "<",
                "gt" => ">",
                "quot" => "\"",
                "#39" => "'",
                other => panic!("reference {other}"),
            };
            plain += rest;
        }
        assert!(!plain.chars().any(|c| c.is_control() && c != '\n' && c != '\t'), "{plain:?}");
        plain
    }

    #[test]
    fn what_goes_in_comes_out_as_text() {
        let mut m = Markup::default();
        let hostile = "\"'><b a=\"1\">&lt;\u{0}";
        m.within("p", &[("title", &hostile), ("data-value", &1.5)], |m| {
            m.text(hostile);
            m.empty("br", &[]);
        });
        let found = elements(&m.document());
        let shown = hostile.replace('\0', "\u{fffd}");
        let attributes = vec![("title".to_string(), shown.clone()), ("data-value".into(), "1.5".into())];
        assert_eq!(found, [("p".to_string(), attributes, shown), ("br".into(), Vec::new(), String::new())]);
    }

    #[test]
    #[should_panic(expected = "closed in order")]
    fn what_is_not_well_formed_is_noticed() {
        elements("<!DOCTYPE html>\n<p><b></p></b>");
    }
}
