//! What a cluster begins with of roles and privileges: the predefined roles, and the grants on the system's own
//! relations and functions. Clusters of earlier builds get what they lack when they are started.
//!
//! Invariants
//! 1. Everybody may read the system's relations, but for those in [`RELATIONS`], and call its functions, but for those
//!    in [`FUNCTIONS`].
//! 2. What somebody has granted or revoked since stays.

use super::builtin::{BOOTSTRAP_SUPERUSER, FIRST_USER_OID};
use super::ids::*;
use super::privileges::{PUBLIC_ROLE, SecuredKind, privilege};
use super::roles::{PG_MONITOR, PG_READ_ALL_STATS, PREDEFINED_MEMBERSHIPS, PREDEFINED_ROLES};
use super::shared_dependencies::{OWNED_TABLES, needed_roles};
use super::store::{CatalogWriter, array};
use kilndb_base::{Oid, Result};
use kilndb_types::acl::AclItem;
use kilndb_types::{Datum, oids};

/// System relations that not everybody may read, or that everybody may do more with: to whom what is granted besides
/// the owner.
const RELATIONS: &[(&str, &[(Oid, u64)])] = &[
    ("pg_statistic", &[]),
    ("pg_authid", &[]),
    ("pg_statistic_ext_data", &[]),
    ("pg_user_mapping", &[]),
    ("pg_subscription", &[]),
    ("pg_largeobject", &[]),
    ("pg_shadow", &[]),
    ("pg_ident_file_mappings", &[]),
    ("pg_file_settings", &[]),
    ("pg_hba_file_rules", &[]),
    ("pg_config", &[]),
    ("pg_replication_origin_status", &[]),
    ("pg_settings", &[(PUBLIC_ROLE, privilege::SELECT | privilege::UPDATE)]),
    ("pg_backend_memory_contexts", &[(PG_READ_ALL_STATS, privilege::SELECT)]),
    ("pg_shmem_allocations", &[(PG_READ_ALL_STATS, privilege::SELECT)]),
    ("pg_shmem_allocations_numa", &[(PG_READ_ALL_STATS, privilege::SELECT)]),
    ("pg_aios", &[(PG_READ_ALL_STATS, privilege::SELECT)]),
];

/// Built-in functions that not everybody may call: besides the owner, these roles.
const FUNCTIONS: &[(&str, &[Oid])] = &[
    ("lo_import", &[]),
    ("lo_export", &[]),
    ("pg_stat_reset", &[]),
    ("pg_stat_reset_single_table_counters", &[]),
    ("pg_stat_reset_single_function_counters", &[]),
    ("pg_stat_reset_backend_stats", &[]),
    ("pg_stat_reset_replication_slot", &[]),
    ("pg_stat_reset_subscription_stats", &[]),
    ("pg_stat_reset_shared", &[]),
    ("pg_stat_reset_slru", &[]),
    ("pg_stat_have_stats", &[]),
    ("pg_hba_file_rules", &[]),
    ("pg_ident_file_mappings", &[]),
    ("pg_create_restore_point", &[]),
    ("pg_switch_wal", &[]),
    ("pg_log_standby_snapshot", &[]),
    ("pg_wal_replay_pause", &[]),
    ("pg_wal_replay_resume", &[]),
    ("pg_rotate_logfile", &[]),
    ("pg_reload_conf", &[]),
    ("pg_read_file", &[]),
    ("pg_read_binary_file", &[]),
    ("pg_stat_file", &[]),
    ("pg_ls_dir", &[]),
    ("pg_current_logfile", &[PG_MONITOR]),
    ("pg_replication_origin_create", &[]),
    ("pg_replication_origin_drop", &[]),
    ("pg_replication_origin_oid", &[]),
    ("pg_replication_origin_progress", &[]),
    ("pg_replication_origin_session_is_setup", &[]),
    ("pg_replication_origin_session_progress", &[]),
    ("pg_replication_origin_session_reset", &[]),
    ("pg_replication_origin_session_setup", &[]),
    ("pg_replication_origin_xact_setup", &[]),
    ("pg_replication_origin_xact_reset", &[]),
    ("pg_replication_origin_advance", &[]),
    ("pg_show_replication_origin_status", &[]),
    ("pg_config", &[]),
    ("pg_ls_waldir", &[PG_MONITOR]),
    ("pg_ls_archive_statusdir", &[PG_MONITOR]),
    ("pg_ls_summariesdir", &[PG_MONITOR]),
    ("pg_ls_tmpdir", &[PG_MONITOR]),
    ("pg_ls_logicalsnapdir", &[PG_MONITOR]),
    ("pg_ls_logicalmapdir", &[PG_MONITOR]),
    ("pg_ls_replslotdir", &[PG_MONITOR]),
    ("pg_ls_logdir", &[PG_MONITOR]),
    ("pg_backup_start", &[]),
    ("pg_backup_stop", &[]),
    ("pg_promote", &[]),
    ("pg_log_backend_memory_contexts", &[]),
    ("pg_show_all_file_settings", &[]),
    ("pg_get_shmem_allocations", &[PG_READ_ALL_STATS]),
    ("pg_get_shmem_allocations_numa", &[PG_READ_ALL_STATS]),
    ("pg_get_backend_memory_contexts", &[PG_READ_ALL_STATS]),
    ("pg_get_aios", &[PG_READ_ALL_STATS]),
];

/// A list that grants all to the owner, and to others what is said.
fn list(kind: SecuredKind, others: impl IntoIterator<Item = (Oid, u64)>) -> Datum {
    let item = |(grantee, privileges)| AclItem { grantee, grantor: BOOTSTRAP_SUPERUSER, privileges };
    let all = std::iter::once((BOOTSTRAP_SUPERUSER, kind.all())).chain(others);
    array(oids::ACLITEM, all.map(|granted| Datum::AclItem(item(granted))).collect())
}

