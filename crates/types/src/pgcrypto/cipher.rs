//! encrypt() and decrypt(): block ciphers with their modes and padding, as OpenSSL has them.

use super::{algorithm_name, failed, invalid};
use aes::cipher::generic_array::GenericArray;
use aes::cipher::{BlockCipher, BlockDecrypt, BlockEncrypt, KeyInit};
use kilndb_base::work::SmallSteps;
use kilndb_base::{Error, Result};

/// What a byte is taken for that is encrypted.
const UNITS_PER_BYTE: usize = 10;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Aes,
    Blowfish,
    Cast5,
    Des,
    TripleDes,
}

impl Algorithm {
    /// Of a longer key only so much counts.
    fn key_bytes_max(self) -> usize {
        match self {
            Algorithm::Aes => 32,
            Algorithm::Blowfish => 56,
            Algorithm::Cast5 => 16,
            Algorithm::Des => 8,
            Algorithm::TripleDes => 24,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Cbc,
    /// Each block is encrypted on its own.
    Ecb,
    /// Bytes are combined with what encrypting the block before has made: no padding, any length.
    Cfb,
}

/// What the third argument says.
pub(crate) struct CipherName {
    algorithm: Algorithm,
    mode: Mode,
    is_padded: bool,
}

impl CipherName {
    /// `algorithm[-mode][/pad:padding]`.
    pub fn parse(name: &str) -> Result<CipherName> {
        let name = algorithm_name(name);
        let wrong = |what: &str| invalid(format!("Cannot use \"{name}\": {what}"));
        let none = || wrong("No such cipher algorithm");
        let mut parts = name.split('/');
        let cipher = parts.next().unwrap_or("");
        let mut padding = None;
        for part in parts.filter(|part| !part.is_empty()) {
            match part.split_once(':') {
                Some(("pad", value)) => padding = Some(value),
                Some(_) => return Err(wrong("Unknown option")),
                None => return Err(wrong("Badly formatted type")),
            }
        }
        let (algorithm, mode) = algorithm_and_mode(cipher).ok_or_else(none)?;
        let is_padded = match padding {
            None | Some("pkcs") => true,
            Some("none") => false,
            Some(_) => return Err(none()),
        };
        Ok(CipherName { algorithm, mode, is_padded })
    }
}

fn algorithm_and_mode(name: &str) -> Option<(Algorithm, Mode)> {
    use Algorithm::*;
    let (algorithm, mode) = match name.split_once('-') {
        Some((algorithm, "cbc")) => (algorithm, Mode::Cbc),
        Some((algorithm, "ecb")) => (algorithm, Mode::Ecb),
        Some((algorithm, "cfb")) => (algorithm, Mode::Cfb),
        Some(_) => return None,
        // This one has no short name.
        None if name == "des3" => return None,
        None => (name, Mode::Cbc),
    };
    let algorithm = match algorithm {
        "aes" | "rijndael" => Aes,
        "bf" | "blowfish" => Blowfish,
        "cast5" => Cast5,
        "des" => Des,
        "3des" | "des3" => TripleDes,
        _ => return None,
    };
    let has_mode = mode != Mode::Cfb || matches!(algorithm, Aes | Blowfish);
    has_mode.then_some((algorithm, mode))
}

/// A cipher with its key.
trait Blocks {
    fn size(&self) -> usize;
    fn encrypt(&self, block: &mut [u8]);
    fn decrypt(&self, block: &mut [u8]);
}

struct Keyed<C>(C);

impl<C: BlockCipher + BlockEncrypt + BlockDecrypt> Blocks for Keyed<C> {
    fn size(&self) -> usize {
        C::block_size()
    }
    fn encrypt(&self, block: &mut [u8]) {
        self.0.encrypt_block(GenericArray::from_mut_slice(block));
    }
    fn decrypt(&self, block: &mut [u8]) {
        self.0.decrypt_block(GenericArray::from_mut_slice(block));
    }
}

/// The key, filled up with zeros to so many bytes.
fn filled(key: &[u8], len: usize) -> Vec<u8> {
    let mut out = key.to_vec();
    out.resize(len, 0);
    out
}

fn keyed<C>(key: &[u8]) -> Result<Box<dyn Blocks>>
where
    C: BlockCipher + BlockEncrypt + BlockDecrypt + KeyInit + 'static,
{
    let cipher = C::new_from_slice(key).map_err(|_| Error::internal("a cipher does not take its key"))?;
    Ok(Box::new(Keyed(cipher)))
}

/// None: with that key the cipher is not to be had.
fn with_key(algorithm: Algorithm, key: &[u8]) -> Result<Option<Box<dyn Blocks>>> {
    let key = key.get(..algorithm.key_bytes_max()).unwrap_or(key);
    let has_key = !key.is_empty();
    Ok(Some(match algorithm {
        Algorithm::Aes if key.len() <= 16 => keyed::<aes::Aes128>(&filled(key, 16))?,
        Algorithm::Aes if key.len() <= 24 => keyed::<aes::Aes192>(&filled(key, 24))?,
        Algorithm::Aes => keyed::<aes::Aes256>(&filled(key, 32))?,
        // The cipher goes around its key, which may be repeated therefore; the crate wants four bytes at least.
        Algorithm::Blowfish if has_key && key.len() < 4 => keyed::<blowfish::Blowfish>(&key.repeat(4))?,
        Algorithm::Blowfish if has_key => keyed::<blowfish::Blowfish>(key)?,
        // The cipher fills its key up with zeros; the crate wants five bytes at least.
        Algorithm::Cast5 if has_key => keyed::<cast5::Cast5>(&filled(key, key.len().max(5)))?,
        Algorithm::Des => keyed::<des::Des>(&filled(key, 8))?,
        Algorithm::TripleDes => keyed::<des::TdesEde3>(&filled(key, 24))?,
        Algorithm::Blowfish | Algorithm::Cast5 => return Ok(None),
    }))
}

fn combine(block: &mut [u8], with: &[u8]) {
    block.iter_mut().zip(with).for_each(|(a, b)| *a ^= b);
}

/// A cipher that is ready for data: with its key, and what the first block is combined with.
struct Ready {
    blocks: Box<dyn Blocks>,
    name: CipherName,
    before: Vec<u8>,
}

/// `call` is the function's name, for messages.
fn ready(name: CipherName, key: &[u8], start: &[u8], call: &str) -> Result<Ready> {
    let blocks =
        with_key(name.algorithm, key)?.ok_or_else(|| failed(format!("{call} error: Cipher cannot be initialized")))?;
    let size = blocks.size();
    let before = filled(start.get(..size).unwrap_or(start), size);
    Ok(Ready { blocks, name, before })
}

impl Ready {
    fn is_padded(&self) -> bool {
        self.name.is_padded && self.name.mode != Mode::Cfb
    }
    fn is_whole(&self, data: &[u8]) -> bool {
        self.name.mode == Mode::Cfb || data.len().is_multiple_of(self.blocks.size())
    }
    fn encrypt(mut self, data: &mut [u8]) -> Result<()> {
        let mut steps = SmallSteps::default();
        for block in data.chunks_mut(self.blocks.size()) {
            steps.step(UNITS_PER_BYTE * self.blocks.size())?;
            match self.name.mode {
                Mode::Ecb => self.blocks.encrypt(block),
                Mode::Cbc => {
                    combine(block, &self.before);
                    self.blocks.encrypt(block);
                    self.before.copy_from_slice(block);
                }
                Mode::Cfb => {
                    self.blocks.encrypt(&mut self.before);
                    combine(block, &self.before);
                    self.before.iter_mut().zip(block).for_each(|(to, from)| *to = *from);
                }
            }
        }
        Ok(())
    }
    fn decrypt(mut self, data: &mut [u8]) -> Result<()> {
        let mut steps = SmallSteps::default();
        for block in data.chunks_mut(self.blocks.size()) {
            steps.step(UNITS_PER_BYTE * self.blocks.size())?;
            let encrypted = block.to_vec();
            match self.name.mode {
                Mode::Ecb => self.blocks.decrypt(block),
                Mode::Cbc => {
                    self.blocks.decrypt(block);
                    combine(block, &self.before);
                }
                Mode::Cfb => {
                    self.blocks.encrypt(&mut self.before);
                    combine(block, &self.before);
                }
            }
            self.before.iter_mut().zip(encrypted).for_each(|(to, from)| *to = from);
        }
        Ok(())
    }
}

/// What is encrypted or decrypted, and with what.
pub(crate) struct Operands<'a> {
    pub data: &'a [u8],
    pub key: &'a [u8],
    /// What the first block is combined with; filled up with zeros.
    pub start: &'a [u8],
    /// The name of the function, for messages.
    pub call: &'static str,
}

pub(crate) fn encrypt(name: &str, operands: &Operands<'_>) -> Result<Vec<u8>> {
    let ready = ready(CipherName::parse(name)?, operands.key, operands.start, operands.call)?;
    let mut out = Vec::new();
    crate::pieces::append(&mut out, operands.data)?;
    if ready.is_padded() {
        let size = ready.blocks.size();
        let padding = size - out.len() % size;
        out.resize(out.len() + padding, padding as u8);
    }
    if !ready.is_whole(&out) {
        return Err(failed(format!("{} error: Encryption failed", operands.call)));
    }
    ready.encrypt(&mut out)?;
    Ok(out)
}

pub(crate) fn decrypt(name: &str, operands: &Operands<'_>) -> Result<Vec<u8>> {
    let wrong = || failed(format!("{} error: Decryption failed", operands.call));
    let ready = ready(CipherName::parse(name)?, operands.key, operands.start, operands.call)?;
    let mut out = Vec::new();
    crate::pieces::append(&mut out, operands.data)?;
    if out.is_empty() {
        return if ready.name.is_padded { Err(wrong()) } else { Ok(out) };
    }
    if !ready.is_whole(&out) {
        return Err(wrong());
    }
    let (is_padded, size) = (ready.is_padded(), ready.blocks.size());
    ready.decrypt(&mut out)?;
    if is_padded {
        let padding = usize::from(out.last().copied().unwrap_or(0));
        let left = out.len().checked_sub(padding).filter(|_| (1..=size).contains(&padding)).ok_or_else(wrong)?;
        if out.iter().skip(left).any(|byte| usize::from(*byte) != padding) {
            return Err(wrong());
        }
        out.truncate(left);
    }
    Ok(out)
}

/// A cipher of OpenPGP.
#[derive(Clone, Copy)]
pub(super) struct PgpCipher {
    number: u8,
    algorithm: Algorithm,
    key_bytes: usize,
    block_bytes: usize,
}

const fn pgp_cipher(number: u8, algorithm: Algorithm, key_bytes: usize, block_bytes: usize) -> PgpCipher {
    PgpCipher { number, algorithm, key_bytes, block_bytes }
}

const PGP_CIPHERS: [PgpCipher; 6] = [
    pgp_cipher(2, Algorithm::TripleDes, 24, 8),
    pgp_cipher(3, Algorithm::Cast5, 16, 8),
    pgp_cipher(4, Algorithm::Blowfish, 16, 8),
    PgpCipher::AES128,
    pgp_cipher(8, Algorithm::Aes, 24, 16),
    pgp_cipher(9, Algorithm::Aes, 32, 16),
];

impl PgpCipher {
    pub const AES128: PgpCipher = pgp_cipher(7, Algorithm::Aes, 16, 16);

    /// The cipher with that number in RFC 4880.
    pub fn of(number: u8) -> Option<PgpCipher> {
        PGP_CIPHERS.iter().find(|cipher| cipher.number == number).copied()
    }
    pub fn named(name: &str) -> Option<PgpCipher> {
        PgpCipher::of(match name {
            "3des" => 2,
            "cast5" => 3,
            "bf" | "blowfish" => 4,
            "aes" | "aes128" => 7,
            "aes192" => 8,
            "aes256" => 9,
            _ => return None,
        })
    }
    pub fn number(self) -> u8 {
        self.number
    }
    pub fn key_bytes(self) -> usize {
        self.key_bytes
    }
    pub fn block_bytes(self) -> usize {
        self.block_bytes
    }
}

/// Encrypts or decrypts in the mode that OpenPGP has.
pub(super) fn cfb(cipher: PgpCipher, key: &[u8], start: &[u8], data: &mut [u8], encrypts: bool) -> Result<()> {
    let name = CipherName { algorithm: cipher.algorithm, mode: Mode::Cfb, is_padded: false };
    let ready = ready(name, key, start, "pgp")?;
    if encrypts { ready.encrypt(data) } else { ready.decrypt(data) }
}
