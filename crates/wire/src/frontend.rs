//! Messages from the client (PostgreSQL documentation, "Message Formats").

use kilndb_base::{Error, Result, sqlstate};
use std::ffi::CStr;

/// The first packet of a connection, which has no type byte.
#[derive(Debug, PartialEq, Eq)]
pub enum Startup<'a> {
    Ssl,
    GssEncryption,
    Cancel { process_id: i32, secret: &'a [u8] },
    Startup { major: u16, minor: u16, parameters: Vec<(&'a str, &'a str)> },
}

#[derive(Debug, PartialEq, Eq)]
pub enum Frontend<'a> {
    Query(&'a str),
    Parse {
        name: &'a str,
        sql: &'a str,
        param_types: Vec<u32>,
    },
    Bind(BindMessage<'a>),
    Describe {
        portal: bool,
        name: &'a str,
    },
    Execute {
        portal: &'a str,
        max_rows: i32,
    },
    Close {
        portal: bool,
        name: &'a str,
    },
    Flush,
    Sync,
    Terminate,
    /// PasswordMessage and the SASL messages share a type byte: the raw body.
    Password(&'a [u8]),
    CopyData(&'a [u8]),
    CopyDone,
    CopyFail(&'a str),
    FunctionCall(FunctionCallMessage<'a>),
}

#[derive(Debug, PartialEq, Eq)]
pub struct BindMessage<'a> {
    pub portal: &'a str,
    pub statement: &'a str,
    pub param_formats: Vec<i16>,
    pub params: Vec<Option<&'a [u8]>>,
    pub result_formats: Vec<i16>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct FunctionCallMessage<'a> {
    pub function: u32,
    pub argument_formats: Vec<i16>,
    pub arguments: Vec<Option<&'a [u8]>>,
    pub result_format: i16,
}

/// Largest message accepted, as in PostgreSQL (1 GB less one byte).
pub(crate) const MAX_MESSAGE_BYTES: usize = 0x3fff_ffff;
/// Largest startup packet accepted.
pub(crate) const MAX_STARTUP_BYTES: usize = 10_000;

fn violation(message: impl Into<String>) -> Error {
    Error::new(sqlstate::PROTOCOL_VIOLATION, message)
}

/// Length of the startup packet at the front of `buf` (its length word included), once it is complete.
pub fn startup_length(buf: &[u8]) -> Result<Option<usize>> {
    let Some(head) = buf.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_be_bytes(*head) as usize;
    if !(8..=MAX_STARTUP_BYTES).contains(&length) {
        return Err(violation("invalid length of startup packet"));
    }
    Ok((buf.len() >= length).then_some(length))
}

/// What is known of the message at the front of `buf`: its type and whole length, if complete.
pub fn message_length(buf: &[u8]) -> Result<Option<(u8, usize)>> {
    let Some(head) = buf.first_chunk::<5>() else { return Ok(None) };
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if !b"QPBDECHSXpdcfF".contains(&head[0]) {
        return Err(violation(format!("invalid frontend message type {}", head[0])));
    }
    if !(4..=MAX_MESSAGE_BYTES).contains(&length) {
        return Err(violation("invalid message length"));
    }
    let small = !b"QPBdpF".contains(&head[0]);
    if small && length > 10_000 {
        return Err(violation("invalid message length"));
    }
    Ok((buf.len() > length).then_some((head[0], length + 1)))
}

/// Kind and whole length of the message that begins here, of which not all need be there; None also if it is no message.
pub fn announced_length(buf: &[u8]) -> Option<(u8, usize)> {
    let head = buf.first_chunk::<5>()?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    (4..=MAX_MESSAGE_BYTES).contains(&length).then_some((head[0], length + 1))
}

struct MessageFields<'a> {
    rest: &'a [u8],
}

impl<'a> MessageFields<'a> {
    fn cstr(&mut self) -> Result<&'a str> {
        let string = CStr::from_bytes_until_nul(self.rest).map_err(|_| violation("invalid string in message"))?;
        let bytes = string.to_bytes();
        let end = bytes.len();
        self.rest = &self.rest[end + 1..];
        std::str::from_utf8(bytes).map_err(|e| invalid_utf8(bytes, e.valid_up_to()))
    }
    fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let (head, rest) =
            self.rest.split_at_checked(count).ok_or_else(|| violation("insufficient data left in message"))?;
        self.rest = rest;
        Ok(head)
    }
    fn i16(&mut self) -> Result<i16> {
        let b = self.bytes(2)?;
        Ok(i16::from_be_bytes([b[0], b[1]]))
    }
    fn i32(&mut self) -> Result<i32> {
        let b = self.bytes(4)?;
        Ok(i32::from_be_bytes([b[0], b[1], b[2], b[3]]))
    }
    fn count(&mut self) -> Result<usize> {
        Ok(self.i16()? as u16 as usize)
    }
    fn end(&self) -> Result<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(violation("invalid message format")) }
    }
}

