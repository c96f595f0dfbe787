//! Catalog changes of commit records, in words, for `kilndb inspect log`.
//!
//! Must not know: sessions.

use kilndb_catalog::logged_changes::decode;

/// What the bytes say has changed.
pub fn in_words(bytes: &[u8]) -> String {
    let Some((database, changes)) = decode(bytes) else { return format!("{} damaged bytes", bytes.len()) };
    let mut shown = format!("database {database}");
    if changes.everything {
        shown += ", everything";
    }
    if changes.foreign_keys {
        shown += ", foreign keys";
    }
    for (what, oids) in [("objects", changes.objects), ("indexes", changes.indexes), ("partitions of", changes.maps)] {
        let mut oids: Vec<_> = oids.into_iter().collect();
        oids.sort_unstable();
        if !oids.is_empty() {
            let oids: Vec<String> = oids.iter().map(u32::to_string).collect();
            shown += &format!(", {what} {}", oids.join(" "));
        }
    }
    let mut names: Vec<_> = changes.names.into_iter().collect();
    names.sort_unstable();
    for (schema, name) in names {
        shown += &format!(", name \"{name}\" in schema {schema}");
    }
    shown
}
