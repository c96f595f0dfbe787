//! Settings that name algorithms as OpenSSL does, turned into rustls' suites and groups.
//!
//! Invariants
//! 1. A word that is not understood is refused: no list means less, or more, than it says.
//!
//! Must not know: connections.

use kilndb_base::{Error, Result, sqlstate};
use rustls::crypto::{SupportedKxGroup, ring};
use rustls::{CipherSuite, NamedGroup, SupportedCipherSuite};

/// A cipher suite's name in OpenSSL, the bits of its key, and what words of a cipher list it belongs to.
struct SuiteName {
    suite: CipherSuite,
    name: &'static str,
    bits: i32,
    groups: &'static [&'static str],
}

const NO_GROUPS: &[&str] = &[];
const SUITES: [SuiteName; 9] = [
    suite(CipherSuite::TLS13_AES_256_GCM_SHA384, "TLS_AES_256_GCM_SHA384", 256, NO_GROUPS),
    suite(CipherSuite::TLS13_CHACHA20_POLY1305_SHA256, "TLS_CHACHA20_POLY1305_SHA256", 256, NO_GROUPS),
    suite(CipherSuite::TLS13_AES_128_GCM_SHA256, "TLS_AES_128_GCM_SHA256", 128, NO_GROUPS),
    suite(
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        256,
        &["ECDSA", "aECDSA", "AES256", "AES", "AESGCM", "SHA384"],
    ),
    suite(
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        "ECDHE-RSA-AES256-GCM-SHA384",
        256,
        &["aRSA", "RSA", "AES256", "AES", "AESGCM", "SHA384"],
    ),
    suite(
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        256,
        &["ECDSA", "aECDSA", "CHACHA20"],
    ),
    suite(
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        "ECDHE-RSA-CHACHA20-POLY1305",
        256,
        &["aRSA", "RSA", "CHACHA20"],
    ),
    suite(
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        128,
        &["ECDSA", "aECDSA", "AES128", "AES", "AESGCM", "SHA256"],
    ),
    suite(
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        "ECDHE-RSA-AES128-GCM-SHA256",
        128,
        &["aRSA", "RSA", "AES128", "AES", "AESGCM", "SHA256"],
    ),
];
/// Words for all suites of TLS 1.2 that rustls has: forward secrecy, and no weak ones among them.
const ALL_SUITES: &[&str] =
    &["ALL", "DEFAULT", "HIGH", "TLSv1.2", "ECDHE", "kECDHE", "EECDH", "kEECDH", "ECDH", "FIPS"];
/// Words for suites that rustls has none of. To leave them out, or to put them last, changes nothing.
const NO_SUITES: &[&str] = &[
    "3DES",
    "ADH",
    "AECDH",
    "AESCCM",
    "AESCCM8",
    "ARIA",
    "ARIA128",
    "ARIA256",
    "ARIAGCM",
    "aDSS",
    "aNULL",
    "aPSK",
    "aSRP",
    "CAMELLIA",
    "CAMELLIA128",
    "CAMELLIA256",
    "CBC",
    "COMPLEMENTOFDEFAULT",
    "DES",
    "DH",
    "DHE",
    "DSS",
    "EDH",
    "eNULL",
    "EXP",
    "EXPORT",
    "IDEA",
    "kDHE",
    "kDHEPSK",
    "kECDHEPSK",
    "kEDH",
    "kPSK",
    "kRSA",
    "kRSAPSK",
    "kSRP",
    "LOW",
    "MD5",
    "MEDIUM",
    "NULL",
    "PSK",
    "RC2",
    "RC4",
    "SEED",
    "SHA",
    "SHA1",
    "SRP",
    "SSLv3",
    "TLSv1",
    "TLSv1.0",
];

const fn suite(suite: CipherSuite, name: &'static str, bits: i32, groups: &'static [&'static str]) -> SuiteName {
    SuiteName { suite, name, bits, groups }
}

/// OpenSSL's name of a suite, and the bits of its key.
pub fn name_of(suite: CipherSuite) -> (&'static str, i32) {
    SUITES.iter().find(|known| known.suite == suite).map_or(("unknown", 0), |known| (known.name, known.bits))
}

fn config_error(message: impl Into<String>) -> Error {
    Error::new(sqlstate::CONFIG_FILE_ERROR, message)
}

fn is_tls13(known: &SuiteName) -> bool {
    known.name.starts_with("TLS_")
}

fn supported(suite: CipherSuite) -> Option<SupportedCipherSuite> {
    ring::ALL_CIPHER_SUITES.iter().find(|known| known.suite() == suite).copied()
}

/// Indexes of the suites of TLS 1.2 that a word stands for; None: the word is not known.
fn suites_of_word(word: &str) -> Option<Vec<usize>> {
    let of = |is_in: &dyn Fn(&SuiteName) -> bool| {
        let all = SUITES.iter().enumerate().filter(|(_, known)| !is_tls13(known));
        all.filter(|(_, known)| is_in(known)).map(|(index, _)| index).collect::<Vec<usize>>()
    };
    if ALL_SUITES.contains(&word) {
        return Some(of(&|_| true));
    }
    let found = of(&|known| known.name == word || known.groups.contains(&word));
    // A name that OpenSSL has and rustls has not: `DHE-RSA-AES256-GCM-SHA384`.
    let is_other_name =
        || word.contains('-') && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '-');
    (!found.is_empty() || NO_SUITES.contains(&word) || is_other_name()).then_some(found)
}

