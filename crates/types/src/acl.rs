//! aclitem: who has granted which privileges to whom.

use crate::io::error;
use crate::oids::REGROLE;
use crate::{EvalContext, pieces};
use kilndb_base::work::SmallSteps;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct AclItem {
    /// The role that the privileges are granted to; 0 is PUBLIC.
    pub grantee: Oid,
    pub grantor: Oid,
    /// Privileges in the lower half, in the upper one those that may be granted on.
    pub privileges: u64,
}

/// A letter for each privilege, by its bit.
pub const LETTERS: &str = "arwdDxtXUCTcsAm";

/// Names of privileges by their bits.
const NAMES: [(&str, u32); 16] = [
    ("SELECT", 1),
    ("INSERT", 0),
    ("UPDATE", 2),
    ("DELETE", 3),
    ("TRUNCATE", 4),
    ("REFERENCES", 5),
    ("TRIGGER", 6),
    ("EXECUTE", 7),
    ("USAGE", 8),
    ("CREATE", 9),
    ("TEMP", 10),
    ("TEMPORARY", 10),
    ("CONNECT", 11),
    ("SET", 12),
    ("ALTER SYSTEM", 13),
    ("MAINTAIN", 14),
];

/// What PUBLIC and the owner may do with an object of which nobody has granted anything, by PostgreSQL's letters of
/// kinds of objects.
pub fn default_privileges(kind: u8) -> Option<(u64, u64)> {
    let bits = |letters: &str| {
        LETTERS.bytes().enumerate().filter(|(_, l)| letters.as_bytes().contains(l)).fold(0, |all, (i, _)| all | 1 << i)
    };
    let (public, owner) = match kind {
        b'c' => ("", ""),
        b'r' => ("", "arwdDxtm"),
        b's' => ("", "rwU"),
        b'd' => ("Tc", "CTc"),
        b'f' => ("X", "X"),
        b'l' | b'T' => ("U", "U"),
        b'L' => ("", "rw"),
        b'n' => ("", "UC"),
        b'p' => ("", "sA"),
        b't' => ("", "C"),
        b'F' | b'S' => ("", "U"),
        _ => return None,
    };
    Some((bits(public), bits(owner)))
}

/// Bits of a list of privileges, `select, insert`.
pub fn privileges_named(list: &str) -> Result<u64> {
    let mut steps = SmallSteps::default();
    list.split(',').try_fold(0, |all, name| {
        steps.step(100)?;
        let name = crate::io::trim(name);
        let found = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let (_, bit) = found.ok_or_else(|| {
            Error::new(sqlstate::INVALID_PARAMETER_VALUE, format!("unrecognized privilege type: \"{name}\""))
        })?;
        Ok(all | 1 << bit)
    })
}

fn bad(message: impl Into<String>) -> Error {
    error(sqlstate::INVALID_TEXT_REPRESENTATION, message)
}
fn role_named(name: &str, ctx: &EvalContext) -> Result<Oid> {
    ctx.host.reg_input(REGROLE, &format!("\"{}\"", name.replace('"', "\"\"")))
}
fn is_blank(b: u8) -> bool {
    b.is_ascii_whitespace() || b == 0x0b
}

/// An identifier, quoted or not, with blanks around it.
fn identifier(text: &str, at: &mut usize) -> Result<String> {
    let b = text.as_bytes();
    let skip = |at: &mut usize| {
        *at += pieces::count_leading(&b[*at..], is_blank)?;
        Ok::<_, Error>(())
    };
    skip(at)?;
    let mut name = Vec::new();
    let mut quoted = false;
    while let Some(&c) = b.get(*at) {
        if c == b'"' {
            if quoted && b.get(*at + 1) == Some(&b'"') {
                *at += 1;
            } else {
                quoted = !quoted;
                *at += 1;
                continue;
            }
        } else if !(quoted || c.is_ascii_alphanumeric() || c == b'_' || c >= 0x80) {
            break;
        }
        if name.len() >= 63 {
            return Err(error(sqlstate::NAME_TOO_LONG, "identifier too long")
                .with_detail("Identifier must be less than 64 characters."));
        }
        name.push(c);
        *at += 1;
    }
    skip(at)?;
    Ok(String::from_utf8_lossy(&name).into_owned())
}

