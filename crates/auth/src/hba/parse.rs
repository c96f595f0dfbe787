//! A line of `pg_hba.conf` becomes a rule, or an error in PostgreSQL's words.

use super::*;
use crate::lines::Token;
use std::net::{Ipv4Addr, Ipv6Addr};

type Parsed<T> = std::result::Result<T, LineError>;

fn wrong<T>(message: impl Into<String>) -> Parsed<T> {
    Err(LineError::new(message))
}
fn wrong_with_hint<T>(message: impl Into<String>, hint: &'static str) -> Parsed<T> {
    Err(LineError { message: message.into(), hint: Some(hint) })
}

/// Methods that need what this server is not made with.
const NOT_SUPPORTED: [&str; 7] = ["gss", "sspi", "pam", "bsd", "ldap", "radius", "oauth"];

/// Options of such methods, and which these are.
const OPTIONS_OF_OTHERS: &[(&str, &[&str])] = &[
    ("pam", &["pamservice", "pam_use_hostname"]),
    (
        "ldap",
        &[
            "ldapurl",
            "ldaptls",
            "ldapscheme",
            "ldapserver",
            "ldapport",
            "ldapbinddn",
            "ldapbindpasswd",
            "ldapsearchattribute",
            "ldapsearchfilter",
            "ldapbasedn",
            "ldapprefix",
            "ldapsuffix",
        ],
    ),
    ("gssapi and sspi", &["krb_realm", "include_realm"]),
    ("sspi", &["compat_realm", "upn_username"]),
    ("radius", &["radiusservers", "radiusports", "radiussecrets", "radiusidentifiers"]),
    ("oauth", &["issuer", "scope", "validator", "delegate_ident_mapping"]),
];

struct Fields<'a> {
    rest: std::slice::Iter<'a, Vec<Token>>,
}

impl<'a> Fields<'a> {
    fn list(&mut self, missing: &str) -> Parsed<&'a [Token]> {
        match self.rest.next() {
            Some(field) => Ok(field),
            None => wrong(format!("end-of-line before {missing}")),
        }
    }
    fn one(&mut self, missing: &str, several: &str, hint: &'static str) -> Parsed<&'a Token> {
        match self.list(missing)? {
            [token] => Ok(token),
            _ if hint.is_empty() => wrong(format!("multiple values specified for {several}")),
            _ => wrong_with_hint(format!("multiple values specified for {several}"), hint),
        }
    }
}

/// The rule, and why it never matches, if it does not.
pub(super) fn rule_of(line: &TokenLine, facts: &ParseFacts<'_>) -> Parsed<(HbaRule, Option<LineError>)> {
    let mut fields = Fields { rest: line.fields.iter() };
    let one_kind = "Specify exactly one connection type per line.";
    let word = &fields.one("connection type", "connection type", one_kind)?.text;
    let (kind, remark) = connection_kind(word, facts)?;
    let names = |list: &[Token]| -> Parsed<Vec<NameRule>> {
        list.iter().map(|token| NameRule::new(token.clone(), facts.patterns).or_else(wrong)).collect()
    };
    let databases = names(fields.list("database specification")?)?;
    let roles = names(fields.list("role specification")?)?;
    let address = if kind == ConnectionKind::Local { None } else { Some(address_rule(&mut fields)?) };
    let one_method = "Specify exactly one authentication type per line.";
    let method = fields.one("authentication method", "authentication type", one_method)?;
    let method = method_of(&method.text, kind)?;
    let mut rule = HbaRule {
        file: line.file.clone(),
        line: line.number,
        text: line.text.clone(),
        kind,
        databases,
        roles,
        address,
        method,
        map: None,
        client_certificate: (method == Method::Cert).then_some(ClientCertificate::VerifyFull),
        certificate_name: CertificateName::CommonName,
    };
    for token in fields.rest.flatten() {
        match token.text.split_once('=') {
            Some((name, value)) => take_option(&mut rule, name, value)?,
            None => return wrong(format!("authentication option not in name=value format: {}", token.text)),
        }
    }
    Ok((rule, remark))
}

fn connection_kind(word: &str, facts: &ParseFacts<'_>) -> Parsed<(ConnectionKind, Option<LineError>)> {
    let kind = match word {
        "local" => ConnectionKind::Local,
        "host" => ConnectionKind::Host,
        "hostssl" => ConnectionKind::HostSsl,
        "hostnossl" => ConnectionKind::HostNoSsl,
        "hostgssenc" => ConnectionKind::HostGssEnc,
        "hostnogssenc" => ConnectionKind::HostNoGssEnc,
        _ => return wrong(format!("invalid connection type \"{word}\"")),
    };
    let remark = match kind {
        ConnectionKind::HostSsl if !facts.has_tls => Some(LineError {
            message: "hostssl record cannot match because SSL is disabled".into(),
            hint: Some("Set \"ssl = on\" in kilndb.conf."),
        }),
        ConnectionKind::HostGssEnc => {
            Some(LineError::new("hostgssenc record cannot match because GSSAPI is not supported by this build"))
        }
        _ => None,
    };
    Ok((kind, remark))
}

