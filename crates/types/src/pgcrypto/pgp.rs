//! Messages of OpenPGP (RFC 4880) that a password encrypts: pgp_sym_encrypt() and pgp_sym_decrypt().
//!
//! A message is a packet that says how the password becomes a key, and one with the encrypted packets. Those are the data
//! as a literal, compressed perhaps, and a digest of everything before it.

use super::cipher::{PgpCipher, cfb};
use super::failed;
use super::pgp_options::*;
use crate::{EvalContext, pieces};
use kilndb_base::work::{self, SmallSteps};
use kilndb_base::{Error, Result};
use sha2::Digest;
use std::borrow::Cow;

const SESSION_KEY: u8 = 3;
const COMPRESSED: u8 = 8;
const ENCRYPTED: u8 = 9;
const MARKER: u8 = 10;
const LITERAL: u8 = 11;
const CHECKED: u8 = 18;

/// The head of the packet with the digest, which belongs to what is digested.
const DIGEST_HEAD: [u8; 2] = [0xd3, 20];
/// Long packets are written in chunks of two to the power of so many bytes.
const CHUNK_POWER: u8 = 14;
/// What hashing a byte is taken for, and compressing one.
const UNITS_PER_BYTE: usize = 5;
/// What a value may have at most.
const BYTES_MAX: usize = 1 << 30;

#[cold]
fn corrupt() -> Error {
    failed("Wrong key or corrupt data")
}

/// How a password becomes a key.
struct KeyMaker {
    mode: u8,
    digest: u8,
    salt: [u8; 8],
    /// The coded count of bytes.
    count: u8,
}

/// Bytes that are digested, from their code.
fn decoded_count(code: u8) -> usize {
    (16 + usize::from(code & 15)) << (6 + (code >> 4))
}

impl KeyMaker {
    fn new(options: &PgpOptions, ctx: &EvalContext<'_>) -> KeyMaker {
        let mut chance = [0; 9];
        ctx.host.random_bytes(&mut chance);
        let count = match usize::try_from(options.key_count) {
            Ok(wanted) if wanted > 0 => (0..=u8::MAX).find(|code| decoded_count(*code) >= wanted).unwrap_or(u8::MAX),
            _ => 96 + (chance[8] & 31),
        };
        let mut salt = [0; 8];
        salt.copy_from_slice(&chance[..8]);
        KeyMaker { mode: options.key_mode, digest: options.key_digest, salt, count }
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.extend([self.mode, self.digest]);
        if self.mode != SIMPLE {
            out.extend(self.salt);
        }
        if self.mode == ITERATED {
            out.push(self.count);
        }
    }
    /// Reads it off the beginning of a packet; what is behind.
    fn read(bytes: &[u8]) -> Result<(KeyMaker, &[u8])> {
        let (head, mut rest) = bytes.split_at_checked(2).ok_or_else(corrupt)?;
        let mut maker = KeyMaker { mode: head[0], digest: head[1], salt: [0; 8], count: 0 };
        if !matches!(maker.mode, SIMPLE | SALTED | ITERATED) {
            return Err(failed("Bad S2K mode"));
        }
        if maker.mode != SIMPLE {
            let (salt, behind) = rest.split_at_checked(8).ok_or_else(corrupt)?;
            maker.salt.copy_from_slice(salt);
            rest = behind;
        }
        if maker.mode == ITERATED {
            let (count, behind) = rest.split_first().ok_or_else(corrupt)?;
            (maker.count, rest) = (*count, behind);
        }
        Ok((maker, rest))
    }
    fn key(&self, password: &[u8], len: usize) -> Result<Vec<u8>> {
        match self.digest {
            MD5 => self.key_by::<md5::Md5>(password, len),
            SHA1 => self.key_by::<sha1::Sha1>(password, len),
            SHA256 => self.key_by::<sha2::Sha256>(password, len),
            SHA384 => self.key_by::<sha2::Sha384>(password, len),
            SHA512 => self.key_by::<sha2::Sha512>(password, len),
            _ => Err(unsupported_digest()),
        }
    }
    fn key_by<D: Digest>(&self, password: &[u8], len: usize) -> Result<Vec<u8>> {
        let mut unit = if self.mode == SIMPLE { Vec::new() } else { self.salt.to_vec() };
        pieces::append(&mut unit, password)?;
        let total = if self.mode == ITERATED { decoded_count(self.count).max(unit.len()) } else { unit.len() };
        let mut key = Vec::new();
        // A digest that is too short is followed by others, each of which begins with one more zero.
        for zeros in 0..len {
            if key.len() >= len {
                break;
            }
            let mut state = D::new_with_prefix(vec![0; zeros]);
            let (mut left, mut steps) = (total, SmallSteps::default());
            while left > 0 {
                let part = unit.get(..left).unwrap_or(&unit);
                steps.step(UNITS_PER_BYTE * part.len())?;
                state.update(part);
                left -= part.len();
            }
            key.extend_from_slice(&state.finalize());
        }
        key.truncate(len);
        Ok(key)
    }
}

