//! lo_import and lo_export: large objects from and into files of the server. Who may call them is a matter of EXECUTE.

use super::{Call, Descriptor, READS, WRITES, create, open, refuse_read_only, session_functions};
use crate::server_files;
use kilndb_base::Result;
use kilndb_base::env::OpenMode;
use kilndb_types::Datum;

/// Bytes read or written at once.
const PIECE: usize = 256 << 10;

session_functions! {
    fn lo_import(call) = import(call);
    fn lo_export(call) = export(call);
}

fn import(call: &mut Call<'_, '_>) -> Result<Datum> {
    refuse_read_only(call, "lo_import()")?;
    let (name, cluster) = (call.text(0), call.host.cluster);
    // A relative path is one in the data folder.
    let file = cluster.env.open(&cluster.data_dir.join(&name), OpenMode::ReadOnly);
    let file = file.map_err(|e| server_files::failed(format!("could not open server file \"{name}\""), &e))?;
    let object = create(call, call.oid(1))?;
    let mut descriptor: Descriptor = open(call, object, WRITES)?;
    let mut piece = vec![0; PIECE];
    loop {
        let got = file.read_at(&mut piece, descriptor.position as u64);
        let got = got.map_err(|e| server_files::failed(format!("could not read server file \"{name}\""), &e))?;
        if got == 0 {
            return Ok(Datum::Oid(object));
        }
        descriptor.write(call, &piece[..got])?;
    }
}

fn export(call: &mut Call<'_, '_>) -> Result<Datum> {
    let (name, cluster) = (call.text(1), call.host.cluster);
    let mut descriptor: Descriptor = open(call, call.oid(0), READS)?;
    let file = cluster.env.open(&cluster.data_dir.join(&name), OpenMode::TruncateForOthers);
    let file = file.map_err(|e| server_files::failed(format!("could not create server file \"{name}\""), &e))?;
    loop {
        let at = descriptor.position as u64;
        let piece = descriptor.read(call, PIECE)?;
        if piece.is_empty() {
            return Ok(Datum::Int4(1));
        }
        let written = file.write_at(&piece, at);
        written.map_err(|e| server_files::failed(format!("could not write server file \"{name}\""), &e))?;
    }
}
