//! COPY to and from files of the server, for superusers.

use super::{Input, MadeForm, Output};
use crate::context::SessionContext;
use kilndb_base::env::{File, OpenMode};
use kilndb_base::{Error, Result, sqlstate};
use kilndb_catalog::roles::{PG_READ_SERVER_FILES, PG_WRITE_SERVER_FILES};
use kilndb_context::server_files::failed;
use std::path::Path;
use std::sync::Arc;

/// Bytes read or written at once.
const PIECE: usize = 64 << 10;

/// A file being read.
pub(super) struct FileInput {
    file: Arc<dyn File>,
    name: String,
    offset: u64,
}

impl FileInput {
    pub fn bytes(&self) -> u64 {
        self.file.len().unwrap_or(0)
    }
}

impl Input for FileInput {
    fn read(&mut self, data: &mut Vec<u8>) -> Result<bool> {
        let start = data.len();
        data.resize(start + PIECE, 0);
        let got = self.file.read_at(&mut data[start..], self.offset).map_err(|e| match e.raw_os_error() {
            Some(libc::EISDIR) => Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("\"{}\" is a directory", self.name)),
            _ => failed(format!("could not read from file \"{}\"", self.name), &e),
        })?;
        data.truncate(start + got);
        self.offset += got as u64;
        Ok(got > 0)
    }
}

/// A file being written.
pub(super) struct FileOutput {
    file: Arc<dyn File>,
    name: String,
    offset: u64,
    waiting: Vec<u8>,
}

impl FileOutput {
    pub fn finish(&mut self) -> Result<()> {
        let written = self.file.write_at(&self.waiting, self.offset);
        written.map_err(|e| failed(format!("could not write to file \"{}\"", self.name), &e))?;
        self.offset += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }
}

impl Output for FileOutput {
    fn write(&mut self, data: &[u8]) -> Result<()> {
        self.waiting.extend_from_slice(data);
        if self.waiting.len() >= PIECE { self.finish() } else { Ok(()) }
    }
    fn made_form(&self) -> MadeForm {
        MadeForm::Bytes
    }
}

/// 42501 unless the role in force may read, or write, files of the server.
pub(super) fn refuse_server_file(context: &SessionContext, is_from: bool) -> Result<()> {
    let (direction, role, needed) = match is_from {
        true => ("from", "pg_read_server_files", PG_READ_SERVER_FILES),
        false => ("to", "pg_write_server_files", PG_WRITE_SERVER_FILES),
    };
    if context.owns(needed) {
        return Ok(());
    }
    Err(Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, format!("permission denied to COPY {direction} a file"))
        .with_detail(format!("Only roles with privileges of the \"{role}\" role may COPY {direction} a file."))
        .with_hint("Anyone can COPY to stdout or from stdin. psql's \\copy command also works for anyone."))
}

pub(super) fn open_input(context: &SessionContext, name: &str) -> Result<FileInput> {
    // A relative path is one in the data folder.
    let path = context.cluster.data_dir.join(name);
    let file = context.cluster.env.open(&path, OpenMode::ReadOnly).map_err(|e| {
        failed(format!("could not open file \"{name}\" for reading"), &e).with_hint(
            "COPY FROM instructs the PostgreSQL server process to read a file. You may want a client-side facility such as psql's \\copy.",
        )
    })?;
    let mut input = FileInput { file, name: name.to_string(), offset: 0 };
    // A folder can be opened, but not read.
    input.read(&mut Vec::new())?;
    input.offset = 0;
    Ok(input)
}

pub(super) fn open_output(context: &SessionContext, name: &str) -> Result<FileOutput> {
    let path = Path::new(name);
    if !path.is_absolute() {
        return Err(Error::new(sqlstate::INVALID_NAME, "relative path not allowed for COPY to file"));
    }
    let file = context.cluster.env.open(path, OpenMode::TruncateForOthers).map_err(|e| {
        let error = failed(format!("could not open file \"{name}\" for writing"), &e);
        match e.raw_os_error() {
            Some(libc::ENOENT | libc::EACCES) => error.with_hint(
                "COPY TO instructs the PostgreSQL server process to write a file. You may want a client-side facility such as psql's \\copy.",
            ),
            _ => error,
        }
    })?;
    Ok(FileOutput { file, name: name.to_string(), offset: 0, waiting: Vec::new() })
}
