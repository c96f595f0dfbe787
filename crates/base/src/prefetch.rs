//! Memory on its way to the processor's cache before it is needed.
//!
//! With thousands of sessions, each one's state has left the cache by the time its next message comes. Whoever knows what
//! will be touched soon asks for it and does something else in the meantime (docs/decisions/0005).

/// Bytes that processors load at once.
const LINE_BYTES: usize = 64;

/// Asks for the bytes of `value` itself, not for what it points to. Changes nothing but the time that touching it takes.
#[inline]
pub fn prefetch<T: ?Sized>(value: &T) {
    let start = std::ptr::from_ref(value).cast::<u8>();
    for offset in (0..std::mem::size_of_val(value)).step_by(LINE_BYTES) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a hint, which reads and writes nothing and never faults; the address lies within `value`.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T1>(start.add(offset).cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (start, offset);
    }
}
