//! `pg_ident.conf`: which roles somebody may be whom the operating system or a certificate names.

use crate::hba::{LineError, ParseFacts};
use crate::lines::{AuthFiles, TokenLine, read_lines};
use crate::names::{Membership, NameRule};
use kilndb_base::{Error, Result, Severity, sqlstate};
use std::path::Path;

#[derive(Clone)]
pub struct IdentRule {
    pub map: String,
    pub system_user: NameRule,
    pub role: NameRule,
}

/// What a file says line by line, right or wrong.
pub struct IdentLine {
    pub line: TokenLine,
    pub rule: std::result::Result<IdentRule, LineError>,
}

/// Err: the file itself cannot be read.
pub fn read_file(files: &dyn AuthFiles, path: &Path, facts: &ParseFacts<'_>) -> Result<Vec<IdentLine>, String> {
    let judged = read_lines(files, path)?.into_iter().map(|line| IdentLine { rule: rule_of(&line, facts), line });
    Ok(judged.collect())
}

fn rule_of(line: &TokenLine, facts: &ParseFacts<'_>) -> std::result::Result<IdentRule, LineError> {
    let wrong = |message: String| LineError { message, hint: None };
    if let Some(message) = &line.error {
        return Err(wrong(message.clone()));
    }
    let field = |at: usize| match line.fields.get(at).map(Vec::as_slice) {
        None => Err(wrong("missing entry at end of line".into())),
        Some([token]) => Ok(token.clone()),
        Some(_) => Err(wrong("multiple values in ident field".into())),
    };
    let (map, system_user, role) = (field(0)?, field(1)?, field(2)?);
    let rule = |token| NameRule::new(token, facts.patterns).map_err(wrong);
    Ok(IdentRule { map: map.text, system_user: rule(system_user)?, role: rule(role)? })
}

/// The maps that are in force.
#[derive(Clone, Default)]
pub struct IdentMaps {
    pub rules: Vec<IdentRule>,
}

impl IdentMaps {
    /// Reads a file. The second result is what the log is to be told; without the first the file is not taken over.
    pub fn load(files: &dyn AuthFiles, path: &Path, facts: &ParseFacts<'_>) -> (Option<IdentMaps>, Vec<Error>) {
        let lines = match read_file(files, path, facts) {
            Ok(lines) => lines,
            Err(message) => {
                return (None, vec![Error::notice(sqlstate::CONFIG_FILE_ERROR, Severity::Log, message)]);
            }
        };
        let told: Vec<Error> = lines.iter().filter_map(|l| Some(l.rule.as_ref().err()?.told(&l.line))).collect();
        let rules: Option<Vec<IdentRule>> = lines.into_iter().map(|l| l.rule.ok()).collect();
        (rules.map(|rules| IdentMaps { rules }), told)
    }

    /// Whether `system_user` may be `role`. Err: why not, for the log alone.
    pub fn check(
        &self,
        map: Option<&str>,
        role: &str,
        system_user: &str,
        members: &dyn Membership,
    ) -> std::result::Result<(), String> {
        let Some(map) = map.filter(|map| !map.is_empty()) else {
            return if role == system_user {
                Ok(())
            } else {
                Err(format!("provided user name ({role}) and authenticated user name ({system_user}) do not match"))
            };
        };
        for rule in self.rules.iter().filter(|rule| rule.map == map) {
            if rule.lets(role, system_user, members)? {
                return Ok(());
            }
        }
        Err(format!("no match in usermap \"{map}\" for user \"{role}\" authenticated as \"{system_user}\""))
    }
}

impl IdentRule {
    fn lets(&self, role: &str, system_user: &str, members: &dyn Membership) -> std::result::Result<bool, String> {
        let failed = |e: Error| e.message().to_string();
        let Some(pattern) = self.system_user.pattern() else {
            return Ok(self.system_user.token.text == system_user && self.role.is_role(role, members).map_err(failed)?);
        };
        let Some(group) = pattern.find(system_user).map_err(failed)? else { return Ok(false) };
        let wanted = &self.role.token.text;
        let takes_group = self.role.group().is_none() && self.role.pattern().is_none();
        let Some((head, tail)) = wanted.split_once("\\1").filter(|_| takes_group) else {
            return self.role.is_role(role, members).map_err(failed);
        };
        match group {
            Some(group) => Ok(role == format!("{head}{group}{tail}")),
            None => Err(format!(
                "regular expression \"{}\" has no subexpressions as requested by backreference in \"{wanted}\"",
                self.system_user.token.text.trim_start_matches('/')
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hba::tests::{TestHost, TestPatterns};
    use crate::lines::tests::files;

    fn load(text: &str) -> (Option<IdentMaps>, Vec<Error>) {
        let facts = ParseFacts { patterns: &TestPatterns, has_tls: true };
        IdentMaps::load(&files(&[("/d/ident", text)]), Path::new("/d/ident"), &facts)
    }

    #[test]
    fn maps_say_who_may_be_whom() {
        let maps = load(
            "m root postgres\nm /^(.*)@example.org$ \\1\nm carl +staff\nm dora all\nm eve /test.*\nn root other\nbad /x.* \\1",
        )
        .0
        .unwrap();
        let may = |map: &str, user: &str, role: &str| maps.check(Some(map), role, user, &TestHost).is_ok();
        assert!(may("m", "root", "postgres") && !may("m", "root", "other") && may("n", "root", "other"));
        assert!(may("m", "bob@example.org", "bob") && !may("m", "bob@example.org", "anna"));
        assert!(may("m", "carl", "anna") && !may("m", "carl", "bob"));
        assert!(may("m", "dora", "anything") && may("m", "eve", "tester") && !may("m", "eve", "x"));
        let why = |map, role: &str, user| maps.check(map, role, user, &TestHost).unwrap_err();
        assert_eq!(why(Some("x"), "a", "b"), "no match in usermap \"x\" for user \"a\" authenticated as \"b\"");
        assert_eq!(why(None, "a", "b"), "provided user name (a) and authenticated user name (b) do not match");
        assert!(why(Some("bad"), "a", "xy").contains("has no subexpressions"));
        assert!(maps.check(None, "a", "a", &TestHost).is_ok());
    }

    #[test]
    fn wrong_lines_are_told() {
        let (maps, told) = load("m root\nm a,b c\nm /( c\nm a b");
        assert!(maps.is_none());
        let messages: Vec<&str> = told.iter().map(Error::message).collect();
        assert_eq!(
            messages,
            [
                "missing entry at end of line",
                "multiple values in ident field",
                "invalid regular expression \"(\": parentheses () not balanced"
            ]
        );
        assert!(load("# nothing").0.is_some());
    }
}