/// `ssl_ciphers`: the suites of TLS 1.2, in the order that an OpenSSL cipher list gives them.
pub fn suites_of_list(list: &str) -> Result<Vec<SupportedCipherSuite>> {
    let mut chosen: Vec<usize> = Vec::new();
    let mut banned: Vec<usize> = Vec::new();
    for item in list.split([':', ',', ' ']).filter(|item| !item.is_empty()) {
        // What rustls has is above all but the highest levels.
        if item == "@STRENGTH" || ["@SECLEVEL=0", "@SECLEVEL=1", "@SECLEVEL=2"].contains(&item) {
            continue;
        }
        let (action, words) = match item.split_at(1) {
            (action @ ("!" | "-" | "+"), words) => (action, words),
            _ => ("", item),
        };
        let mut named: Option<Vec<usize>> = None;
        for word in words.split('+') {
            let found = suites_of_word(word).ok_or_else(|| {
                Error::unsupported(format!("\"{item}\" in \"ssl_ciphers\" is not supported by this server"))
            })?;
            named = Some(match named {
                Some(before) => before.into_iter().filter(|index| found.contains(index)).collect(),
                None => found,
            });
        }
        let named = named.unwrap_or_default();
        let was_there: Vec<usize> = chosen.iter().copied().filter(|index| named.contains(index)).collect();
        match action {
            "" => {
                let new = named.into_iter().filter(|index| !was_there.contains(index) && !banned.contains(index));
                chosen.extend(new);
                continue;
            }
            "!" => banned.extend(&named),
            _ => {}
        }
        chosen.retain(|index| !was_there.contains(index));
        if action == "+" {
            chosen.extend(was_there);
        }
    }
    let suites: Vec<SupportedCipherSuite> =
        chosen.into_iter().filter_map(|index| supported(SUITES[index].suite)).collect();
    if suites.is_empty() {
        return Err(config_error("could not set the TLSv1.2 cipher list (no valid ciphers available)"));
    }
    Ok(suites)
}

/// `ssl_tls13_ciphers`: names; none of them is all.
pub fn tls13_suites(list: &str) -> Result<Vec<SupportedCipherSuite>> {
    let names: Vec<&str> = list.split(':').filter(|name| !name.is_empty()).collect();
    let of_tls13 = || SUITES.iter().filter(|known| is_tls13(known));
    if names.is_empty() {
        return Ok(of_tls13().filter_map(|known| supported(known.suite)).collect());
    }
    let one = |name: &&str| of_tls13().find(|known| known.name == *name).and_then(|known| supported(known.suite));
    let found: Option<Vec<SupportedCipherSuite>> = names.iter().map(one).collect();
    found.ok_or_else(|| config_error("could not set the TLSv1.3 cipher suites (no valid ciphers available)"))
}

/// `ssl_groups`: the groups for exchanging keys, the preferred one first.
pub fn groups_of_list(list: &str) -> Result<Vec<&'static dyn SupportedKxGroup>> {
    let group = |name: &str| {
        let named = match name.to_ascii_lowercase().as_str() {
            "x25519" => NamedGroup::X25519,
            "prime256v1" | "secp256r1" | "p-256" => NamedGroup::secp256r1,
            "secp384r1" | "p-384" => NamedGroup::secp384r1,
            _ => return None,
        };
        ring::ALL_KX_GROUPS.iter().find(|known| known.name() == named).copied()
    };
    let names = list.split(':').filter(|name| !name.is_empty());
    let found: Option<Vec<&'static dyn SupportedKxGroup>> = names.map(group).collect();
    found.filter(|groups| !groups.is_empty()).ok_or_else(|| {
        config_error("could not set group names specified in ssl_groups: No valid groups found").with_hint(
            "Ensure that each group name is spelled correctly: X25519, prime256v1 and secp384r1 are supported.",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Vec<&'static str> {
        suites_of_list(list).unwrap().iter().map(|suite| name_of(suite.suite()).0).collect()
    }

    #[test]
    fn lists_are_read_as_openssl_reads_them() {
        assert_eq!(names("HIGH:MEDIUM:+3DES:!aNULL").len(), 6);
        assert_eq!(names("ECDHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES256-GCM-SHA384"), ["ECDHE-RSA-AES128-GCM-SHA256"]);
        assert_eq!(names("ECDHE+AESGCM:!ECDSA"), ["ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES128-GCM-SHA256"]);
        assert_eq!(names("HIGH:-aRSA:+AES256").last(), Some(&"ECDHE-ECDSA-AES256-GCM-SHA384"));
        assert_eq!(names("!AES:ALL"), ["ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-CHACHA20-POLY1305"]);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        assert_eq!(suites_of_list("HIGH:GOST").unwrap_err().sqlstate(), sqlstate::FEATURE_NOT_SUPPORTED);
        let none = suites_of_list("AES256-SHA:kRSA").unwrap_err();
        assert_eq!(none.message(), "could not set the TLSv1.2 cipher list (no valid ciphers available)");
        assert!(tls13_suites("TLS_AES_128_CCM_SHA256").is_err() && tls13_suites("").unwrap().len() == 3);
        assert!(groups_of_list("X25519:P-521").is_err() && groups_of_list("").is_err());
        assert_eq!(groups_of_list("X25519:prime256v1").unwrap().len(), 2);
    }
}