impl AclItem {
    pub fn parse(text: &str, ctx: &EvalContext) -> Result<AclItem> {
        let b = text.as_bytes();
        let mut at = 0;
        let mut name = identifier(text, &mut at)?;
        if b.get(at) != Some(&b'=') {
            if name != "group" && name != "user" {
                return Err(bad(format!("unrecognized key word: \"{name}\""))
                    .with_hint("ACL key word must be \"group\" or \"user\"."));
            }
            name = identifier(text, &mut at)?;
            if name.is_empty() {
                return Err(bad("missing name").with_hint("A name must follow the \"group\" or \"user\" key word."));
            }
        }
        if b.get(at) != Some(&b'=') {
            return Err(bad("missing \"=\" sign"));
        }
        at += 1;
        let (mut privileges, mut last, mut steps) = (0u64, 0u64, SmallSteps::default());
        while let Some(c) = b.get(at).filter(|c| c.is_ascii_alphabetic() || **c == b'*') {
            steps.step(5)?;
            if *c == b'*' {
                privileges |= last << 32;
            } else {
                let bit = LETTERS.bytes().position(|l| l == *c);
                last = 1 << bit.ok_or_else(|| bad(format!("invalid mode character: must be one of \"{LETTERS}\"")))?;
                privileges |= last;
            }
            at += 1;
        }
        let grantee = if name.is_empty() { 0 } else { role_named(&name, ctx)? };
        let grantor = if b.get(at) == Some(&b'/') {
            at += 1;
            let name = identifier(text, &mut at)?;
            if name.is_empty() {
                return Err(bad("a name must follow the \"/\" sign"));
            }
            role_named(&name, ctx)?
        } else {
            ctx.host.notice(Error::notice(
                sqlstate::INVALID_GRANTOR,
                Severity::Warning,
                "defaulting grantor to user ID 10",
            ));
            10
        };
        if !pieces::all(&b[at..], is_blank)? {
            return Err(bad("extra garbage at the end of the ACL specification"));
        }
        Ok(AclItem { grantee, grantor, privileges })
    }
    pub fn write(&self, out: &mut Vec<u8>, ctx: &EvalContext) {
        if self.grantee != 0 {
            write_role(self.grantee, out, ctx);
        }
        out.push(b'=');
        for (i, letter) in LETTERS.bytes().enumerate() {
            if self.privileges >> i & 1 == 1 {
                out.push(letter);
            }
            if self.privileges >> (i + 32) & 1 == 1 {
                out.push(b'*');
            }
        }
        out.push(b'/');
        write_role(self.grantor, out, ctx);
    }
    /// Whether this item gives all that the other one does, to the same role and from the same.
    pub fn covers(&self, other: &AclItem) -> bool {
        self.grantee == other.grantee
            && self.grantor == other.grantor
            && self.privileges & other.privileges == other.privileges
    }
    fn sum(&self) -> u32 {
        (self.privileges as u32).wrapping_add(self.grantee).wrapping_add(self.grantor)
    }
    pub fn hash(&self) -> u32 {
        self.sum()
    }
    pub(crate) fn hash_extended(&self, seed: u64) -> u64 {
        if seed == 0 { u64::from(self.sum()) } else { crate::hash::hash_u32_extended(self.sum(), seed) }
    }
    /// The privileges of the item by name, in the order of their bits, and whether they may be granted on.
    pub fn named_privileges(&self) -> impl Iterator<Item = (&'static str, bool)> + '_ {
        (0..32u32).filter(|bit| self.privileges >> bit & 1 == 1).filter_map(|bit| {
            let name = NAMES.iter().find(|(name, known)| *known == bit && *name != "TEMP").map(|(name, _)| *name)?;
            Some((name, self.privileges >> (bit + 32) & 1 == 1))
        })
    }
    pub fn to_bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&self.grantee.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.grantor.to_be_bytes());
        bytes[8..].copy_from_slice(&self.privileges.to_be_bytes());
        bytes
    }
    pub fn from_bytes(bytes: [u8; 16]) -> AclItem {
        let all = u128::from_be_bytes(bytes);
        AclItem { grantee: (all >> 96) as u32, grantor: (all >> 64) as u32, privileges: all as u64 }
    }
}

fn write_role(oid: Oid, out: &mut Vec<u8>, ctx: &EvalContext) {
    let shown = ctx.host.reg_output(REGROLE, oid);
    // As an identifier of SQL; here the rules of quoting are others.
    let name = match shown.strip_prefix('"').and_then(|s| s.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => shown,
    };
    let safe = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if safe {
        out.extend_from_slice(name.as_bytes());
    } else {
        out.push(b'"');
        out.extend_from_slice(name.replace('"', "\"\"").as_bytes());
        out.push(b'"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::looks::{asks, worth};

    #[test]
    fn long_items_give_way() {
        let (blanks, letters) = (" ".repeat(1_000_000), "r*".repeat(500_000));
        asks(worth(1_000_000), |cx| AclItem::parse(&format!("{blanks}=r/a"), cx));
        asks(worth(5_000_000), |cx| AclItem::parse(&format!("={letters}/a"), cx));
        asks(worth(1_000_000), |cx| AclItem::parse(&format!("=r{blanks}"), cx));
        asks(worth(100_000 * 100), |_| privileges_named(&"select,".repeat(100_000)));
    }
}
