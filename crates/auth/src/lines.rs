//! The lines of `pg_hba.conf` and `pg_ident.conf` as fields of tokens: quotes, comments, continued lines, lists in files
//! (`@file`), and other files in their midst (`include`, `include_if_exists`, `include_dir`).
//!
//! Invariants
//! 1. A line with an error is among the lines: whoever reads them sees all errors of all files.
//! 2. Files that name each other in a circle end at a depth of [`DEPTH_MAX`].
//!
//! Must not know: what a field means.

use std::io;
use std::path::{Path, PathBuf};

/// How deep files may name other files.
const DEPTH_MAX: usize = 10;

/// Where the files are.
pub trait AuthFiles {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// Names of what is in a folder, in any order.
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Token {
    pub text: String,
    /// It begins with a quote: no word with a meaning of its own.
    pub is_quoted: bool,
}

impl Token {
    pub fn is_keyword(&self, word: &str) -> bool {
        !self.is_quoted && self.text == word
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenLine {
    pub file: PathBuf,
    /// From 1; of a continued line the first.
    pub number: u32,
    /// As it stands in the file.
    pub text: String,
    /// Each has at least one token.
    pub fields: Vec<Vec<Token>>,
    pub error: Option<String>,
}

/// All lines that say something. Err: the file itself cannot be read.
pub fn read_lines(files: &dyn AuthFiles, path: &Path) -> Result<Vec<TokenLine>, String> {
    let mut reader = Reader { files, lines: Vec::new() };
    let text = reader.open(path, 0).map_err(|(_, message)| message)?;
    reader.file(path, &text, 0);
    Ok(reader.lines)
}

/// An error of the system's as PostgreSQL writes it: without its number.
fn described(e: &io::Error) -> String {
    let text = e.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_string()
}

struct Reader<'a> {
    files: &'a dyn AuthFiles,
    lines: Vec<TokenLine>,
}

impl Reader<'_> {
    fn open(&self, path: &Path, depth: usize) -> Result<String, (Option<io::ErrorKind>, String)> {
        let shown = path.display();
        if depth > DEPTH_MAX {
            return Err((None, format!("could not open file \"{shown}\": maximum nesting depth exceeded")));
        }
        match self.files.read(path) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(e) => Err((Some(e.kind()), format!("could not open file \"{shown}\": {}", described(&e)))),
        }
    }

    fn file(&mut self, path: &Path, text: &str, depth: usize) {
        let mut rest = text.lines();
        let mut number = 1;
        loop {
            let Some((line, taken)) = next_line(&mut rest) else { return };
            self.line(path, number, line, depth);
            number += taken;
        }
    }

    fn line(&mut self, path: &Path, number: u32, text: String, depth: usize) {
        let mut fields = Vec::new();
        let mut error = None;
        let mut rest = Scanner { chars: text.chars().peekable() };
        while error.is_none() && rest.chars.peek().is_some() {
            let mut field = Vec::new();
            error = self.field(path, &mut rest, depth, &mut field).err();
            if !field.is_empty() {
                fields.push(field);
            }
        }
        if fields.is_empty() && error.is_none() {
            return;
        }
        if let ([first, second], None) = (&fields[..], &error) {
            match self.include(path, &first[0].text, &second[0].text, depth) {
                None => {}
                Some(Ok(())) => return,
                Some(Err(message)) => error = Some(message),
            }
        }
        self.lines.push(TokenLine { file: path.to_path_buf(), number, text, fields, error });
    }

    /// A list of tokens with commas between them.
    fn field(
        &mut self,
        path: &Path,
        rest: &mut Scanner<'_>,
        depth: usize,
        field: &mut Vec<Token>,
    ) -> Result<(), String> {
        loop {
            let Some((token, has_comma)) = rest.token() else { return Ok(()) };
            match token.text.strip_prefix('@').filter(|name| !token.is_quoted && !name.is_empty()) {
                Some(name) => self.expand(&beside(path, name), depth + 1, field)?,
                None => field.push(token),
            }
            if !has_comma {
                return Ok(());
            }
        }
    }

    /// All tokens of a file, whatever lines and fields they are in.
    fn expand(&mut self, path: &Path, depth: usize, field: &mut Vec<Token>) -> Result<(), String> {
        let text = self.open(path, depth).map_err(|(_, message)| message)?;
        let mut inner = Reader { files: self.files, lines: Vec::new() };
        inner.file(path, &text, depth);
        for line in inner.lines {
            if let Some(error) = line.error {
                return Err(error);
            }
            field.extend(line.fields.into_iter().flatten());
        }
        Ok(())
    }

    /// None: the line is no record of this kind.
    fn include(&mut self, path: &Path, word: &str, name: &str, depth: usize) -> Option<Result<(), String>> {
        let named = beside(path, name);
        match word {
            "include" => Some(self.include_file(&named, depth + 1, false)),
            "include_if_exists" => Some(self.include_file(&named, depth + 1, true)),
            "include_dir" => Some(self.include_folder(&named, depth + 1)),
            _ => None,
        }
    }

    fn include_file(&mut self, path: &Path, depth: usize, may_be_missing: bool) -> Result<(), String> {
        match self.open(path, depth) {
            Ok(text) => self.file(path, &text, depth),
            Err((Some(io::ErrorKind::NotFound), _)) if may_be_missing => {}
            Err((_, message)) => return Err(message),
        }
        Ok(())
    }

    fn include_folder(&mut self, folder: &Path, depth: usize) -> Result<(), String> {
        let mut inside = self.files.list(folder).map_err(|e| {
            format!("could not open configuration directory \"{}\": {}", folder.display(), described(&e))
        })?;
        let is_taken = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.len() > ".conf".len() && name.ends_with(".conf") && !name.starts_with('.')
        };
        inside.retain(is_taken);
        inside.sort();
        let errors: Vec<String> =
            inside.iter().filter_map(|path| self.include_file(path, depth, false).err()).collect();
        if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
    }
}

