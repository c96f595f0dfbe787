//! bytea: hex and escape formats.

use super::*;
use kilndb_base::work::SmallSteps;

pub fn parse(text: &str) -> Result<Vec<u8>> {
    if let Some(hex) = text.strip_prefix("\\x") {
        return decode_hex(hex);
    }
    let b = text.as_bytes();
    let mut out = Vec::with_capacity(b.len());
    let mut i = 0;
    let mut steps = SmallSteps::default();
    while i < b.len() {
        steps.step(3)?;
        match &b[i..] {
            [b'\\', b'\\', ..] => {
                out.push(b'\\');
                i += 2;
            }
            [b'\\', x @ b'0'..=b'3', y @ b'0'..=b'7', z @ b'0'..=b'7', ..] => {
                out.push((x - b'0') << 6 | (y - b'0') << 3 | (z - b'0'));
                i += 4;
            }
            [b'\\', ..] => {
                return Err(error(sqlstate::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type bytea"));
            }
            _ => {
                out.push(b[i]);
                i += 1;
            }
        }
    }
    Ok(out)
}
/// Pairs of hexadecimal digits; blanks between pairs are skipped.
pub(crate) fn decode_hex(text: &str) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 2);
    let mut chars = text.chars();
    let digit = |c: char| {
        c.to_digit(16)
            .map(|d| d as u8)
            .ok_or_else(|| error(sqlstate::INVALID_PARAMETER_VALUE, format!("invalid hexadecimal digit: \"{c}\"")))
    };
    let mut steps = SmallSteps::default();
    while let Some(c) = chars.next() {
        steps.step(6)?;
        if matches!(c, ' ' | '\n' | '\t' | '\r') {
            continue;
        }
        let high = digit(c)?;
        let low = chars.next().ok_or_else(|| {
            error(sqlstate::INVALID_PARAMETER_VALUE, "invalid hexadecimal data: odd number of digits")
        })?;
        out.push(high << 4 | digit(low)?);
    }
    Ok(out)
}
pub(crate) fn encode_hex(bytes: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.reserve(bytes.len() * 2);
    for b in bytes {
        out.push(HEX[usize::from(b >> 4)]);
        out.push(HEX[usize::from(b & 15)]);
    }
}
pub fn write(bytes: &[u8], hex: bool, out: &mut Vec<u8>) -> Result<()> {
    if hex {
        out.extend_from_slice(b"\\x");
        if bytes.len() <= work::PIECE_BYTES {
            encode_hex(bytes, out);
            return work::step(bytes.len());
        }
        return pieces::of_bytes(bytes, 2).try_for_each(|piece| {
            encode_hex(piece?, out);
            Ok(())
        });
    }
    let mut steps = SmallSteps::default();
    for &b in bytes {
        steps.step(5)?;
        match b {
            b'\\' => out.extend_from_slice(b"\\\\"),
            0x20..=0x7e => out.push(b),
            _ => super::write(out, format_args!("\\{b:03o}")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::looks::{asks, worth};

    #[test]
    fn long_bytes_give_way() {
        let long = vec![b'a'; 1_000_000];
        asks(worth(2 * long.len()), |_| write(&long, true, &mut Vec::new()));
        asks(worth(5 * long.len()), |_| write(&long, false, &mut Vec::new()));
        let mut out = Vec::new();
        write(&[0, 92, 97], false, &mut out).unwrap();
        write(&[0, 255], true, &mut out).unwrap();
        assert_eq!(out, b"\\000\\\\a\\x00ff");
    }
}
