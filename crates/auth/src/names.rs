//! Names in rules: words with a meaning, `+role`, regular expressions, and names as they are written.

use crate::lines::Token;
use kilndb_base::Result;
use std::sync::Arc;

/// A regular expression of PostgreSQL's that was compiled.
pub trait Pattern: Send + Sync {
    /// None: no match. Else what its first group has matched, if it has one that has.
    fn find(&self, text: &str) -> Result<Option<Option<String>>>;
}

/// Who compiles regular expressions. Err: why one is none.
pub trait Patterns {
    fn compile(&self, text: &str) -> Result<Arc<dyn Pattern>, String>;
}

/// What is asked of the roles that there are.
pub trait Membership {
    /// Whether `role` is a member of `of`, directly or not, and not only as a superuser. Unknown roles are members of
    /// nothing.
    fn is_member(&self, role: &str, of: &str) -> Result<bool>;
}

/// One name of a rule, which matches some.
#[derive(Clone)]
pub struct NameRule {
    pub token: Token,
    pattern: Option<Arc<dyn Pattern>>,
}

impl NameRule {
    /// Err: what is wrong with its regular expression.
    pub fn new(token: Token, patterns: &dyn Patterns) -> Result<NameRule, String> {
        let Some(text) = token.text.strip_prefix('/') else { return Ok(NameRule { token, pattern: None }) };
        let compiled = patterns.compile(text);
        let pattern = compiled.map_err(|reason| format!("invalid regular expression \"{text}\": {reason}"))?;
        Ok(NameRule { token, pattern: Some(pattern) })
    }
    pub fn pattern(&self) -> Option<&dyn Pattern> {
        self.pattern.as_deref()
    }
    /// The role whose members are meant.
    pub fn group(&self) -> Option<&str> {
        self.token.text.strip_prefix('+').filter(|_| !self.token.is_quoted)
    }
    /// Whether the name is this one, or the expression matches it.
    pub fn is_name(&self, name: &str) -> Result<bool> {
        match &self.pattern {
            Some(pattern) => Ok(pattern.find(name)?.is_some()),
            None => Ok(self.token.text == name),
        }
    }
    pub fn is_role(&self, role: &str, members: &dyn Membership) -> Result<bool> {
        match self.group() {
            Some(group) => members.is_member(role, group),
            None => Ok(self.token.is_keyword("all") || self.is_name(role)?),
        }
    }
}
