//! What a certificate (X.509, DER) says that rustls does not tell: names, serial number, public key, and the hash of its
//! signature.
//!
//! Invariants
//! 1. Nothing here trusts what it reads: whatever is not as expected is None, never a panic.
//!
//! Must not know: whether a certificate is valid.

use kilndb_context::tls_facts::ClientCertificate;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const INTEGER: u8 = 0x02;
const OBJECT_IDENTIFIER: u8 = 0x06;
const VERSION: u8 = 0xa0;

/// What is left to be read of a DER text.
struct Der<'a>(&'a [u8]);

/// One value of it.
struct Element<'a> {
    tag: u8,
    content: &'a [u8],
    /// With its tag and length.
    whole: &'a [u8],
}

impl<'a> Der<'a> {
    fn next(&mut self) -> Option<Element<'a>> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        // Tags of several bytes and lengths that are not told do not occur in certificates.
        if tag & 0x1f == 0x1f || first == 0x80 || first > 0x84 {
            return None;
        }
        let (length, rest) = if first < 0x80 {
            (usize::from(first), rest)
        } else {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        };
        let (content, rest) = rest.split_at_checked(length)?;
        let whole = &self.0[..self.0.len() - rest.len()];
        self.0 = rest;
        Some(Element { tag, content, whole })
    }
    fn expect(&mut self, tag: u8) -> Option<Element<'a>> {
        self.next().filter(|element| element.tag == tag)
    }
}

/// The parts of a certificate that somebody here asks for.
pub struct CertificateParts<'a> {
    serial: &'a [u8],
    issuer: &'a [u8],
    subject: &'a [u8],
    /// The SubjectPublicKeyInfo, whole.
    pub public_key: &'a [u8],
    /// The content of the AlgorithmIdentifier of the signature.
    signature_algorithm: &'a [u8],
}