fn address_rule(fields: &mut Fields<'_>) -> Parsed<AddressRule> {
    let one_range = "Specify one address range per line.";
    let token = fields.one("IP address specification", "host address", one_range)?;
    for (word, rule) in
        [("all", AddressRule::All), ("samehost", AddressRule::SameHost), ("samenet", AddressRule::SameNet)]
    {
        if token.is_keyword(word) {
            return Ok(rule);
        }
    }
    let text = &token.text;
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text.as_str(), None),
    };
    let Ok(address) = address.parse::<IpAddr>() else {
        return match bits {
            Some(_) if !looks_like_address(address) => {
                wrong(format!("specifying both host name and CIDR mask is invalid: \"{text}\""))
            }
            _ if looks_like_address(address) => wrong(format!("invalid IP address \"{address}\"")),
            _ => Ok(AddressRule::HostName(text.clone())),
        };
    };
    if let Some(bits) = bits {
        return match cidr_mask(address, bits) {
            Some(mask) => Ok(AddressRule::Network { address, mask }),
            None => wrong(format!("invalid CIDR mask in address \"{text}\"")),
        };
    }
    let hint = "Specify an address range in CIDR notation, or provide a separate netmask.";
    let missing =
        |e: LineError| if e.message.starts_with("end-of-line") { LineError { hint: Some(hint), ..e } } else { e };
    let mask = &fields.one("netmask specification", "netmask", "").map_err(missing)?.text;
    match mask.parse::<IpAddr>() {
        Err(_) => wrong(format!("invalid IP mask \"{mask}\": Name or service not known")),
        Ok(mask) if mask.is_ipv4() != address.is_ipv4() => wrong("IP address and mask do not match"),
        Ok(mask) => Ok(AddressRule::Network { address, mask }),
    }
}

/// Digits, dots and colons are no name of a host.
fn looks_like_address(text: &str) -> bool {
    text.contains(':') || text.bytes().all(|c| c.is_ascii_digit() || c == b'.')
}

fn cidr_mask(address: IpAddr, bits: &str) -> Option<IpAddr> {
    if !bits.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let bits: u32 = bits.parse().ok()?;
    match address {
        IpAddr::V4(_) if bits <= 32 => {
            Some(IpAddr::V4(Ipv4Addr::from_bits(u32::MAX.checked_shl(32 - bits).unwrap_or(0))))
        }
        IpAddr::V6(_) if bits <= 128 => {
            Some(IpAddr::V6(Ipv6Addr::from_bits(u128::MAX.checked_shl(128 - bits).unwrap_or(0))))
        }
        _ => None,
    }
}

fn method_of(word: &str, kind: ConnectionKind) -> Parsed<Method> {
    let method = match word {
        "trust" => Method::Trust,
        "reject" => Method::Reject,
        "scram-sha-256" => Method::ScramSha256,
        "md5" => Method::Md5,
        "password" => Method::Password,
        "cert" => Method::Cert,
        "peer" => Method::Peer,
        // The older word for it.
        "ident" if kind == ConnectionKind::Local => Method::Peer,
        "ident" => {
            return wrong("invalid authentication method \"ident\": only supported on local sockets, where it is peer");
        }
        _ if NOT_SUPPORTED.contains(&word) => {
            return wrong(format!("invalid authentication method \"{word}\": not supported by this build"));
        }
        _ => return wrong(format!("invalid authentication method \"{word}\"")),
    };
    match method {
        Method::Peer if kind != ConnectionKind::Local => {
            wrong("peer authentication is only supported on local sockets")
        }
        Method::Cert if kind != ConnectionKind::HostSsl => {
            wrong("cert authentication is only supported on hostssl connections")
        }
        method => Ok(method),
    }
}

fn take_option(rule: &mut HbaRule, name: &str, value: &str) -> Parsed<()> {
    let only_for = |methods: &str| {
        wrong(format!("authentication option \"{name}\" is only valid for authentication methods {methods}"))
    };
    match name {
        "map" if !matches!(rule.method, Method::Peer | Method::Cert) => {
            return only_for("ident, peer, gssapi, sspi, cert, and oauth");
        }
        "map" => rule.map = Some(value.to_string()),
        "clientcert" | "clientname" if rule.kind != ConnectionKind::HostSsl => {
            return wrong(format!("{name} can only be configured for \"hostssl\" rows"));
        }
        "clientcert" => match value {
            "verify-full" => rule.client_certificate = Some(ClientCertificate::VerifyFull),
            "verify-ca" if rule.method == Method::Cert => {
                return wrong("clientcert only accepts \"verify-full\" when using \"cert\" authentication");
            }
            "verify-ca" => rule.client_certificate = Some(ClientCertificate::VerifyCa),
            _ => return wrong(format!("invalid value for clientcert: \"{value}\"")),
        },
        "clientname" => match value {
            "CN" => rule.certificate_name = CertificateName::CommonName,
            "DN" => rule.certificate_name = CertificateName::DistinguishedName,
            _ => return wrong(format!("invalid value for clientname: \"{value}\"")),
        },
        _ => {
            let of_others = OPTIONS_OF_OTHERS.iter().find(|(_, options)| options.contains(&name));
            return match of_others {
                Some((methods, _)) => only_for(methods),
                None => wrong(format!("unrecognized authentication option name: \"{name}\"")),
            };
        }
    }
    Ok(())
}
