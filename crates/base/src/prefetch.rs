//! Memory on its way to the processor's cache before it is needed.
//!
//! With thousands of sessions, each one's state has left the cache by the time its next message comes. Whoever knows
//! what will be touched soon asks for it and does something else in the meantime (docs/decisions/0005).

/// Bytes that processors load at once.
pub const LINE_BYTES: usize = 64;

/// Asks for the bytes of `value` itself, not for what it points to. Changes nothing but the time that touching it
/// takes.
#[inline]
pub fn prefetch<T: ?Sized>(value: &T) {
    let start = std::ptr::from_ref(value).cast::<u8>() as usize;
    (start..start + std::mem::size_of_val(value)).step_by(LINE_BYTES).for_each(ask::<false>);
}

/// All lines of something that is read as a whole in a moment.
#[inline]
pub fn fetch_range(from: usize, bytes: usize) {
    (from..from + bytes + LINE_BYTES).step_by(LINE_BYTES).for_each(fetch);
}

/// The cache line of an address, which is touched in a moment. It may be of what is gone.
#[inline]
pub fn fetch(address: usize) {
    ask::<true>(address);
}

/// The cache line of an address that is written to in a moment: it comes as this core's own, so that the write need not ask the
/// others for it again.
#[inline]
pub fn fetch_to_write(address: usize) {
    // SAFETY: a hint, which reads and writes no memory that the program could see and never faults, whatever the address;
    // processors that do not know it take it for no operation.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// `SOON`: into the cache that is nearest.
#[inline]
fn ask<const SOON: bool>(address: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        let address = address as *const i8;
        // SAFETY: a hint, which reads and writes nothing and never faults, whatever the address.
        unsafe { if SOON { _mm_prefetch::<_MM_HINT_T0>(address) } else { _mm_prefetch::<_MM_HINT_T1>(address) } };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