/// Writes the predefined roles and their memberships, but for those that are there.
pub fn add_missing_roles(writer: &mut CatalogWriter<'_>) -> Result<()> {
    let snapshot = writer.txn.catalog_snapshot();
    let known: Vec<Oid> = writer.store.scan(PG_AUTHID, &snapshot)?.iter().map(|row| row.oid("oid")).collect();
    for (oid, name) in PREDEFINED_ROLES.iter().filter(|(oid, _)| !known.contains(oid)) {
        let row = [
            ("oid", Datum::Oid(*oid)),
            ("rolname", Datum::text(name)),
            ("rolinherit", Datum::Bool(true)),
            ("rolconnlimit", Datum::Int4(-1)),
        ];
        writer.insert(PG_AUTHID, &row)?;
    }
    let memberships = writer.store.scan(PG_AUTH_MEMBERS, &snapshot)?;
    for (oid, role, member) in PREDEFINED_MEMBERSHIPS {
        if memberships.iter().any(|row| row.oid("oid") == oid) {
            continue;
        }
        let row = [
            ("oid", Datum::Oid(oid)),
            ("roleid", Datum::Oid(role)),
            ("member", Datum::Oid(member)),
            ("grantor", Datum::Oid(BOOTSTRAP_SUPERUSER)),
            ("inherit_option", Datum::Bool(true)),
            ("set_option", Datum::Bool(true)),
        ];
        writer.insert(PG_AUTH_MEMBERS, &row)?;
    }
    Ok(())
}

/// Writes the grants on the database's own system objects that have none yet, and notes what they began with.
pub fn add_missing_grants(writer: &mut CatalogWriter<'_>) -> Result<()> {
    let snapshot = writer.txn.catalog_snapshot();
    let mut granted: Vec<(Oid, Oid, Datum)> = Vec::new();
    for row in writer.store.scan(PG_CLASS, &snapshot)? {
        let (oid, name) = (row.oid("oid"), row.text("relname").unwrap_or(""));
        if oid >= FIRST_USER_OID || !b"rvm".contains(&row.char("relkind")) || !row.get("relacl").is_null() {
            continue;
        }
        let public = (PUBLIC_ROLE, privilege::SELECT);
        let others = RELATIONS.iter().find(|(known, _)| *known == name).map_or(vec![public], |(_, to)| to.to_vec());
        let grants = list(SecuredKind::Relation, others);
        let mut new = row.clone();
        new.set("relacl", grants.clone());
        writer.update(&row, new.values())?;
        granted.push((PG_CLASS, oid, grants));
    }
    for row in writer.store.scan(PG_PROC, &snapshot)? {
        let (oid, name) = (row.oid("oid"), row.text("proname").unwrap_or(""));
        let Some((_, to)) = FUNCTIONS.iter().find(|(known, _)| *known == name) else { continue };
        if oid >= FIRST_USER_OID || !row.get("proacl").is_null() {
            continue;
        }
        let grants = list(SecuredKind::Function, to.iter().map(|role| (*role, privilege::EXECUTE)));
        let mut new = row.clone();
        new.set("proacl", grants.clone());
        writer.update(&row, new.values())?;
        granted.push((PG_PROC, oid, grants));
    }
    for (class, object, grants) in granted {
        let row = [
            ("objoid", Datum::Oid(object)),
            ("classoid", Datum::Oid(class)),
            ("objsubid", Datum::Int4(0)),
            ("privtype", Datum::Char(b'i')),
            ("initprivs", grants),
        ];
        writer.insert(PG_INIT_PRIVS, &row)?;
    }
    Ok(())
}

/// Writes the rows of pg_shdepend that a database's objects lack. `of_all`: those of what databases share, too.
pub fn add_missing_role_dependencies(writer: &mut CatalogWriter<'_>, of_all: bool) -> Result<()> {
    let snapshot = writer.txn.catalog_snapshot();
    let known: Vec<(Oid, Oid, Oid, i64, Oid)> = writer
        .store
        .scan(PG_SHDEPEND, &snapshot)?
        .iter()
        .map(|row| (row.oid("dbid"), row.oid("classid"), row.oid("objid"), row.int("objsubid"), row.oid("refobjid")))
        .collect();
    for owned in OWNED_TABLES.iter().filter(|owned| of_all || !owned.is_shared) {
        let database = if owned.is_shared { 0 } else { writer.database };
        for row in writer.store.scan(owned.table, &snapshot)? {
            let Some(mut needed) = needed_roles(owned.table, row.values()) else { continue };
            if owned.table == PG_ATTRIBUTE && !needed.roles.is_empty() {
                let owner = writer.relation_owner(needed.object)?;
                needed.roles.retain(|(role, _)| *role != owner);
            }
            for (role, kind) in &needed.roles {
                if known.contains(&(database, needed.class, needed.object, i64::from(needed.part), *role)) {
                    continue;
                }
                let row = [
                    ("dbid", Datum::Oid(database)),
                    ("classid", Datum::Oid(needed.class)),
                    ("objid", Datum::Oid(needed.object)),
                    ("objsubid", Datum::Int4(needed.part)),
                    ("refclassid", Datum::Oid(PG_AUTHID)),
                    ("refobjid", Datum::Oid(*role)),
                    ("deptype", Datum::Char(*kind)),
                ];
                writer.insert(PG_SHDEPEND, &row)?;
            }
        }
    }
    Ok(())
}
