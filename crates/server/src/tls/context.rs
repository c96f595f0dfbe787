//! What TLS connections need of the server: its certificate and key, whom it believes, versions and algorithms; made of
//! the settings `ssl…` and the files that they name.
//!
//! Invariants
//! 1. A value is whole: every file was there, could be read, and fits the others. What a setting asks for and rustls
//!    has not is an error, whose text is PostgreSQL's where that has one.
//! 2. Files are read here only: a connection opens none.
//!
//! Must not know: sockets, sessions.

use super::certificate::CertificateParts;
use super::cipher_list::{groups_of_list, suites_of_list, tls13_suites};
use super::client_check::ClientCheck;
use kilndb_base::sync::Arc;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_context::settings::ServerSettings;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{PemObject, SectionKind};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The name of PostgreSQL's protocol in TLS.
pub const ALPN_PROTOCOL: &[u8] = b"postgresql";

pub struct TlsContext {
    provider: Arc<CryptoProvider>,
    versions: Vec<&'static SupportedProtocolVersion>,
    /// For the log: the lowest and the highest version.
    pub version_names: (&'static str, &'static str),
    certificate: Arc<dyn ResolvesServerCert>,
    /// See [`kilndb_context::tls_facts::TlsFacts::server_certificate_hash`].
    pub certificate_hash: Option<Arc<[u8]>>,
    prefers_own_ciphers: bool,
    clients: Option<Arc<dyn ClientCertVerifier>>,
    /// For connections that are asked for no certificate: all have the same.
    shared: Option<Arc<ServerConfig>>,
}

/// What one connection needs.
pub struct ConnectionConfig {
    pub config: Arc<ServerConfig>,
    /// None: no certificate is asked for.
    pub client_check: Option<Arc<ClientCheck>>,
}

impl TlsContext {
    /// Reads the files, which are in `data_dir` unless their names say otherwise.
    pub fn load(settings: &ServerSettings, data_dir: &Path) -> Result<TlsContext> {
        refuse_unsupported(settings)?;
        let files = Files { settings, data_dir };
        let (versions, version_names) = versions(settings)?;
        let mut cipher_suites = tls13_suites(settings.get("ssl_tls13_ciphers"))?;
        cipher_suites.extend(suites_of_list(settings.get("ssl_ciphers"))?);
        let provider = Arc::new(CryptoProvider {
            cipher_suites,
            kx_groups: groups_of_list(settings.get("ssl_groups"))?,
            ..ring::default_provider()
        });
        let chain = files.certificate_chain()?;
        let certificate_hash = CertificateParts::of(&chain[0]).and_then(|parts| parts.end_point_hash(&chain[0]));
        let key = provider.key_provider.load_private_key(files.private_key()?).map_err(|e| {
            config_error(format!("could not load private key file \"{}\": {e}", settings.get("ssl_key_file")))
        })?;
        refuse_foreign_key(&chain[0], key.public_key().as_deref())?;
        let mut context = TlsContext {
            clients: files.client_verifier(&provider)?,
            provider,
            versions,
            version_names,
            certificate: Arc::new(SingleCertAndKey::from(CertifiedKey::new(chain, key))),
            certificate_hash: certificate_hash.map(Arc::from),
            prefers_own_ciphers: settings.flag("ssl_prefer_server_ciphers"),
            shared: None,
        };
        let config = context.config_with(WebPkiClientVerifier::no_client_auth())?;
        if context.clients.is_none() {
            context.shared = Some(Arc::new(config));
        }
        Ok(context)
    }

    pub fn connection_config(&self) -> Result<ConnectionConfig> {
        if let Some(shared) = &self.shared {
            return Ok(ConnectionConfig { config: shared.clone(), client_check: None });
        }
        let Some(verifier) = &self.clients else { return Err(Error::internal("the TLS context is incomplete")) };
        let check = Arc::new(ClientCheck::new(verifier.clone()));
        let config = Arc::new(self.config_with(check.clone())?);
        Ok(ConnectionConfig { config, client_check: Some(check) })
    }

    fn config_with(&self, verifier: Arc<dyn ClientCertVerifier>) -> Result<ServerConfig> {
        let builder = ServerConfig::builder_with_provider(self.provider.clone());
        let builder = builder
            .with_protocol_versions(&self.versions)
            .map_err(|e| config_error(format!("could not create SSL context: {e}")))?;
        let mut config = builder.with_client_cert_verifier(verifier).with_cert_resolver(self.certificate.clone());
        config.alpn_protocols = vec![ALPN_PROTOCOL.to_vec()];
        config.ignore_client_order = self.prefers_own_ciphers;
        // As in PostgreSQL: sessions are not resumed.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(config)
    }
}

fn config_error(message: impl Into<String>) -> Error {
    Error::new(sqlstate::CONFIG_FILE_ERROR, message)
}

/// The operating system's words without Rust's additions.
fn os_words(e: &io::Error) -> String {
    let text = e.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_string()
}

