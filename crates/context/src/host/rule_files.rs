//! pg_hba_file_rules and pg_ident_file_mappings: what the files say now, which need not be what is in force.

use super::StatementHost;
use super::session_function::session_rows;
use crate::authentication::{RuleFiles, hba_path, ident_path, parse_facts};
use kilndb_auth::hba::{self, AddressRule, HbaLine, HbaRule};
use kilndb_auth::ident::{self, IdentLine};
use kilndb_auth::lines::TokenLine;
use kilndb_auth::names::NameRule;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_catalog::store::array;
use kilndb_types::{Datum, oids};

session_rows! {
    fn pg_hba_file_rules(call) = hba_rows(call.host);
    fn pg_ident_file_mappings(call) = ident_rows(call.host);
}

fn unreadable(message: String) -> Error {
    Error::new(sqlstate::UNDEFINED_FILE, message)
}

fn optional(text: Option<impl Into<String>>) -> Datum {
    text.map_or(Datum::Null, |text| Datum::text(text.into()))
}

/// What both views have of a line: its number among the good ones, its file, its place there.
fn place(number: &mut i32, line: &TokenLine, error: Option<&str>) -> [Datum; 3] {
    let counted = if error.is_some() {
        Datum::Null
    } else {
        *number += 1;
        Datum::Int4(*number)
    };
    [counted, Datum::text(line.file.display().to_string()), Datum::Int4(line.number as i32)]
}

fn hba_rows(host: &StatementHost<'_>) -> Result<Vec<Vec<Datum>>> {
    let settings = host.cluster.settings();
    let files = RuleFiles(&*host.cluster.env);
    let lines = hba::read_file(&files, &hba_path(&settings), &parse_facts(&settings)).map_err(unreadable)?;
    let mut number = 0;
    Ok(lines.iter().map(|line| hba_row(&mut number, line)).collect())
}

fn hba_row(number: &mut i32, line: &HbaLine) -> Vec<Datum> {
    let error = line.error.as_ref().map(|e| e.message.as_str());
    let mut row = place(number, &line.line, error).to_vec();
    match &line.rule {
        Some(rule) => row.extend(rule_columns(rule)),
        None => row.extend([const { Datum::Null }; 7]),
    }
    row.push(optional(error));
    row
}

fn rule_columns(rule: &HbaRule) -> [Datum; 7] {
    let names =
        |list: &[NameRule]| array(oids::TEXT, list.iter().map(|name| Datum::text(name.token.text.as_str())).collect());
    let (address, mask) = match &rule.address {
        None => (None, None),
        Some(AddressRule::All) => (Some("all".to_string()), None),
        Some(AddressRule::HostName(name)) => (Some(name.clone()), None),
        Some(AddressRule::SameHost) => (Some("samehost".to_string()), None),
        Some(AddressRule::SameNet) => (Some("samenet".to_string()), None),
        Some(AddressRule::Network { address, mask }) => (Some(address.to_string()), Some(mask.to_string())),
    };
    let options = rule.options();
    [
        Datum::text(rule.kind.name()),
        names(&rule.databases),
        names(&rule.roles),
        optional(address),
        optional(mask),
        Datum::text(rule.method.name()),
        if options.is_empty() {
            Datum::Null
        } else {
            array(oids::TEXT, options.into_iter().map(Datum::text).collect())
        },
    ]
}

fn ident_rows(host: &StatementHost<'_>) -> Result<Vec<Vec<Datum>>> {
    let settings = host.cluster.settings();
    let files = RuleFiles(&*host.cluster.env);
    let lines = ident::read_file(&files, &ident_path(&settings), &parse_facts(&settings)).map_err(unreadable)?;
    let mut number = 0;
    Ok(lines.iter().map(|line| ident_row(&mut number, line)).collect())
}

fn ident_row(number: &mut i32, line: &IdentLine) -> Vec<Datum> {
    let error = line.rule.as_ref().err().map(|e| e.message.as_str());
    let mut row = place(number, &line.line, error).to_vec();
    match &line.rule {
        Ok(rule) => row.extend([
            Datum::text(rule.map.as_str()),
            Datum::text(rule.system_user.token.text.as_str()),
            Datum::text(rule.role.token.text.as_str()),
        ]),
        Err(_) => row.extend([const { Datum::Null }; 3]),
    }
    row.push(optional(error));
    row
}
