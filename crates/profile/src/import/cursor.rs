// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The quick way through rows of the usual make.
//!
//! Recordings are millions of rows that look like the one before. A
//! [`Cursor`] walks over such a row eight bytes at a time, without branches
//! that depend on how long a number is, and answers `None` to anything it
//! does not expect: a shorter or longer form, an error, the end of what is
//! buffered. The row is then read again the thorough way, which alone
//! decides what is right and words the errors.

/// A place in buffered text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    text: &'a [u8],
    rest: &'a [u8],
}

const fn every(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// The bits below the first byte, in the order of the text, whose highest
/// bit is set in `marks`; 64 without one.
const fn bits_before(marks: u64) -> u32 {
    marks.trailing_zeros() & !7
}

/// Marks the bytes that are no digits, in a word less [`every`] `0`. Exact up
/// to the first one.
const fn no_digits(less_zero: u64) -> u64 {
    (less_zero.wrapping_add(every(0x76)) | less_zero) & every(0x80)
}

/// The number of eight digits, each less `0`, the first in the lowest byte.
/// Pairs are joined, then fours, then all.
const fn joined(digits: u64) -> u64 {
    const LOW: u64 = 0x0000_00ff_0000_00ff;
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let first = (pairs & LOW).wrapping_mul(100 + (1_000_000 << 32));
    let second = ((pairs >> 16) & LOW).wrapping_mul(1 + (10_000 << 32));
    first.wrapping_add(second) >> 32
}

/// The bits below the point of a number with one to five digits before it.
#[inline]
fn bits_before_point(word: u64) -> Option<u32> {
    let to_point = word ^ every(b'.');
    let point = to_point.wrapping_sub(every(1)) & !to_point & every(0x80);
    let bits = bits_before(point);
    (8..=40).contains(&bits).then_some(bits)
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, rest: text }
    }

    /// How many bytes were passed.
    #[inline]
    pub(super) fn passed(&self) -> usize {
        self.text.len() - self.rest.len()
    }

    #[inline]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next eight bytes, the first in the lowest one.
    #[inline]
    fn word(&self) -> Option<u64> {
        self.rest.first_chunk().map(|b| u64::from_le_bytes(*b))
    }

    #[inline]
    pub(super) fn skip(&mut self, bytes: usize) -> Option<()> {
        self.rest = self.rest.get(bytes..)?;
        Some(())
    }

    /// Passes over exactly this.
    #[inline]
    pub(super) fn text(&mut self, wanted: &[u8]) -> Option<()> {
        self.rest = self.rest.strip_prefix(wanted)?;
        Some(())
    }

    #[inline]
    pub(super) fn byte(&mut self, wanted: u8) -> Option<()> {
        match self.rest.split_first() {
            Some((first, rest)) if *first == wanted => {
                self.rest = rest;
                Some(())
            }
            _ => None,
        }
    }

    /// Blanks and line ends, if there are any.
    #[inline]
    pub(super) fn space(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    /// One blank or more.
    #[inline]
    pub(super) fn blanks(&mut self) -> Option<()> {
        let mut all = 0;
        loop {
            let bits = (self.word()? ^ every(b' ')).trailing_zeros() & !7;
            all += bits;
            self.skip(bits as usize / 8)?;
            if bits < 64 {
                return (all > 0).then_some(());
            }
        }
    }

    /// A whole number of up to 15 digits.
    #[inline]
    pub(super) fn whole(&mut self) -> Option<u64> {
        let (number, digits) = self.digits()?;
        if digits < 8 {
            return (digits > 0).then_some(number);
        }
        let (more, digits) = self.digits()?;
        (digits < 8).then(|| number * 10u64.pow(digits) + more)
    }

    /// Up to eight digits, and how many.
    #[inline]
    fn digits(&mut self) -> Option<(u64, u32)> {
        let less_zero = self.word()? ^ every(b'0');
        let bits = bits_before(no_digits(less_zero));
        self.skip(bits as usize / 8)?;
        // Leading zeros take the place of what is not there.
        let number = less_zero.checked_shl(64 - bits).map_or(0, joined);
        Some((number, bits / 8))
    }

    /// The number of a CPU that the kernel may have.
    #[inline]
    pub(super) fn cpu(&mut self) -> Option<u32> {
        let number = u32::try_from(self.whole()?).ok()?;
        (number <= crate::number::MAX_CPU).then_some(number)
    }

    /// A number with one to five digits before the point and two after it,
    /// as sysstat writes them all, times 100.
    #[inline]
    pub(super) fn hundredths(&mut self) -> Option<u32> {
        let word = self.word()?;
        let bits = bits_before_point(word)?;
        // The point is taken out and zeros are put before.
        let whole = word & ((1 << bits) - 1);
        let part = (word >> (bits + 8)) & 0xffff;
        let before = 48 - bits;
        let zeros = every(b'0') & ((1 << before) - 1);
        let less_zero = (((whole | part << bits) << before) | zeros) ^ every(b'0');
        if no_digits(less_zero) != 0 {
            return None;
        }
        self.skip(bits as usize / 8 + 3)?;
        Some(joined(less_zero) as u32)
    }

    /// Passes over what [`Cursor::hundredths`] would read; that it is a
    /// number is not looked at.
    #[inline]
    pub(super) fn skip_hundredths(&mut self) -> Option<()> {
        let bits = bits_before_point(self.word()?)?;
        self.skip(bits as usize / 8 + 3)
    }

    /// LF or CR LF.
    #[inline]
    pub(super) fn line_end(&mut self) -> Option<()> {
        if self.rest.first() == Some(&b'\r') {
            self.skip(1)?;
        }
        self.byte(b'\n')
    }

    /// Whatever is left of the line.
    #[inline]
    pub(super) fn rest_of_line(&mut self) -> Option<()> {
        self.skip(memchr::memchr(b'\n', self.rest)? + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::{decimal, whole};
    use proptest::prelude::*;

    #[test]
    fn a_row_of_the_usual_make() {
        let mut c = Cursor::new(b"cpu12   7;100.00 0.05 123456789012 \r\nnext line");
        assert_eq!((c.text(b"cpu"), c.cpu()), (Some(()), Some(12)));
        assert_eq!((c.blanks(), c.whole()), (Some(()), Some(7)));
        assert_eq!((c.byte(b';'), c.hundredths()), (Some(()), Some(10_000)));
        assert_eq!((c.blanks(), c.hundredths()), (Some(()), Some(5)));
        assert_eq!((c.blanks(), c.whole()), (Some(()), Some(123_456_789_012)));
        assert_eq!((c.blanks(), c.line_end()), (Some(()), Some(())));
        assert_eq!(c.rest(), b"next line");
    }

    #[test]
    fn what_is_not_expected() {
        for text in [
            "1.0 .......",
            ".50 ........",
            "1234567.00 ",
            "0,50 .......",
            "-1.00 .....",
        ] {
            assert_eq!(Cursor::new(text.as_bytes()).hundredths(), None, "{text}");
        }
        assert_eq!(Cursor::new(b"0.50").hundredths(), None, "too near the end");
        assert_eq!(Cursor::new(b"65536 ......").cpu(), None);
        assert_eq!(Cursor::new(b"x       ").whole(), None);
        assert_eq!(Cursor::new(b"x       ").blanks(), None);
        assert_eq!(Cursor::new(b"no end").rest_of_line(), None);
    }

    proptest! {
        #[test]
        fn numbers_are_those_of_the_thorough_way(
            text in "[0-9]{1,5}\\.[0-9]{2}|[0-9]{1,17}|[0-9.x -]{0,10}|\\PC{0,9}",
            then in "[; ]",
        ) {
            let all = format!("{text}{then}\n............");
            let field = text.as_bytes();
            let at_end = |c: &Cursor<'_>| c.passed() == field.len();
            let mut c = Cursor::new(all.as_bytes());
            if let Some(n) = c.hundredths().filter(|_| at_end(&c)) {
                prop_assert_eq!(decimal(field), Some(f64::from(n) / 100.0));
            } else {
                prop_assert!(!(4..=8).contains(&field.len()) || !is_usual(field));
            }
            let mut c = Cursor::new(all.as_bytes());
            if let Some(n) = c.whole().filter(|_| at_end(&c)) {
                prop_assert_eq!(whole(field), Some(n));
            } else {
                prop_assert!(field.len() > 15 || whole(field).is_none());
            }
        }
    }

    fn is_usual(field: &[u8]) -> bool {
        let (head, tail) = field.split_at(field.len() - 3);
        whole(head).is_some() && tail[0] == b'.' && whole(&tail[1..]).is_some()
    }
}
