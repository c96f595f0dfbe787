//! A certificate for a temporary server, so that it speaks TLS.
//!
//! 1. Only whoever owns the server's data can read its key.
//!
//! Must not know: experiments, and what a server is.

use rcgen::{CertificateParams, KeyPair};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

/// Puts a new key and a certificate for it into a data folder, under the names that servers look for.
pub(super) fn provide(data: &Path) -> io::Result<()> {
    let key = KeyPair::generate().map_err(io::Error::other)?;
    let params = CertificateParams::new(vec!["localhost".into()]).map_err(io::Error::other)?;
    let certificate = params.self_signed(&key).map_err(io::Error::other)?;
    let owner = std::fs::metadata(data)?;
    for (name, text) in [("server.key", key.serialize_pem()), ("server.crt", certificate.pem())] {
        let path = data.join(name);
        std::fs::write(&path, text)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        chown(&path, Some(owner.uid()), Some(owner.gid()))?;
    }
    Ok(())
}
