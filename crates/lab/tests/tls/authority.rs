//! Authorities that issue certificates for tests.

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber,
    date_time_ymd,
};
use std::path::Path;

pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its key, as PEM.
pub struct Issued {
    pub certificate: String,
    pub key: String,
}

/// What a certificate is for.
pub struct Purpose<'a> {
    pub name: &'a str,
    pub serial: u64,
    pub is_expired: bool,
}

impl Authority {
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        Authority { issuer: CertifiedIssuer::self_signed(params, key).expect("a certificate") }
    }

    pub fn pem(&self) -> String {
        self.issuer.pem()
    }
    pub fn der(&self) -> Vec<u8> {
        self.issuer.der().to_vec()
    }

    /// Its own certificate, as somebody would show it.
    pub fn own(&self) -> Issued {
        Issued { certificate: self.pem(), key: self.issuer.key().serialize_pem() }
    }
    pub fn server(&self, name: &str, serial: u64) -> Issued {
        let names = vec![name.to_string()];
        self.issue(names, &Purpose { name, serial, is_expired: false }, ExtendedKeyUsagePurpose::ServerAuth)
    }
    pub fn client(&self, purpose: &Purpose<'_>) -> Issued {
        self.issue(Vec::new(), purpose, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn issue(&self, names: Vec<String>, purpose: &Purpose<'_>, usage: ExtendedKeyUsagePurpose) -> Issued {
        let mut params = CertificateParams::new(names).expect("names");
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Kilns");
        params.distinguished_name.push(DnType::CommonName, purpose.name);
        params.serial_number = Some(SerialNumber::from(purpose.serial));
        params.extended_key_usages = vec![usage];
        if purpose.is_expired {
            (params.not_before, params.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1));
        }
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Issued { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// A list of revoked certificates, as PEM.
    pub fn revocation_list(&self, serials: &[u64]) -> String {
        let revoked = serials.iter().map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(2099, 1, 1),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).expect("a list").pem().expect("a list")
    }
}

impl Issued {
    /// Writes the certificate and, for its owner alone, the key.
    pub fn write(&self, certificate: &Path, key: &Path) {
        std::fs::write(certificate, &self.certificate).expect("a folder for certificates");
        write_secret(key, &self.key);
    }
}

pub fn write_secret(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).expect("a folder for keys");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("permissions can be set");
}