/// PostgreSQL's 22021 for text that is not UTF-8.
pub(crate) fn invalid_utf8(bytes: &[u8], at: usize) -> Error {
    let lead = bytes.get(at).copied().unwrap_or(0);
    let want = match lead {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        _ => 1,
    };
    let shown: Vec<String> = bytes.iter().skip(at).take(want).map(|b| format!("0x{b:02x}")).collect();
    Error::new(
        sqlstate::CHARACTER_NOT_IN_REPERTOIRE,
        format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" ")),
    )
}

/// `packet`: as long as [`startup_length`] said.
pub fn decode_startup(packet: &[u8]) -> Result<Startup<'_>> {
    let mut f = MessageFields { rest: packet.get(4..).unwrap_or(&[]) };
    let version = f.i32()? as u32;
    match version {
        80877103 => return Ok(Startup::Ssl),
        80877104 => return Ok(Startup::GssEncryption),
        80877102 => {
            let process_id = f.i32()?;
            return Ok(Startup::Cancel { process_id, secret: f.rest });
        }
        _ => {}
    }
    let (major, minor) = ((version >> 16) as u16, version as u16);
    if major != 3 {
        return Err(Error::new(
            sqlstate::FEATURE_NOT_SUPPORTED,
            format!("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.2"),
        ));
    }
    let mut parameters = Vec::new();
    loop {
        let name =
            f.cstr().map_err(|_| violation("invalid startup packet layout: expected terminator as last byte"))?;
        if name.is_empty() {
            break;
        }
        let value =
            f.cstr().map_err(|_| violation("invalid startup packet layout: expected terminator as last byte"))?;
        parameters.push((name, value));
    }
    if !f.rest.is_empty() {
        return Err(violation("invalid startup packet layout: expected terminator as last byte"));
    }
    Ok(Startup::Startup { major, minor, parameters })
}

/// `message`: type byte, length word and body, as long as [`message_length`] said.
pub fn decode(message: &[u8]) -> Result<Frontend<'_>> {
    let kind = message.first().copied().unwrap_or(0);
    let mut f = MessageFields { rest: message.get(5..).unwrap_or(&[]) };
    let decoded = match kind {
        b'Q' => Frontend::Query(f.cstr()?),
        b'P' => {
            let (name, sql) = (f.cstr()?, f.cstr()?);
            let count = f.count()?;
            let param_types = (0..count).map(|_| f.i32().map(|v| v as u32)).collect::<Result<_>>()?;
            Frontend::Parse { name, sql, param_types }
        }
        b'B' => Frontend::Bind(decode_bind(&mut f)?),
        b'D' | b'C' => {
            let portal = match f.bytes(1)?[0] {
                b'P' => true,
                b'S' => false,
                other => {
                    let what = if kind == b'D' { "DESCRIBE" } else { "CLOSE" };
                    return Err(violation(format!("invalid {what} message subtype {other}")));
                }
            };
            let name = f.cstr()?;
            if kind == b'D' { Frontend::Describe { portal, name } } else { Frontend::Close { portal, name } }
        }
        b'E' => Frontend::Execute { portal: f.cstr()?, max_rows: f.i32()? },
        b'H' => Frontend::Flush,
        b'S' => Frontend::Sync,
        b'X' => Frontend::Terminate,
        b'p' => return Ok(Frontend::Password(f.rest)),
        b'd' => return Ok(Frontend::CopyData(f.rest)),
        b'c' => Frontend::CopyDone,
        b'f' => Frontend::CopyFail(f.cstr()?),
        b'F' => Frontend::FunctionCall(decode_function_call(&mut f)?),
        other => return Err(violation(format!("invalid frontend message type {other}"))),
    };
    f.end()?;
    Ok(decoded)
}

/// The password of a PasswordMessage's body, without the zero that ends it.
pub fn decode_password(body: &[u8]) -> Result<&[u8]> {
    match body.split_last() {
        Some((0, password)) if !password.contains(&0) => Ok(password),
        _ => Err(violation("invalid password packet size")),
    }
}

