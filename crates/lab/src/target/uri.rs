//! `postgresql://user:password@host:port/database?host=/folder`: the form of libpq's connection URIs (libpq.sgml, "Connection URIs")
//! that names one server.
//! Of its parameters those are known that say where it is, who goes there and how it is encrypted (`prefer` unless said otherwise).
//!
//! Must not know: connections.

use crate::client::Address;
use crate::tls::TlsChoice;

/// Where a target is, and who goes there.
#[derive(Clone, Debug)]
pub struct TargetUri {
    pub address: Address,
    pub database: String,
    pub password: Option<String>,
}

impl TargetUri {
    /// Errors name what is wrong, or what the lab cannot do.
    pub fn read(text: &str) -> Result<TargetUri, String> {
        let wrong = |what: &str| format!("{}: {what}", without_password(text));
        let rest = text.strip_prefix("postgresql://").or_else(|| text.strip_prefix("postgres://"));
        let rest = rest.ok_or_else(|| wrong("a URI begins with postgresql://"))?;
        let (rest, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (who, place) = place.rsplit_once('@').unwrap_or(("", place));
        let (user, password) = who.split_once(':').map_or((who, None), |(user, password)| (user, Some(password)));
        let (host, port) = match place.strip_prefix('[').and_then(|v6| v6.split_once(']')) {
            Some((v6, port)) => (v6, port.strip_prefix(':').unwrap_or("")),
            None => place.split_once(':').unwrap_or((place, "")),
        };
        let part = |text: &str| percent_decoded(text).ok_or_else(|| wrong("a % stands before two hexadecimal digits"));
        let or = |text: String, default: &str| if text.is_empty() { default.to_string() } else { text };
        let user = or(part(user)?, &std::env::var("USER").unwrap_or_else(|_| "postgres".into()));
        let mut uri = TargetUri {
            address: Address { host: or(part(host)?, "localhost"), port: 5432, user: user.clone(), tls: None },
            database: or(part(database)?, &user),
            password: password.map(part).transpose()?,
        };
        let number = |text: &str| text.parse::<u16>().map_err(|_| wrong("the port is no number up to 65535"));
        if !port.is_empty() {
            uri.address.port = number(port)?;
        }
        let (mut mode, mut roots) = ("prefer".to_string(), None);
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let value = part(value)?;
            match name {
                "host" => uri.address.host = value,
                "port" => uri.address.port = number(&value)?,
                "user" => uri.address.user = value,
                "password" => uri.password = Some(value),
                "dbname" => uri.database = value,
                "sslmode" => mode = value,
                "sslrootcert" => roots = Some(value),
                _ => return Err(wrong(&format!("the lab does not know {name}"))),
            }
        }
        uri.address.tls = TlsChoice::of_mode(&mode, roots.as_deref()).map_err(|e| wrong(&e))?;
        Ok(uri)
    }

    /// The URI without a password, for reports.
    pub fn shown(&self) -> String {
        let Address { host, port, user, .. } = &self.address;
        match host.starts_with('/') {
            true => format!("postgresql://{user}@/{}?host={host}&port={port}", self.database),
            false => format!("postgresql://{user}@{host}:{port}/{}", self.database),
        }
    }
}

/// What an error may show.
fn without_password(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((before, behind)) => {
            let user = before.rsplit_once(':').map_or(before, |(user, _)| user);
            format!("{user}@{behind}")
        }
        None => text.to_string(),
    }
}

/// A part of a URI with what stands as `%41` in it. None: digits are missing, or it is no UTF-8.
pub fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_read() {
        let uri = TargetUri::read("postgresql://joe:a%40b@db.example:6543/shop?sslmode=prefer").expect("it is right");
        assert_eq!(
            (uri.address.host.as_str(), uri.address.port, uri.address.user.as_str()),
            ("db.example", 6543, "joe")
        );
        assert_eq!((uri.database.as_str(), uri.password.as_deref()), ("shop", Some("a@b")));
        assert_eq!(uri.shown(), "postgresql://joe@db.example:6543/shop");
        let modes = ["", "?sslmode=disable", "?sslmode=allow", "?sslmode=prefer", "?sslmode=require"];
        let is_encrypted = modes.map(|mode| {
            let uri = TargetUri::read(&format!("postgres://db.example/shop{mode}")).expect("it is right");
            uri.address.tls.map(|choice| choice.mode)
        });
        let told = |mode: &str| Some(mode.to_string());
        assert_eq!(is_encrypted, [told("prefer"), None, None, told("prefer"), told("require")]);
        let uri = TargetUri::read("postgres://joe@/?host=/run/pg").expect("it is right");
        assert_eq!((uri.address.host.as_str(), uri.database.as_str()), ("/run/pg", "joe"));
        let uri = TargetUri::read("postgres://joe@[::1]:7/x").expect("it is right");
        assert_eq!((uri.address.host.as_str(), uri.address.port), ("::1", 7));
    }

    #[test]
    fn what_is_wrong_is_told_without_the_password() {
        for (text, told) in [
            ("mysql://x", "begins with postgresql://"),
            ("postgresql://joe:secret@h:99999/x", "port"),
            ("postgresql://joe:secret@h/x?sslmode=perhaps", "there is no sslmode perhaps"),
            ("postgresql://joe:secret@h/x?sslmode=verify-full&sslrootcert=/nowhere", "/nowhere"),
            ("postgresql://joe:secret%4@h/x", "hexadecimal"),
            ("postgresql://joe@h/x?colour=1", "colour"),
        ] {
            let error = TargetUri::read(text).expect_err("it is wrong");
            assert!(error.contains(told) && !error.contains("secret"), "{error}");
        }
    }
}
