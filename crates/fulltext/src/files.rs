//! Files that dictionaries are made of: the users' own, and those that are part of this crate.
//!
//! A file of the users' folder comes before one of the same name that is built in.

use crate::dictionary::Dictionary;
use kilndb_base::{Error, Result, sqlstate};
use std::borrow::Cow;
use std::sync::Arc;

/// Where a dictionary's makings come from.
pub trait DictionarySource {
    /// A file of the users' folder; None: it has none of this name.
    fn file(&self, name: &str) -> Result<Option<Vec<u8>>>;
    /// Another dictionary, by its (qualified) name.
    fn dictionary(&self, name: &str) -> Result<Arc<Dictionary>>;
}

/// No files and no dictionaries but those that are built in.
pub struct BuiltInSource;

impl DictionarySource for BuiltInSource {
    fn file(&self, _name: &str) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }
    fn dictionary(&self, name: &str) -> Result<Arc<Dictionary>> {
        Err(Error::new(sqlstate::UNDEFINED_OBJECT, format!("text search dictionary \"{name}\" does not exist")))
    }
}

macro_rules! built_in {
    ($($name:literal)*) => { &[$(($name, include_str!(concat!("../data/", $name)))),*] };
}
const BUILT_IN: &[(&str, &str)] = built_in! {
    "danish.stop" "dutch.stop" "english.stop" "finnish.stop" "french.stop" "german.stop" "hungarian.stop" "italian.stop"
    "nepali.stop" "norwegian.stop" "portuguese.stop" "russian.stop" "spanish.stop" "swedish.stop" "turkish.stop"
    "synonym_sample.syn" "thesaurus_sample.ths" "ispell_sample.dict" "ispell_sample.affix" "hunspell_sample.affix"
    "hunspell_sample_long.dict" "hunspell_sample_long.affix" "hunspell_sample_num.dict" "hunspell_sample_num.affix"
    "unaccent.rules"
};

/// The text of a file, and what messages call it.
pub(crate) struct DataFile {
    path: String,
    text: Cow<'static, str>,
}

impl DataFile {
    /// The file `name` with one of the endings; `what` is the word for it in an error.
    pub fn open(source: &dyn DictionarySource, name: &str, ending: &str, what: &str) -> Result<DataFile> {
        if !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_') {
            let message = format!("invalid text search configuration file name \"{name}\"");
            return Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, message));
        }
        let full = format!("{name}.{ending}");
        let path = format!("tsearch_data/{full}");
        if let Some(bytes) = source.file(&full)? {
            let text = Cow::Owned(decoded(bytes, &path)?);
            return Ok(DataFile { path, text });
        }
        if let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == full) {
            return Ok(DataFile { path, text: Cow::Borrowed(text) });
        }
        let message = format!("could not open {what} file \"{path}\": No such file or directory");
        Err(Error::new(sqlstate::CONFIG_FILE_ERROR, message))
    }
    /// Each line with its end; an error gets the line as its context.
    pub(crate) fn each_line<'a>(&'a self, mut visit: impl FnMut(&'a str) -> Result<()>) -> Result<()> {
        for (i, line) in self.text.split_inclusive('\n').enumerate() {
            let context = || format!("line {} of configuration file \"{}\": \"{line}\"", i + 1, self.path);
            visit(line).map_err(|e| e.with_context(context()))?;
        }
        Ok(())
    }
}

fn decoded(bytes: Vec<u8>, path: &str) -> Result<String> {
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        let line = 1 + e.as_bytes().iter().take(at).filter(|b| **b == b'\n').count();
        let len = e.utf8_error().error_len().unwrap_or(1);
        let shown: Vec<String> = e.as_bytes().iter().skip(at).take(len).map(|b| format!("0x{b:02x}")).collect();
        Error::new(
            sqlstate::CHARACTER_NOT_IN_REPERTOIRE,
            format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" ")),
        )
        .with_context(format!("line {line} of configuration file \"{path}\""))
    })
}

/// A space as the C locale has it.
pub(crate) fn is_space(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\x0b'
}

#[cold]
pub(crate) fn bad_file(message: impl Into<String>) -> Error {
    Error::new(sqlstate::CONFIG_FILE_ERROR, message)
}