/// The mechanism and the first payload, if there is one, of a SASLInitialResponse's body.
pub fn decode_sasl_initial(body: &[u8]) -> Result<(&str, Option<&[u8]>)> {
    let mut f = MessageFields { rest: body };
    let mechanism = f.cstr()?;
    let payload = match f.i32()? {
        -1 => None,
        length if length >= 0 => Some(f.bytes(length as usize)?),
        _ => return Err(violation("invalid message format")),
    };
    f.end()?;
    Ok((mechanism, payload))
}

fn decode_bind<'a>(f: &mut MessageFields<'a>) -> Result<BindMessage<'a>> {
    let (portal, statement) = (f.cstr()?, f.cstr()?);
    let count = f.count()?;
    let param_formats = (0..count).map(|_| f.i16()).collect::<Result<_>>()?;
    let count = f.count()?;
    let mut params = Vec::with_capacity(count.min(1024));
    for _ in 0..count {
        let length = f.i32()?;
        params.push(match length {
            -1 => None,
            n if n >= 0 => Some(f.bytes(n as usize)?),
            _ => return Err(violation("invalid message format")),
        });
    }
    let count = f.count()?;
    let result_formats = (0..count).map(|_| f.i16()).collect::<Result<_>>()?;
    Ok(BindMessage { portal, statement, param_formats, params, result_formats })
}

fn decode_function_call<'a>(f: &mut MessageFields<'a>) -> Result<FunctionCallMessage<'a>> {
    let function = f.i32()? as u32;
    let count = f.count()?;
    let argument_formats = (0..count).map(|_| f.i16()).collect::<Result<_>>()?;
    let count = f.count()?;
    let mut arguments = Vec::with_capacity(count.min(1024));
    for _ in 0..count {
        arguments.push(match f.i32()? {
            -1 => None,
            n if n >= 0 => Some(f.bytes(n as usize)?),
            n => return Err(violation(format!("invalid argument size {n} in function call message"))),
        });
    }
    Ok(FunctionCallMessage { function, argument_formats, arguments, result_format: f.i16()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut m = vec![kind];
        m.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        m.extend_from_slice(body);
        m
    }

    #[test]
    fn a_query_needs_its_terminator() {
        assert_eq!(decode(&message(b'Q', b"select 1\0")), Ok(Frontend::Query("select 1")));
        assert!(decode(&message(b'Q', b"select 1")).is_err());
        assert!(decode(&message(b'Q', b"a\0b\0")).is_err());
    }

    #[test]
    fn lengths_are_checked_before_they_are_believed() {
        assert!(message_length(&[b'Q', 0xff, 0xff, 0xff, 0xff]).is_err());
        assert!(message_length(&[b'S', 0, 1, 0, 0]).is_err());
        assert_eq!(message_length(&[b'Q', 0, 0, 0, 9, b'a']), Ok(None));
        assert!(startup_length(&[0, 0, 0, 3]).is_err());
    }

    #[test]
    fn passwords_and_mechanisms() {
        assert_eq!(decode_password(b"secret\0"), Ok(&b"secret"[..]));
        assert_eq!(decode_password(b"\0"), Ok(&b""[..]));
        assert!(decode_password(b"").is_err() && decode_password(b"a").is_err() && decode_password(b"a\0b\0").is_err());
        assert_eq!(decode_sasl_initial(b"X\0\0\0\0\x02ab"), Ok(("X", Some(&b"ab"[..]))));
        assert_eq!(decode_sasl_initial(b"X\0\xff\xff\xff\xff"), Ok(("X", None)));
        assert!(decode_sasl_initial(b"X\0\0\0\0\x03ab").is_err() && decode_sasl_initial(b"X\0\0\0\0\x01ab").is_err());
    }

    #[test]
    fn function_calls() {
        let body = b"\0\0\x03\xba\0\x01\0\x01\0\x02\0\0\0\x02ab\xff\xff\xff\xff\0\x01";
        let call = FunctionCallMessage {
            function: 954,
            argument_formats: vec![1],
            arguments: vec![Some(b"ab"), None],
            result_format: 1,
        };
        assert_eq!(decode(&message(b'F', body)), Ok(Frontend::FunctionCall(call)));
        for length in 0..body.len() {
            assert!(decode(&message(b'F', &body[..length])).is_err(), "{length} bytes");
        }
        assert!(decode(&message(b'F', b"\0\0\0\x01\0\0\0\x01\xff\xff\xff\xfe\0\0")).is_err());
    }

    #[test]
    fn a_bind_with_a_lying_count_is_an_error() {
        assert!(decode(&message(b'B', b"\0\0\0\0\xff\xff\0\0\0\x04")).is_err());
    }
}
