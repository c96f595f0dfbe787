//! The options of CREATE and ALTER ROLE, read and turned into columns of pg_authid.

use super::super::Definitions;
use crate::client::Runtime;
use kilndb_auth::password::{self, PasswordKind, PasswordMethod, SALT_BYTES};
use kilndb_base::{Error, Result, Severity, sqlstate};
use kilndb_syntax::{Node, nodes};
use kilndb_types::{Datum, oids};

/// What a statement says of a role; None: nothing.
#[derive(Default)]
pub struct RoleOptions<'n> {
    /// `Some(None)`: PASSWORD NULL.
    pub password: Option<Option<&'n str>>,
    pub superuser: Option<bool>,
    pub inherit: Option<bool>,
    pub createrole: Option<bool>,
    pub createdb: Option<bool>,
    pub canlogin: Option<bool>,
    pub replication: Option<bool>,
    pub bypassrls: Option<bool>,
    pub connection_limit: Option<i32>,
    pub valid_until: Option<&'n str>,
    pub is_sysid_given: bool,
    pub in_roles: Vec<&'n nodes::RoleSpec>,
    pub members: Vec<&'n nodes::RoleSpec>,
    pub admins: Vec<&'n nodes::RoleSpec>,
}

fn role_specs<'n>(list: Node<'n>) -> Vec<&'n nodes::RoleSpec> {
    let Node::NodeList(list) = list else { return Vec::new() };
    list.iter().filter_map(|node| if let Node::RoleSpec(spec) = node { Some(spec) } else { None }).collect()
}

impl<'n> RoleOptions<'n> {
    pub fn read(options: impl IntoIterator<Item = &'n nodes::DefElem>, source: &str) -> Result<RoleOptions<'n>> {
        let mut read = RoleOptions::default();
        let mut seen: Vec<&str> = Vec::new();
        for option in options {
            let name = option.defname().unwrap_or("");
            if seen.contains(&name) {
                let e = Error::new(sqlstate::SYNTAX_ERROR, "conflicting or redundant options");
                return Err(e.or_position(kilndb_syntax::position_of(source, option.location)));
            }
            seen.push(name);
            read.take(name, option)?;
        }
        Ok(read)
    }

    fn take(&mut self, name: &str, option: &'n nodes::DefElem) -> Result<()> {
        let arg = option.arg();
        let flag = Some(matches!(arg, Node::Boolean(b) if b.boolval));
        let text = if let Node::String(s) = arg { s.sval() } else { None };
        match name {
            "password" => self.password = Some(text),
            "sysid" => self.is_sysid_given = true,
            "superuser" => self.superuser = flag,
            "inherit" => self.inherit = flag,
            "createrole" => self.createrole = flag,
            "createdb" => self.createdb = flag,
            "canlogin" => self.canlogin = flag,
            "isreplication" => self.replication = flag,
            "bypassrls" => self.bypassrls = flag,
            "connectionlimit" => {
                let limit = if let Node::Integer(i) = arg { i.ival } else { -1 };
                if limit < -1 {
                    let message = format!("invalid connection limit: {limit}");
                    return Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, message));
                }
                self.connection_limit = Some(limit);
            }
            "validUntil" => self.valid_until = Some(text.unwrap_or("")),
            "addroleto" => self.in_roles = role_specs(arg),
            "rolemembers" => self.members = role_specs(arg),
            "adminmembers" => self.admins = role_specs(arg),
            other => return Err(Error::unsupported(format!("role option \"{other}\" is not supported"))),
        }
        Ok(())
    }

    /// Whether there is more than a password, members, or what makes a superuser.
    pub fn changes_attributes(&self) -> bool {
        let flags = [self.inherit, self.createrole, self.createdb, self.canlogin, self.replication, self.bypassrls];
        flags.iter().any(Option::is_some) || self.connection_limit.is_some() || self.valid_until.is_some()
    }
}

impl Definitions<'_> {
    /// (column, value) of pg_authid for what a statement says.
    pub(super) fn attribute_values(
        &mut self,
        options: &RoleOptions<'_>,
        role_name: &str,
        runtime: &dyn Runtime,
    ) -> Result<Vec<(&'static str, Datum)>> {
        let flags = [
            ("rolsuper", options.superuser),
            ("rolinherit", options.inherit),
            ("rolcreaterole", options.createrole),
            ("rolcreatedb", options.createdb),
            ("rolcanlogin", options.canlogin),
            ("rolreplication", options.replication),
            ("rolbypassrls", options.bypassrls),
        ];
        let mut values: Vec<(&'static str, Datum)> =
            flags.into_iter().filter_map(|(column, flag)| Some((column, Datum::Bool(flag?)))).collect();
        values.extend(options.connection_limit.map(|limit| ("rolconnlimit", Datum::Int4(limit))));
        if let Some(text) = options.valid_until {
            let until = self.context_mut().with_value_context([oids::TIMESTAMPTZ].into_iter(), runtime, |eval| {
                kilndb_types::io::input(oids::TIMESTAMPTZ, text, -1, eval)
            })?;
            values.push(("rolvaliduntil", until));
        }
        if let Some(given) = options.password {
            values.push(("rolpassword", self.password_value(given, role_name)?));
        }
        Ok(values)
    }

    /// What is kept of a password; nothing of an empty one.
    fn password_value(&mut self, given: Option<&str>, role_name: &str) -> Result<Datum> {
        let Some(given) = given else { return Ok(Datum::Null) };
        if password::is_empty(given, role_name)? {
            let message = "empty string is not a valid password, clearing password";
            self.context().notice(Severity::Notice, message);
            return Ok(Datum::Null);
        }
        let context = self.context();
        let setting = context.settings.get("password_encryption").unwrap_or("");
        let method = PasswordMethod::of_setting(setting).unwrap_or(PasswordMethod::ScramSha256);
        let iterations = context.settings.get("scram_iterations").and_then(|n| n.parse().ok());
        let mut salt = [0; SALT_BYTES];
        context.cluster.env.random_bytes(&mut salt);
        let iterations = iterations.unwrap_or(password::ITERATIONS_DEFAULT);
        let verifier = password::encrypt(given, method, role_name, iterations, salt)?;
        let warns = context.settings.get("md5_password_warnings") != Some("off");
        if warns && password::classify(&verifier) == PasswordKind::Md5 {
            context.shared.scratch.notices.borrow_mut().push(password::md5_warning());
        }
        Ok(Datum::text(verifier))
    }
}
