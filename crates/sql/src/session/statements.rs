//! The prepared statements and portals of a session, and what functions and views may see of them.

use super::cursor::missing;
use super::named::PreparedByName;
use super::portal::Portals;
use crate::host::arguments::{oid_of, text_of};
use crate::host::{NamedStatements, StatementHost};
use crate::plan_guard::GuardedStatements;
use kilndb_base::sync::Arc;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::CatalogView;
use kilndb_catalog::store::array;
use kilndb_spill::{SpillIo, StoreCursor};
use kilndb_types::{Datum, oids};

pub(crate) struct ClientStatements {
    pub prepared: PreparedByName,
    pub portals: Portals,
    /// Those of all sessions.
    guards: Arc<GuardedStatements>,
}

impl ClientStatements {
    pub fn new(guards: Arc<GuardedStatements>) -> ClientStatements {
        ClientStatements { prepared: PreparedByName::default(), portals: Portals::default(), guards }
    }
}

impl NamedStatements for ClientStatements {
    fn prepared_rows(&self) -> Vec<Vec<Datum>> {
        let types = |list: &[Oid]| array(oids::REGTYPE, list.iter().map(|t| Datum::Oid(*t)).collect());
        let mut named = self.prepared.named();
        named.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        named
            .into_iter()
            .map(|(name, p, runs)| {
                vec![
                    Datum::text(name),
                    Datum::text(&*p.sql),
                    Datum::TimestampTz(p.prepare_time),
                    types(&p.param_types),
                    p.result_types().map_or(Datum::Null, |t| types(&t)),
                    Datum::Bool(p.from_sql),
                    Datum::Int8(runs.generic as i64),
                    Datum::Int8(runs.custom as i64),
                ]
            })
            .collect()
    }

    fn plan_rows(&self) -> Vec<Vec<Datum>> {
        self.guards.rows()
    }

    fn cursor_rows(&self) -> Vec<Vec<Datum>> {
        let mut rows: Vec<(String, Vec<Datum>)> = Vec::new();
        self.portals.for_named(|name, portal| {
            let cursor = portal.cursor.as_ref();
            let row = vec![
                Datum::text(name),
                Datum::text(&*portal.prepared.sql),
                Datum::Bool(cursor.is_some_and(|c| c.hold)),
                Datum::Bool(false),
                Datum::Bool(cursor.is_some_and(|c| c.scroll)),
                Datum::TimestampTz(portal.prepared.prepare_time),
            ];
            rows.push((name.to_string(), row));
        });
        rows.sort_by(|(a, _), (b, _)| a.cmp(b));
        rows.into_iter().map(|(_, row)| row).collect()
    }

    fn current_place(&self, host: &StatementHost<'_>, args: &[Datum]) -> Result<Datum> {
        let (name, root, table) = (text_of(args.first()), oid_of(args.get(1)), oid_of(args.get(2)));
        let place = self.portals.with(&name, |portal| {
            let (Some(cursor), Some(plan)) = (&portal.cursor, &portal.plan) else { return Err(missing(&name)) };
            let state = |message: String| Err(Error::new(sqlstate::INVALID_CURSOR_STATE, message));
            if cursor.hold && cursor.complete {
                return state(format!("cursor \"{name}\" is held from a previous transaction"));
            }
            let Some(at) = plan.places.iter().position(|t| *t == root || *t == table) else {
                let shown = host.reader.table_by_oid(root)?.map_or_else(String::new, |t| t.name.clone());
                let locks = plan.command == "SELECT" && !plan.is_read_only;
                return state(match locks {
                    true => {
                        format!("cursor \"{name}\" does not have a FOR UPDATE/SHARE reference to table \"{shown}\"")
                    }
                    false => format!("cursor \"{name}\" is not a simply updatable scan of table \"{shown}\""),
                });
            };
            if cursor.position == 0 || cursor.position > cursor.fetched() {
                return state(format!("cursor \"{name}\" is not positioned on a row"));
            }
            let io = SpillIo { space: &host.reader.database.temp, park: host.runtime };
            let mut reader = StoreCursor::default();
            let hidden = match (cursor.position - 1).checked_sub(cursor.passed) {
                Some(kept) => cursor.rows.row(kept, &mut reader, io)?.get(plan.columns.len()..).unwrap_or(&[]),
                None => cursor.last.as_slice(),
            };
            let is_here = matches!(hidden.get(2 * at + 1), Some(Datum::Oid(oid)) if *oid == table);
            Ok(hidden.get(2 * at).filter(|_| is_here).cloned().unwrap_or_default())
        });
        place.unwrap_or_else(|| Err(missing(&name)))
    }
}