fn refuse_unsupported(settings: &ServerSettings) -> Result<()> {
    if !settings.get("ssl_passphrase_command").is_empty() {
        return Err(Error::unsupported("\"ssl_passphrase_command\" is not supported by this server")
            .with_hint("Keep the private key in a file without a passphrase that nobody else can read."));
    }
    if !settings.get("ssl_dh_params_file").is_empty() {
        return Err(Error::unsupported("\"ssl_dh_params_file\" is not supported by this server")
            .with_hint("Keys are exchanged by elliptic curves alone: see \"ssl_groups\"."));
    }
    Ok(())
}

type VersionNames = (&'static str, &'static str);

fn versions(settings: &ServerSettings) -> Result<(Vec<&'static SupportedProtocolVersion>, VersionNames)> {
    let known = [("TLSv1.2", &TLS12), ("TLSv1.3", &TLS13)];
    let place_of = |name: &str, if_empty: usize| match settings.get(name) {
        "" => Ok(if_empty),
        value => known
            .iter()
            .position(|(known, _)| *known == value)
            .ok_or_else(|| config_error(format!("\"{name}\" setting \"{value}\" not supported by this build"))),
    };
    let lowest = place_of("ssl_min_protocol_version", 0)?;
    let highest = place_of("ssl_max_protocol_version", known.len() - 1)?;
    if lowest > highest {
        return Err(config_error("could not set SSL protocol version range")
            .with_detail("\"ssl_min_protocol_version\" cannot be higher than \"ssl_max_protocol_version\"."));
    }
    let names = (known[lowest].0, known[highest].0);
    Ok((known[lowest..=highest].iter().map(|(_, version)| *version).collect(), names))
}

/// The key is that of the certificate.
fn refuse_foreign_key(certificate: &[u8], public_key: Option<&[u8]>) -> Result<()> {
    let of_certificate = CertificateParts::of(certificate).map(|parts| parts.public_key);
    match public_key {
        Some(public_key) if of_certificate.is_some_and(|other| other != public_key) => {
            Err(config_error("check of private key failed: key values mismatch"))
        }
        _ => Ok(()),
    }
}

/// The files that settings name.
struct Files<'a> {
    settings: &'a ServerSettings,
    data_dir: &'a Path,
}

impl Files<'_> {
    /// The name as it was given, and the path; None: there is no name.
    fn path(&self, setting: &str) -> Option<(&str, PathBuf)> {
        let name = self.settings.get(setting);
        (!name.is_empty()).then(|| (name, self.data_dir.join(name)))
    }

    fn certificate_chain(&self) -> Result<Vec<CertificateDer<'static>>> {
        let name = self.settings.get("ssl_cert_file");
        let fail = |why: &str| config_error(format!("could not load server certificate file \"{name}\": {why}"));
        let text = std::fs::read(self.data_dir.join(name)).map_err(|e| fail(&os_words(&e)))?;
        let chain = certificates(&text).map_err(|why| fail(&why))?;
        match chain.first() {
            None => Err(fail("no start line")),
            Some(first) if CertificateParts::of(first).is_none() => Err(fail("not a certificate")),
            Some(_) => Ok(chain),
        }
    }

    fn private_key(&self) -> Result<PrivateKeyDer<'static>> {
        let name = self.settings.get("ssl_key_file");
        let path = self.data_dir.join(name);
        refuse_open_key_file(name, &path)?;
        let fail = |why: &str| config_error(format!("could not load private key file \"{name}\": {why}"));
        let text = std::fs::read(&path).map_err(|e| fail(&os_words(&e)))?;
        PrivateKeyDer::from_pem_slice(&text).map_err(|_| {
            let words = String::from_utf8_lossy(&text);
            if words.contains("ENCRYPTED") {
                fail("it has a passphrase")
                    .with_hint("Keep the private key in a file without a passphrase that nobody else can read.")
            } else {
                fail("no start line")
            }
        })
    }

    /// Who verifies clients' certificates; None: they are not asked for.
    fn client_verifier(&self, provider: &Arc<CryptoProvider>) -> Result<Option<Arc<dyn ClientCertVerifier>>> {
        let Some((name, path)) = self.path("ssl_ca_file") else { return Ok(None) };
        let fail = |why: &str| config_error(format!("could not load root certificate file \"{name}\": {why}"));
        let text = std::fs::read(path).map_err(|e| fail(&os_words(&e)))?;
        let mut roots = RootCertStore::empty();
        for root in certificates(&text).map_err(|why| fail(&why))? {
            roots.add(root).map_err(|e| fail(&e.to_string()))?;
        }
        if roots.is_empty() {
            return Err(fail("no certificate or crl found"));
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let builder = builder.allow_unauthenticated().enforce_revocation_expiration();
        let built = builder.with_crls(self.revocation_lists()?).build();
        built.map(Some).map_err(|e| self.failed_revocation_lists(&e.to_string()))
    }

    fn revocation_lists(&self) -> Result<Vec<CertificateRevocationListDer<'static>>> {
        let fail = |why: &str| self.failed_revocation_lists(why);
        let mut paths: Vec<PathBuf> = self.path("ssl_crl_file").into_iter().map(|(_, path)| path).collect();
        if let Some((_, folder)) = self.path("ssl_crl_dir") {
            for entry in std::fs::read_dir(folder).map_err(|e| fail(&os_words(&e)))? {
                let path = entry.map_err(|e| fail(&os_words(&e)))?.path();
                paths.extend(path.is_file().then_some(path));
            }
        }
        let mut lists = Vec::new();
        for path in paths {
            let text = std::fs::read(path).map_err(|e| fail(&os_words(&e)))?;
            let found: std::result::Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&text).collect();
            let found = found.map_err(|e| fail(&e.to_string()))?;
            if found.is_empty() {
                return Err(fail("no certificate or crl found"));
            }
            lists.extend(found);
        }
        Ok(lists)
    }

    fn failed_revocation_lists(&self, why: &str) -> Error {
        let (file, folder) = (self.settings.get("ssl_crl_file"), self.settings.get("ssl_crl_dir"));
        config_error(match (file, folder) {
            (file, "") => format!("could not load SSL certificate revocation list file \"{file}\": {why}"),
            ("", folder) => format!("could not load SSL certificate revocation list directory \"{folder}\": {why}"),
            _ => format!(
                "could not load SSL certificate revocation list file \"{file}\" or directory \"{folder}\": {why}"
            ),
        })
    }
}

