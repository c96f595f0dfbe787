//! The offline verifier.
//!
//! Must not know: SQL.

use crate::control;
use crate::directory::extent_pages;
use crate::page::{self, PAGE};
use kilndb_base::Result;
use kilndb_base::env::{Env, Open};
use std::path::PathBuf;
use std::sync::Arc;

/// Verifies every structure of a cluster that no server has open; returns what is wrong.
pub fn check(env: Arc<dyn Env>, data_dir: PathBuf) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let Some(c) = control::read(&env, &data_dir)? else { return Ok(vec!["there is no cluster here".into()]) };
    let file = env.open(&data_dir.join("pages"), Open::Existing)?;
    let mut bytes = Box::new([0u8; PAGE]);
    for r in &c.relations {
        for (index, start) in r.extents.iter().enumerate() {
            for pid in *start..*start + extent_pages(index) {
                let got = file.read_at(&mut bytes[..], u64::from(pid) * PAGE as u64)?;
                bytes[got..].fill(0);
                if !page::is_intact(&bytes) {
                    wrong.push(format!("page {pid} of storage relation {}: wrong checksum", r.id));
                }
            }
        }
    }
    Ok(wrong)
}