impl<'a> CertificateParts<'a> {
    pub fn of(der: &'a [u8]) -> Option<CertificateParts<'a>> {
        let mut certificate = Der(Der(der).expect(SEQUENCE)?.content);
        let mut fields = Der(certificate.expect(SEQUENCE)?.content);
        let signature_algorithm = certificate.expect(SEQUENCE)?.content;
        let mut serial = fields.next()?;
        if serial.tag == VERSION {
            serial = fields.next()?;
        }
        let serial = Some(serial).filter(|element| element.tag == INTEGER)?.content;
        let _algorithm = fields.expect(SEQUENCE)?;
        let issuer = fields.expect(SEQUENCE)?.content;
        let _validity = fields.expect(SEQUENCE)?;
        let subject = fields.expect(SEQUENCE)?.content;
        let public_key = fields.expect(SEQUENCE)?.whole;
        Some(CertificateParts { serial, issuer, subject, public_key, signature_algorithm })
    }

    /// It says of itself that it has no other issuer.
    pub fn is_self_issued(&self) -> bool {
        self.issuer == self.subject
    }

    /// None: it has names that cannot be told.
    pub fn facts(&self) -> Option<ClientCertificate> {
        let subject = name_parts(self.subject)?;
        let common_name = subject.iter().find(|part| part.object == COMMON_NAME).map(|part| part.text());
        Some(ClientCertificate {
            common_name,
            distinguished_name: as_rfc_2253(&subject),
            subject: with_slashes(&subject),
            serial: decimal(self.serial),
            issuer: with_slashes(&name_parts(self.issuer)?),
        })
    }

    /// RFC 5929: the hash of the certificate for `tls-server-end-point`, by the hash function of its signature, or by
    /// SHA-256 if that one is MD5 or SHA-1. None: the signature has none of its own (Ed25519).
    pub fn end_point_hash(&self, der: &[u8]) -> Option<Vec<u8>> {
        let mut algorithm = Der(self.signature_algorithm);
        let object = object_name(algorithm.expect(OBJECT_IDENTIFIER)?.content)?;
        let hash = match object.as_str() {
            RSA_PSS => hash_of_pss(algorithm.next()?.content)?,
            object => SIGNATURE_HASHES.iter().find(|(known, _)| *known == object)?.1,
        };
        Some(match hash {
            SignatureHash::Sha224 => Sha224::digest(der).to_vec(),
            SignatureHash::Md5 | SignatureHash::Sha1 | SignatureHash::Sha256 => Sha256::digest(der).to_vec(),
            SignatureHash::Sha384 => Sha384::digest(der).to_vec(),
            SignatureHash::Sha512 => Sha512::digest(der).to_vec(),
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SignatureHash {
    Md5,
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

const RSA_PSS: &str = "1.2.840.113549.1.1.10";
const SIGNATURE_HASHES: [(&str, SignatureHash); 14] = [
    // RSA.
    ("1.2.840.113549.1.1.4", SignatureHash::Md5),
    ("1.2.840.113549.1.1.5", SignatureHash::Sha1),
    ("1.2.840.113549.1.1.14", SignatureHash::Sha224),
    ("1.2.840.113549.1.1.11", SignatureHash::Sha256),
    ("1.2.840.113549.1.1.12", SignatureHash::Sha384),
    ("1.2.840.113549.1.1.13", SignatureHash::Sha512),
    // ECDSA.
    ("1.2.840.10045.4.1", SignatureHash::Sha1),
    ("1.2.840.10045.4.3.1", SignatureHash::Sha224),
    ("1.2.840.10045.4.3.2", SignatureHash::Sha256),
    ("1.2.840.10045.4.3.3", SignatureHash::Sha384),
    ("1.2.840.10045.4.3.4", SignatureHash::Sha512),
    // DSA.
    ("1.2.840.10040.4.3", SignatureHash::Sha1),
    ("2.16.840.1.101.3.4.3.1", SignatureHash::Sha224),
    ("2.16.840.1.101.3.4.3.2", SignatureHash::Sha256),
];
/// Hash functions by themselves, as parameters of RSASSA-PSS name them.
const HASHES: [(&str, SignatureHash); 5] = [
    ("1.3.14.3.2.26", SignatureHash::Sha1),
    ("2.16.840.1.101.3.4.2.4", SignatureHash::Sha224),
    ("2.16.840.1.101.3.4.2.1", SignatureHash::Sha256),
    ("2.16.840.1.101.3.4.2.2", SignatureHash::Sha384),
    ("2.16.840.1.101.3.4.2.3", SignatureHash::Sha512),
];

/// The hash function of RSASSA-PSS-params; SHA-1 is its default.
fn hash_of_pss(parameters: &[u8]) -> Option<SignatureHash> {
    const HASH_ALGORITHM: u8 = 0xa0;
    let Some(first) = Der(parameters).next().filter(|element| element.tag == HASH_ALGORITHM) else {
        return Some(SignatureHash::Sha1);
    };
    let identifier = Der(first.content).expect(SEQUENCE)?.content;
    let object = object_name(Der(identifier).expect(OBJECT_IDENTIFIER)?.content)?;
    HASHES.iter().find(|(known, _)| *known == object).map(|(_, hash)| *hash)
}

/// `2.5.4.3`
fn object_name(content: &[u8]) -> Option<String> {
    let mut arcs: Vec<u64> = Vec::new();
    let mut arc: u64 = 0;
    for byte in content {
        arc = arc.checked_mul(128)? + u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            if arcs.is_empty() {
                let first = (arc / 40).min(2);
                arcs.extend([first, arc - 40 * first]);
            } else {
                arcs.push(arc);
            }
            arc = 0;
        }
    }
    let words: Vec<String> = arcs.iter().map(u64::to_string).collect();
    (!words.is_empty() && content.last().is_some_and(|byte| byte & 0x80 == 0)).then(|| words.join("."))
}

/// A big-endian integer in two's complement.
fn decimal(content: &[u8]) -> String {
    let is_negative = content.first().is_some_and(|byte| byte & 0x80 != 0);
    let mut magnitude = content.to_vec();
    if is_negative {
        magnitude.iter_mut().for_each(|byte| *byte = !*byte);
        for byte in magnitude.iter_mut().rev() {
            let (sum, carries) = byte.overflowing_add(1);
            *byte = sum;
            if !carries {
                break;
            }
        }
    }
    // Groups of nine digits, the lowest first.
    const GROUP: u64 = 1_000_000_000;
    let mut groups: Vec<u64> = vec![0];
    for byte in magnitude {
        let mut carried = u64::from(byte);
        for group in &mut groups {
            let sum = *group * 256 + carried;
            (*group, carried) = (sum % GROUP, sum / GROUP);
        }
        if carried > 0 {
            groups.push(carried);
        }
    }
    let mut text = if is_negative { "-".to_string() } else { String::new() };
    for (index, group) in groups.iter().rev().enumerate() {
        text += &if index == 0 { group.to_string() } else { format!("{group:09}") };
    }
    text
}

// ---- names

const COMMON_NAME: &str = "2.5.4.3";
/// Attributes of names as OpenSSL abbreviates them.
const ATTRIBUTES: [(&str, &str); 17] = [
    (COMMON_NAME, "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "title"),
    ("2.5.4.17", "postalCode"),
    ("2.5.4.41", "name"),
    ("2.5.4.42", "GN"),
    ("2.5.4.43", "initials"),
    ("2.5.4.46", "dnQualifier"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
];
const EMAIL_ADDRESS: &str = "1.2.840.113549.1.9.1";

/// One attribute of a distinguished name.
struct NamePart<'a> {
    object: String,
    tag: u8,
    value: &'a [u8],
    /// With its tag and length.
    whole: &'a [u8],
    /// It is not the first of its set.
    continues_set: bool,
}

fn name_parts(name: &[u8]) -> Option<Vec<NamePart<'_>>> {
    let mut parts = Vec::new();
    let mut sets = Der(name);
    while !sets.0.is_empty() {
        let mut set = Der(sets.expect(SET)?.content);
        let mut continues_set = false;
        while !set.0.is_empty() {
            let mut pair = Der(set.expect(SEQUENCE)?.content);
            let object = object_name(pair.expect(OBJECT_IDENTIFIER)?.content)?;
            let value = pair.next()?;
            let (tag, whole, value) = (value.tag, value.whole, value.content);
            parts.push(NamePart { object, tag, value, whole, continues_set });
            continues_set = true;
        }
    }
    Some(parts)
}

impl NamePart<'_> {
    fn attribute(&self) -> Option<&'static str> {
        if self.object == EMAIL_ADDRESS {
            return Some("emailAddress");
        }
        ATTRIBUTES.iter().find(|(object, _)| *object == self.object).map(|(_, name)| *name)
    }
    fn text(&self) -> String {
        let units = |width: usize| self.value.chunks(width).map(|c| c.iter().fold(0, |n, b| n << 8 | u32::from(*b)));
        match self.tag {
            // BMPString and UniversalString.
            0x1e => String::from_utf16_lossy(&units(2).map(|unit| unit as u16).collect::<Vec<_>>()),
            0x1c => units(4).map(|unit| char::from_u32(unit).unwrap_or('\u{fffd}')).collect(),
            // TeletexString: Latin-1 in practice.
            0x14 => self.value.iter().map(|byte| char::from(*byte)).collect(),
            _ => String::from_utf8_lossy(self.value).into_owned(),
        }
    }
}

/// Puts backslashes before what would be taken for the end of a value, as RFC 2253 does.
fn escaped(text: &str, is_ascii_only: bool) -> String {
    let last = text.chars().count().saturating_sub(1);
    let mut escaped = String::new();
    for (index, c) in text.chars().enumerate() {
        let is_at_end = c == ' ' && (index == 0 || index == last);
        if ",+\"\\<>;".contains(c) || is_at_end || (c == '#' && index == 0) {
            escaped.extend(['\\', c]);
        } else if c.is_ascii_control() || (is_ascii_only && !c.is_ascii()) {
            let mut bytes = [0; 4];
            escaped.extend(c.encode_utf8(&mut bytes).bytes().map(|byte| format!("\\{byte:02X}")));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

fn as_rfc_2253(parts: &[NamePart<'_>]) -> String {
    let mut text = String::new();
    for (index, part) in parts.iter().enumerate().rev() {
        text += &match part.attribute() {
            Some(name) => format!("{name}={}", escaped(&part.text(), true)),
            None => {
                let bytes: String = part.whole.iter().map(|byte| format!("{byte:02X}")).collect();
                format!("{}=#{bytes}", part.object)
            }
        };
        if index > 0 {
            text.push(if part.continues_set { '+' } else { ',' });
        }
    }
    text
}

fn with_slashes(parts: &[NamePart<'_>]) -> String {
    let one =
        |part: &NamePart<'_>| format!("/{}={}", part.attribute().unwrap_or(&part.object), escaped(&part.text(), false));
    parts.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};

    fn certificate(algorithm: &'static rcgen::SignatureAlgorithm) -> Vec<u8> {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CountryName, "SE");
        params.distinguished_name.push(DnType::OrganizationName, "Ovens, Kilns + \"Sons\"");
        params.distinguished_name.push(DnType::CommonName, "Åke #1 ");
        params.serial_number = Some(vec![0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x07].into());
        let key = KeyPair::generate_for(algorithm).unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn names_and_numbers_are_told() {
        let der = certificate(&PKCS_ECDSA_P256_SHA256);
        let facts = CertificateParts::of(&der).unwrap().facts().unwrap();
        assert_eq!(facts.common_name.as_deref(), Some("Åke #1 "));
        assert_eq!(facts.distinguished_name, "CN=\\C3\\85ke #1\\ ,O=Ovens\\, Kilns \\+ \\\"Sons\\\",C=SE");
        assert_eq!(facts.subject, "/C=SE/O=Ovens\\, Kilns \\+ \\\"Sons\\\"/CN=Åke #1\\ ");
        assert_eq!((facts.issuer, facts.serial.as_str()), (facts.subject, "18446744073709551623"));
    }

    #[test]
    fn the_hash_is_that_of_the_signature() {
        let hash = |der: &[u8]| CertificateParts::of(der).unwrap().end_point_hash(der);
        let der = certificate(&PKCS_ECDSA_P256_SHA256);
        assert_eq!(hash(&der), Some(Sha256::digest(&der).to_vec()));
        let der = certificate(&PKCS_ECDSA_P384_SHA384);
        assert_eq!(hash(&der), Some(Sha384::digest(&der).to_vec()));
        assert_eq!(hash(&certificate(&PKCS_ED25519)), None);
    }

    #[test]
    fn parameters_of_pss_name_the_hash() {
        // [0] { SEQUENCE { OBJECT IDENTIFIER sha512 } }
        let object = [0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x03];
        let parameters = [&[0xa0, 0x0d, 0x30, 0x0b][..], &object].concat();
        assert_eq!(hash_of_pss(&parameters), Some(SignatureHash::Sha512));
        assert_eq!(hash_of_pss(&[]), Some(SignatureHash::Sha1));
        assert_eq!(hash_of_pss(&[0xa0, 0x02, 0x30, 0x00]), None);
    }

    #[test]
    fn integers_of_any_length() {
        assert_eq!(decimal(&[0]), "0");
        assert_eq!(decimal(&[0xff]), "-1");
        assert_eq!(decimal(&[0xff, 0x00]), "-256");
        assert_eq!(decimal(&[0x00, 0xff, 0xff, 0xff, 0xff]), "4294967295");
    }

    #[test]
    fn what_is_cut_short_is_nothing() {
        let der = certificate(&PKCS_ECDSA_P256_SHA256);
        for length in 0..der.len() {
            assert!(CertificateParts::of(&der[..length]).is_none(), "{length}");
        }
    }
}