fn certificates(pem: &[u8]) -> std::result::Result<Vec<CertificateDer<'static>>, String> {
    let mut found = Vec::new();
    // OpenSSL marks trust in certificates of its own kind, which begin as others do; other sections may be between.
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(pem) {
        let (kind, der) = section.map_err(|e| e.to_string())?;
        if kind == SectionKind::Certificate {
            found.push(CertificateDer::from(der));
        }
    }
    Ok(found)
}

/// A key that others may read is no secret.
fn refuse_open_key_file(name: &str, path: &Path) -> Result<()> {
    let metadata = std::fs::metadata(path).map_err(|e| {
        let state = match e.kind() {
            io::ErrorKind::NotFound => sqlstate::UNDEFINED_FILE,
            io::ErrorKind::PermissionDenied => sqlstate::INSUFFICIENT_PRIVILEGE,
            _ => sqlstate::IO_ERROR,
        };
        Error::new(state, format!("could not access private key file \"{name}\": {}", os_words(&e)))
    })?;
    if !metadata.is_file() {
        return Err(config_error(format!("private key file \"{name}\" is not a regular file")));
    }
    // SAFETY: a system call without conditions.
    let own = unsafe { libc::geteuid() };
    if ![own, 0].contains(&metadata.uid()) {
        let message = format!("private key file \"{name}\" must be owned by the database user or root");
        return Err(config_error(message));
    }
    if is_open(metadata.mode(), metadata.uid(), own) {
        return Err(config_error(format!("private key file \"{name}\" has group or world access")).with_detail(
            "File must have permissions u=rw (0600) or less if owned by the database user, or permissions u=rw,g=r \
             (0640) or less if owned by root.",
        ));
    }
    Ok(())
}

/// `own`: who the server runs as. For root, root's rule holds: its group is root's.
fn is_open(mode: u32, owner: u32, own: u32) -> bool {
    let forbidden = if owner == 0 { 0o037 } else { 0o077 };
    debug_assert!(owner == own || owner == 0);
    mode & forbidden != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_for_the_owner_or_for_a_group_of_root() {
        assert!(!is_open(0o600, 1000, 1000) && is_open(0o640, 1000, 1000) && is_open(0o604, 1000, 1000));
        assert!(!is_open(0o640, 0, 1000) && is_open(0o660, 0, 1000) && is_open(0o644, 0, 0) && is_open(0o650, 0, 0));
    }

    fn settings(values: &[(&str, &str)]) -> ServerSettings {
        let mut settings = ServerSettings::default();
        values.iter().for_each(|(name, value)| settings.set(name, value, "test").unwrap());
        settings
    }

    #[test]
    fn what_rustls_cannot_follow_is_refused_by_name() {
        let load = |name, value| TlsContext::load(&settings(&[(name, value)]), Path::new("/nonexistent")).err();
        let text = |name, value| load(name, value).map(|e| e.message().to_string()).unwrap_or_default();
        assert_eq!(
            text("ssl_min_protocol_version", "tlsv1.1"),
            "\"ssl_min_protocol_version\" setting \"TLSv1.1\" not supported by this build"
        );
        assert!(text("ssl_passphrase_command", "cat secret").contains("ssl_passphrase_command"));
        assert!(text("ssl_dh_params_file", "dh.pem").contains("ssl_dh_params_file"));
        let missing = "could not load server certificate file \"server.crt\": No such file or directory";
        assert_eq!(text("ssl_max_protocol_version", ""), missing);
        let range = settings(&[("ssl_min_protocol_version", "TLSv1.3"), ("ssl_max_protocol_version", "TLSv1.2")]);
        let refused = TlsContext::load(&range, Path::new("/nonexistent")).err().unwrap();
        assert_eq!(refused.message(), "could not set SSL protocol version range");
    }
}
