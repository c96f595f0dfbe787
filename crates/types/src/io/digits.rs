//! Decimal digits written two at a time, from the last one on: half as many divisions as digits.

const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut n = 0;
    while n < 100 {
        pairs[n] = [b'0' + n as u8 / 10, b'0' + n as u8 % 10];
        n += 1;
    }
    pairs
};

/// The two digits of a number below 100.
#[inline(always)]
pub(crate) fn pair(n: u32) -> [u8; 2] {
    PAIRS[(n % 100) as usize]
}

/// The four digits of a number below 10000.
#[inline(always)]
pub(crate) fn four(n: u32) -> [u8; 4] {
    let ([a, b], [c, d]) = (pair(n / 100), pair(n));
    [a, b, c, d]
}

/// Writes a number so that it ends before `end`; returns where it begins. There is room for it.
#[inline]
pub(crate) fn write_before(out: &mut [u8], end: usize, mut n: u64) -> usize {
    let mut at = end;
    while n >= 100 {
        at -= 2;
        out[at..at + 2].copy_from_slice(&PAIRS[(n % 100) as usize]);
        n /= 100;
    }
    if n >= 10 {
        at -= 2;
        out[at..at + 2].copy_from_slice(&PAIRS[n as usize]);
    } else {
        at -= 1;
        out[at] = b'0' + n as u8;
    }
    at
}

/// The same of a number that has so many digits, with zeros before it.
#[inline]
pub(crate) fn write_padded_before(out: &mut [u8], end: usize, mut n: u64, digits: usize) -> usize {
    let start = end - digits;
    let mut at = end;
    while at - start >= 2 {
        at -= 2;
        out[at..at + 2].copy_from_slice(&PAIRS[(n % 100) as usize]);
        n /= 100;
    }
    if at > start {
        out[start] = b'0' + (n % 10) as u8;
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_they_are_shown() {
        for n in (0..1100).chain([9999, 10_000, 123_456_789, u64::MAX]) {
            let mut out = [b'x'; 24];
            let at = write_before(&mut out, 22, n);
            assert_eq!((&out[at..22], out[22]), (n.to_string().as_bytes(), b'x'));
            let digits = n.to_string().len();
            for digits in [digits, digits + 1] {
                let at = write_padded_before(&mut out, 22, n, digits);
                assert_eq!(&out[at..22], format!("{n:0digits$}").as_bytes());
            }
        }
        assert_eq!((pair(7), four(2024), four(5)), (*b"07", *b"2024", *b"0005"));
    }
}
