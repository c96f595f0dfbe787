//! PASSWORD and VALID UNTIL of CREATE ROLE and ALTER ROLE.
//!
//! Invariant: the text of a password is never kept: `pg_authid.rolpassword` is a verifier.

use super::Definitions;
use crate::client::Runtime;
use kilndb_auth::password::{self, PasswordKind, PasswordMethod, SALT_BYTES};
use kilndb_base::{Result, Severity};
use kilndb_syntax::{Node, nodes};
use kilndb_types::{Datum, io, oids};

fn text_of(option: &nodes::DefElem) -> Option<&str> {
    match option.arg() {
        Node::String(s) => s.sval(),
        _ => None,
    }
}

impl Definitions<'_> {
    /// (column, value) of pg_authid for the options that are about passwords.
    pub(super) fn password_values<'n>(
        &mut self,
        options: impl IntoIterator<Item = &'n nodes::DefElem>,
        role_name: &str,
        runtime: &dyn Runtime,
    ) -> Result<Vec<(&'static str, Datum)>> {
        let mut values = Vec::new();
        for option in options {
            match (option.defname().unwrap_or(""), text_of(option)) {
                ("password", None) => values.push(("rolpassword", Datum::Null)),
                ("password", Some(password)) => {
                    values.push(("rolpassword", self.kept_password(password, role_name)?));
                }
                ("validUntil", until) => {
                    let until = until.unwrap_or("infinity");
                    let value =
                        self.context_mut().with_value_context([oids::TIMESTAMPTZ].into_iter(), runtime, |eval| {
                            io::input(oids::TIMESTAMPTZ, until, -1, eval)
                        })?;
                    values.push(("rolvaliduntil", value));
                }
                _ => {}
            }
        }
        Ok(values)
    }

    fn kept_password(&self, given: &str, role_name: &str) -> Result<Datum> {
        let context = self.context();
        if password::is_empty(given, role_name)? {
            context.notice(Severity::Notice, "empty string is not a valid password, clearing password");
            return Ok(Datum::Null);
        }
        let setting = |name| context.settings.get(name).unwrap_or_default();
        let method = PasswordMethod::of_setting(setting("password_encryption")).unwrap_or(PasswordMethod::ScramSha256);
        let iterations = setting("scram_iterations").parse().unwrap_or(password::ITERATIONS_DEFAULT);
        let mut salt = [0; SALT_BYTES];
        context.cluster.env.random_bytes(&mut salt);
        let kept = password::encrypt(given, method, role_name, iterations, salt)?;
        if password::classify(&kept) == PasswordKind::Md5 && setting("md5_password_warnings") == "on" {
            context.shared.scratch.notices.borrow_mut().push(password::md5_warning());
        }
        Ok(Datum::text(kept))
    }
}