// ---- packets ----

fn push_len(out: &mut Vec<u8>, len: usize) {
    match len {
        0..=191 => out.push(len as u8),
        192..=8383 => out.extend([192 + ((len - 192) >> 8) as u8, (len - 192) as u8]),
        _ => {
            out.push(255);
            out.extend((len as u32).to_be_bytes());
        }
    }
}
fn push_packet(out: &mut Vec<u8>, tag: u8, body: &[u8]) -> Result<()> {
    out.push(0xc0 | tag);
    let mut chunks = body.chunks_exact(1 << CHUNK_POWER);
    for chunk in &mut chunks {
        work::step(chunk.len() / 4)?;
        out.push(0xe0 | CHUNK_POWER);
        out.extend_from_slice(chunk);
    }
    push_len(out, chunks.remainder().len());
    out.extend_from_slice(chunks.remainder());
    Ok(())
}

/// Packets one behind the other.
struct Packets<'a> {
    rest: &'a [u8],
}

impl<'a> Packets<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or_else(corrupt)?;
        self.rest = rest;
        Ok(taken)
    }
    fn number(&mut self, bytes: usize) -> Result<usize> {
        Ok(self.take(bytes)?.iter().fold(0, |out, byte| out << 8 | usize::from(*byte)))
    }
    /// A length of the new form; true: a chunk of that length, and more to come.
    fn new_len(&mut self) -> Result<(usize, bool)> {
        Ok(match self.number(1)? {
            len @ 0..=191 => (len, false),
            high @ 192..=223 => (((high - 192) << 8) + 192 + self.number(1)?, false),
            255 => (self.number(4)?, false),
            power => (1 << (power & 31), true),
        })
    }
    /// The next packet's tag and body; None: there are no more.
    fn next(&mut self) -> Result<Option<(u8, Cow<'a, [u8]>)>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let head = self.number(1)? as u8;
        if head & 0x80 == 0 {
            return Err(corrupt());
        }
        if head & 0x40 == 0 {
            let len = match head & 3 {
                3 => self.rest.len(),
                power => self.number(1 << power)?,
            };
            return Ok(Some((head >> 2 & 15, Cow::Borrowed(self.take(len)?))));
        }
        let (len, mut has_more) = self.new_len()?;
        let mut body = Cow::Borrowed(self.take(len)?);
        while has_more {
            let len;
            (len, has_more) = self.new_len()?;
            pieces::append(body.to_mut(), self.take(len)?)?;
        }
        Ok(Some((head & 63, body)))
    }
}

// ---- encryption ----

fn sha1_of(parts: &[&[u8]]) -> Result<Vec<u8>> {
    let mut state = sha1::Sha1::new();
    for part in parts {
        for piece in pieces::of_bytes(part, UNITS_PER_BYTE) {
            state.update(piece?);
        }
    }
    Ok(state.finalize().to_vec())
}

fn literal(data: &[u8], is_text: bool, options: &PgpOptions, ctx: &EvalContext<'_>) -> Result<Vec<u8>> {
    let kind = match (is_text, options.is_unicode) {
        (false, _) => b'b',
        (true, false) => b't',
        (true, true) => b'u',
    };
    let seconds = (ctx.host.clock_unix_micros() / 1_000_000) as u32;
    let mut body = vec![kind, 0];
    body.extend(seconds.to_be_bytes());
    if is_text && options.converts_line_ends {
        for line in work::steps(data.split_inclusive(|byte| *byte == b'\n'), 20) {
            let line = line?;
            match line.strip_suffix(b"\n") {
                Some(text) => body.extend(text.iter().chain(b"\r\n")),
                None => body.extend_from_slice(line),
            }
        }
    } else {
        pieces::append(&mut body, data)?;
    }
    let mut out = Vec::new();
    push_packet(&mut out, LITERAL, &body)?;
    Ok(out)
}