/// A name in a file is relative to the file's folder.
fn beside(path: &Path, name: &str) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).join(name)
}

/// A line with those that continue it, and how many these are in all.
fn next_line<'a>(rest: &mut impl Iterator<Item = &'a str>) -> Option<(String, u32)> {
    let mut line = rest.next()?.to_string();
    let mut taken = 1;
    let mut continued_at = 0;
    // Two backslashes at two ends of lines are one each.
    while line.len() > continued_at && line.ends_with('\\') {
        line.pop();
        continued_at = line.len();
        let Some(next) = rest.next() else { break };
        line += next;
        taken += 1;
    }
    Some((line, taken))
}

struct Scanner<'a> {
    chars: std::iter::Peekable<std::str::Chars<'a>>,
}

fn is_blank(c: char) -> bool {
    c == ' ' || c == '\t' || c == '\r'
}

impl Scanner<'_> {
    /// The next token, and whether a comma ends it. None: the line is over.
    fn token(&mut self) -> Option<(Token, bool)> {
        while self.chars.next_if(|c| is_blank(*c) || *c == ',').is_some() {}
        let mut text = String::new();
        let (mut in_quotes, mut was_quote, mut saw_quote, mut is_quoted) = (false, false, false, false);
        let mut has_comma = false;
        while let Some(&c) = self.chars.peek() {
            if is_blank(c) && !in_quotes {
                break;
            }
            self.chars.next();
            if c == '#' && !in_quotes {
                self.chars.by_ref().for_each(drop);
                break;
            }
            if c == ',' && !in_quotes {
                has_comma = true;
                break;
            }
            if c != '"' || was_quote {
                text.push(c);
            }
            // A quote is written as two.
            was_quote = in_quotes && c == '"' && !was_quote;
            if c == '"' {
                in_quotes = !in_quotes;
                saw_quote = true;
                is_quoted |= text.is_empty();
            }
        }
        (saw_quote || !text.is_empty()).then_some((Token { text, is_quoted }, has_comma))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[derive(Default)]
    pub(crate) struct MemoryFiles(pub BTreeMap<PathBuf, String>);

    impl AuthFiles for MemoryFiles {
        fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
            let found = self.0.get(path).map(|text| text.clone().into_bytes());
            found.ok_or_else(|| io::Error::from_raw_os_error(2))
        }
        fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
            Ok(self.0.keys().filter(|path| path.parent() == Some(folder)).cloned().collect())
        }
    }

    pub(crate) fn files(all: &[(&str, &str)]) -> MemoryFiles {
        MemoryFiles(all.iter().map(|(path, text)| (PathBuf::from(path), text.to_string())).collect())
    }

    fn shown(all: &[(&str, &str)]) -> Vec<String> {
        let lines = read_lines(&files(all), Path::new(all[0].0)).unwrap();
        let show = |line: &TokenLine| {
            let token = |t: &Token| if t.is_quoted { format!("'{}'", t.text) } else { t.text.clone() };
            let fields: Vec<String> =
                line.fields.iter().map(|f| f.iter().map(token).collect::<Vec<_>>().join("|")).collect();
            let error = line.error.as_ref().map(|e| format!(" !{e}")).unwrap_or_default();
            format!("{} {}{error}", line.number, fields.join(" "))
        };
        lines.iter().map(show).collect()
    }

    #[test]
    fn fields_and_tokens() {
        let text = "# a comment\n\nhost all,\"all\", b  10.0.0.0/8 md5 # and another\n\
                    local \"a b\",x\"y z\" \"say \"\"so\"\"\" trust\nlocal \\\n all\\\n,db \\\n\nlast\\";
        assert_eq!(
            shown(&[("/d/hba", text)]),
            ["3 host all|'all'|b 10.0.0.0/8 md5", "4 local 'a b'|xy z 'say \"so\"' trust", "5 local all|db", "9 last"]
        );
    }

    #[test]
    fn other_files_are_read() {
        let all = [
            (
                "/d/hba",
                "local @lists/names,@/e/more all trust\ninclude lists/x.conf\ninclude_if_exists nowhere\n\
              include_dir lists\nlocal \"@quoted\" all trust\n",
            ),
            ("/d/lists/names", "anna # and\nbob, carl\n"),
            ("/e/more", "dora"),
            ("/d/lists/x.conf", "local x all trust"),
            ("/d/lists/y.conf", "\nlocal y all trust"),
        ];
        assert_eq!(
            shown(&all),
            [
                "1 local anna|bob|carl|dora all trust",
                "1 local x all trust",
                "1 local x all trust",
                "2 local y all trust",
                "5 local '@quoted' all trust"
            ]
        );
    }

    #[test]
    fn what_cannot_be_read_is_an_error_of_its_line() {
        let all = [("/d/hba", "include nowhere\nlocal @nowhere all trust\ninclude hba\nlocal all all trust")];
        let lines = shown(&all);
        assert!(lines[0].ends_with("!could not open file \"/d/nowhere\": No such file or directory"), "{lines:?}");
        assert!(lines[1].ends_with("!could not open file \"/d/nowhere\": No such file or directory"), "{lines:?}");
        let deep = "!could not open file \"/d/hba\": maximum nesting depth exceeded";
        assert_eq!(lines.iter().filter(|line| line.ends_with(deep)).count(), 1, "{lines:?}");
        assert!(read_lines(&files(&[]), Path::new("/d/hba")).is_err());
    }
}
