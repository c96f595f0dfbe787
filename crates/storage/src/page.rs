//! The page: size, header, and raw access for optimistic readers.
//!
//! Invariants
//! 1. Header offsets below are the on-disk format (docs/format.md).
//! 2. A page of zeros is valid and uninitialised.
//! 3. The checksum is right only in the copy that goes to disk.
//! 4. A [`PageView`] may show torn data: whoever reads through it validates the page's version before it
//!    believes anything, and no offset read from it is used unchecked.
//!
//! Must not know: what heap and tree pages look like inside.

use crate::crc::crc32c;

pub const PAGE: usize = 8192;
pub(crate) type PageBytes = [u8; PAGE];
pub(crate) const HEADER: usize = 32;

pub mod at {
    pub const CRC: usize = 0;
    pub const KIND: usize = 4;
    pub(crate) const FLAGS: usize = 5;
    /// B+tree level; unused elsewhere.
    pub const LEVEL: usize = 6;
    pub(crate) const REL: usize = 8;
    pub const BLOCK: usize = 12;
    pub const LSN: usize = 16;
    /// Slots in use (heap: highest slot; tree: entries).
    pub const COUNT: usize = 24;
    /// Start of the data area, which reaches to the end of the page.
    pub(crate) const UPPER: usize = 26;
    /// The offset of the number of bytes in the data area that no item uses.
    pub(crate) const GARBAGE: usize = 28;
    pub(crate) const AUX: usize = 30;
}
const _: () = assert!(at::AUX + 2 == HEADER && at::LSN.is_multiple_of(8));

pub const KIND_HEAP: u8 = 1;
pub const KIND_TREE: u8 = 2;
pub const KIND_CELL: u8 = 3;
pub(crate) const KIND_UNDO: u8 = 4;
pub(crate) const KIND_FREE: u8 = 5;

pub(crate) const FLAG_UNLOGGED: u8 = 1;
pub(crate) const FLAG_TEMPORARY: u8 = 2;

#[inline]
pub(crate) fn get16(p: &PageBytes, off: usize) -> usize {
    usize::from(u16::from_le_bytes([p[off], p[off + 1]]))
}
#[inline]
pub(crate) fn put16(p: &mut PageBytes, off: usize, v: usize) {
    p[off..off + 2].copy_from_slice(&(v as u16).to_le_bytes());
}
#[inline]
pub(crate) fn get32(p: &PageBytes, off: usize) -> u32 {
    u32::from_le_bytes([p[off], p[off + 1], p[off + 2], p[off + 3]])
}
#[inline]
pub(crate) fn put32(p: &mut PageBytes, off: usize, v: u32) {
    p[off..off + 4].copy_from_slice(&v.to_le_bytes());
}
#[inline]
pub(crate) fn get64(p: &[u8], off: usize) -> u64 {
    let mut b = [0; 8];
    b.copy_from_slice(&p[off..off + 8]);
    u64::from_le_bytes(b)
}
#[inline]
pub(crate) fn put64(p: &mut [u8], off: usize, v: u64) {
    p[off..off + 8].copy_from_slice(&v.to_le_bytes());
}
#[inline]
pub fn lsn(p: &PageBytes) -> u64 {
    get64(p, at::LSN)
}
#[inline]
pub(crate) fn set_lsn(p: &mut PageBytes, v: u64) {
    put64(p, at::LSN, v);
}
pub fn format(p: &mut PageBytes, kind: u8, flags: u8, level: u8, rel: u32, block: u32) {
    p.fill(0);
    p[at::KIND] = kind;
    p[at::FLAGS] = flags;
    p[at::LEVEL] = level;
    put32(p, at::REL, rel);
    put32(p, at::BLOCK, block);
    put16(p, at::UPPER, PAGE);
}
pub(crate) fn seal(p: &mut PageBytes) {
    let crc = crc32c(&p[4..]);
    put32(p, at::CRC, crc);
}
/// A page as read from disk: sums up, or is all zeros.
pub(crate) fn is_intact(p: &PageBytes) -> bool {
    if p[at::KIND] == 0 && p.iter().all(|&b| b == 0) {
        return true;
    }
    get32(p, at::CRC) == crc32c(&p[4..])
}

/// Racy read access to a page in the pool.
#[derive(Clone, Copy)]
pub(crate) struct PageView {
    ptr: *const u8,
}

impl PageView {
    /// # Safety
    /// `ptr` is the start of a mapped page of the pool (its contents may change at any time).
    pub unsafe fn new(ptr: *const u8) -> PageView {
        PageView { ptr }
    }
    pub fn of(p: &PageBytes) -> PageView {
        PageView { ptr: p.as_ptr() }
    }
    #[inline]
    pub fn u8(&self, off: usize) -> u8 {
        if off >= PAGE {
            return 0;
        }
        // SAFETY: in bounds; volatile, so the value is read once and not again after a check.
        unsafe { self.ptr.add(off).read_volatile() }
    }
    #[inline]
    pub fn u16(&self, off: usize) -> usize {
        if off + 2 > PAGE {
            return 0;
        }
        // SAFETY: in bounds; aligned or read bytewise.
        unsafe {
            if off & 1 == 0 {
                usize::from(u16::from_le(self.ptr.add(off).cast::<u16>().read_volatile()))
            } else {
                usize::from(self.ptr.add(off).read_volatile()) | usize::from(self.ptr.add(off + 1).read_volatile()) << 8
            }
        }
    }
    #[inline]
    pub fn u32(&self, off: usize) -> u32 {
        self.u16(off) as u32 | (self.u16(off + 2) as u32) << 16
    }
    #[inline]
    pub fn u64(&self, off: usize) -> u64 {
        if off + 8 > PAGE {
            return 0;
        }
        // SAFETY: in bounds. A torn value is caught by the version check.
        unsafe { self.ptr.add(off).cast::<u64>().read_unaligned().to_le() }
    }
    /// Six bytes, also where the page ends right after them.
    #[inline]
    pub(crate) fn u48(&self, off: usize) -> u64 {
        if off + 8 <= PAGE {
            return self.u64(off) & 0xffff_ffff_ffff;
        }
        u64::from(self.u32(off)) | (self.u16(off + 4) as u64) << 32
    }
    /// Bytes that may change while they are looked at: copy or compare them, then validate.
    #[inline]
    pub fn bytes(&self, off: usize, len: usize) -> Option<&[u8]> {
        if off.checked_add(len)? > PAGE {
            return None;
        }
        // SAFETY: in bounds of a page mapped for as long as the pool lives. Writers may race; the
        // bytes are plain data and the reader validates afterwards (invariant 4).
        Some(unsafe { std::slice::from_raw_parts(self.ptr.add(off), len) })
    }
    pub fn is(&self, kind: u8, rel: u32, block: u32) -> bool {
        self.u8(at::KIND) == kind && self.u32(at::REL) == rel && self.u32(at::BLOCK) == block
    }
}