fn compressed(packets: Vec<u8>, options: &PgpOptions) -> Result<Vec<u8>> {
    let level = options.compression_level;
    let mut body = vec![options.compression];
    body.extend(match options.compression {
        _ if level == 0 => return Ok(packets),
        NO_COMPRESSION => return Ok(packets),
        ZIP => work::apart(|| miniz_oxide::deflate::compress_to_vec(&packets, level))?,
        ZLIB => work::apart(|| miniz_oxide::deflate::compress_to_vec_zlib(&packets, level))?,
        _ => return Err(unsupported_compression()),
    });
    let mut out = Vec::new();
    push_packet(&mut out, COMPRESSED, &body)?;
    Ok(out)
}

/// The key of the data, and the packet that leads to it.
fn session_key(password: &[u8], options: &PgpOptions, ctx: &EvalContext<'_>) -> Result<(Vec<u8>, Vec<u8>)> {
    let key_cipher = options.key_cipher.unwrap_or(options.cipher);
    let maker = KeyMaker::new(options, ctx);
    let key = maker.key(password, key_cipher.key_bytes())?;
    let mut packet = vec![4, key_cipher.number()];
    maker.write(&mut packet);
    if !options.has_session_key {
        return Ok((key, packet));
    }
    let mut own = vec![0; options.cipher.key_bytes()];
    ctx.host.random_bytes(&mut own);
    let mut hidden = vec![options.cipher.number()];
    hidden.extend_from_slice(&own);
    cfb(key_cipher, &key, &[], &mut hidden, true)?;
    packet.extend(hidden);
    Ok((own, packet))
}

/// Data and password, and what the third argument says.
pub(crate) struct PgpCall<'a> {
    pub data: &'a [u8],
    pub password: &'a [u8],
    pub options: &'a str,
    pub is_text: bool,
}

pub(crate) fn encrypt(call: &PgpCall<'_>, ctx: &EvalContext<'_>) -> Result<Vec<u8>> {
    let (options, _) = PgpOptions::parse(call.options)?;
    if call.password.is_empty() {
        return Err(illegal());
    }
    let packets = compressed(literal(call.data, call.is_text, &options, ctx)?, &options)?;
    let (key, key_packet) = session_key(call.password, &options, ctx)?;
    // A block of chance, whose end is repeated: who decrypts sees by it whether the key is right.
    let size = options.cipher.block_bytes();
    let mut head = vec![0; size];
    ctx.host.random_bytes(&mut head);
    head.extend_from_within(size - 2..);
    let mut out = Vec::new();
    push_packet(&mut out, SESSION_KEY, &key_packet)?;
    if options.is_unchecked {
        cfb(options.cipher, &key, &[], &mut head, true)?;
        let mut rest = packets;
        cfb(options.cipher, &key, head.get(2..).unwrap_or(&[]), &mut rest, true)?;
        pieces::append(&mut head, &rest)?;
        push_packet(&mut out, ENCRYPTED, &head)?;
        return Ok(out);
    }
    let digest = sha1_of(&[&head, &packets, &DIGEST_HEAD])?;
    let mut all = pieces::concat_bytes(&[&head, &packets, &DIGEST_HEAD, &digest])?;
    cfb(options.cipher, &key, &[], &mut all, true)?;
    push_packet(&mut out, CHECKED, &pieces::concat_bytes(&[&[1], &all])?)?;
    Ok(out)
}

// ---- decryption ----

/// The key of the data as the packet says, and what it says of the message.
fn found_key(packet: &[u8], password: &[u8], found: &mut PgpOptions) -> Result<Vec<u8>> {
    let [4, key_cipher, rest @ ..] = packet else { return Err(corrupt()) };
    let (maker, hidden) = KeyMaker::read(rest)?;
    let key_cipher = PgpCipher::of(*key_cipher).ok_or_else(unsupported_cipher)?;
    let key = maker.key(password, key_cipher.key_bytes())?;
    (found.key_mode, found.key_digest, found.key_cipher) = (maker.mode, maker.digest, Some(key_cipher));
    if hidden.is_empty() {
        found.cipher = key_cipher;
        return Ok(key);
    }
    let mut own = hidden.to_vec();
    cfb(key_cipher, &key, &[], &mut own, false)?;
    found.has_session_key = true;
    // With a wrong password anything comes of it.
    let cipher = own.first().and_then(|number| PgpCipher::of(*number)).ok_or_else(corrupt)?;
    found.cipher = cipher;
    let own = own.split_off(1);
    if own.len() == cipher.key_bytes() { Ok(own) } else { Err(corrupt()) }
}

/// The packets within the encrypted one.
fn decrypted(body: &[u8], key: &[u8], cipher: PgpCipher, is_checked: bool) -> Result<Vec<u8>> {
    let size = cipher.block_bytes();
    let body = if is_checked { body.strip_prefix(&[1]).ok_or_else(corrupt)? } else { body };
    let (head, rest) = body.split_at_checked(size + 2).ok_or_else(corrupt)?;
    let mut opened = head.to_vec();
    cfb(cipher, key, &[], &mut opened, false)?;
    let mut data = Vec::new();
    if is_checked {
        pieces::append(&mut data, body)?;
        cfb(cipher, key, &[], &mut data, false)?;
        data.drain(..size + 2);
    } else {
        pieces::append(&mut data, rest)?;
        cfb(cipher, key, head.get(2..).unwrap_or(&[]), &mut data, false)?;
    }
    if opened.get(size - 2..size) != opened.get(size..) {
        return Err(corrupt());
    }
    if is_checked {
        let left = data.len().checked_sub(DIGEST_HEAD.len() + 20).ok_or_else(corrupt)?;
        let digest = data.split_off(left);
        let is_right = digest.strip_prefix(&DIGEST_HEAD).is_some_and(|found| found.len() == 20);
        if !is_right || sha1_of(&[&opened, &data, &DIGEST_HEAD])? != digest.get(2..).unwrap_or(&[]) {
            return Err(corrupt());
        }
    }
    Ok(data)
}

fn expanded(body: &[u8], found: &mut PgpOptions) -> Result<Vec<u8>> {
    let (kind, rest) = body.split_first().ok_or_else(corrupt)?;
    found.compression = *kind;
    let made = match *kind {
        NO_COMPRESSION => return Ok(rest.to_vec()),
        ZIP => work::apart(|| miniz_oxide::inflate::decompress_to_vec_with_limit(rest, BYTES_MAX))?,
        ZLIB => work::apart(|| miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(rest, BYTES_MAX))?,
        3 => return Err(unsupported_compression()),
        _ => return Err(corrupt()),
    };
    made.map_err(|_| corrupt())
}

/// The data of the literal among packets.
fn literal_of(packets: &[u8], call: &PgpCall<'_>, options: &PgpOptions, found: &mut PgpOptions) -> Result<Vec<u8>> {
    let mut list = Packets { rest: packets };
    let first = list.next()?.ok_or_else(corrupt)?;
    if !list.rest.is_empty() {
        return Err(corrupt());
    }
    let body = match first {
        (LITERAL, body) => body,
        (COMPRESSED, body) => {
            let inner = expanded(&body, found)?;
            let mut list = Packets { rest: &inner };
            match list.next()? {
                Some((LITERAL, body)) if list.rest.is_empty() => Cow::Owned(body.into_owned()),
                _ => return Err(corrupt()),
            }
        }
        _ => return Err(corrupt()),
    };
    let [kind, name_len, rest @ ..] = &*body else { return Err(corrupt()) };
    // The name of a file, and four bytes of time.
    let data = rest.get(usize::from(*name_len) + 4..).ok_or_else(corrupt)?;
    if call.is_text && !matches!(kind, b't' | b'u') {
        return Err(failed("Not text data"));
    }
    found.is_unicode = *kind == b'u';
    if !(call.is_text && options.converts_line_ends) {
        return pieces::concat_bytes(&[data]);
    }
    let (mut out, mut steps) = (Vec::with_capacity(data.len()), SmallSteps::default());
    for (at, byte) in data.iter().enumerate() {
        steps.step(2)?;
        if *byte != b'\r' || data.get(at + 1) != Some(&b'\n') {
            out.push(*byte);
        }
    }
    Ok(out)
}

pub(crate) fn decrypt(call: &PgpCall<'_>, ctx: &EvalContext<'_>) -> Result<Vec<u8>> {
    let (options, expected) = PgpOptions::parse(call.options)?;
    if call.password.is_empty() {
        return Err(illegal());
    }
    let (mut found, mut key, mut out) = (PgpOptions::default(), None, None);
    let mut packets = Packets { rest: call.data };
    while let Some((tag, body)) = packets.next()? {
        match (tag, &key, &out) {
            (MARKER, ..) => {}
            (SESSION_KEY, None, None) => key = Some(found_key(&body, call.password, &mut found)?),
            (ENCRYPTED | CHECKED, Some(key), None) => {
                found.is_unchecked = tag == ENCRYPTED;
                let inner = decrypted(&body, key, found.cipher, tag == CHECKED)?;
                out = Some(literal_of(&inner, call, &options, &mut found)?);
            }
            _ => return Err(corrupt()),
        }
    }
    let out = out.ok_or_else(corrupt)?;
    found.compare(&expected, ctx);
    Ok(out)
}
