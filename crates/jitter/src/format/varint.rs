// SPDX-License-Identifier: Apache-2.0 OR MIT
//! LEB128 (seven bits to a byte, the lowest first), and rows of such numbers.

use crate::{Fault, Span};

pub(super) fn push(into: &mut Vec<u8>, mut value: u64) {
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            into.push(byte);
            return;
        }
        into.push(byte | 0x80);
    }
}

/// Takes a number from the front; `None` if there is no whole one that fits.
pub(super) fn take(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

const BEYOND: Fault = Fault::Impossible("a time beyond 64 bits");

/// Appends what rows of events and of causes begin with.
pub(super) fn push_head(into: &mut Vec<u8>, cpu: u32, span: Span, count: usize) {
    let columns = 0;
    for value in [
        columns,
        u64::from(cpu),
        span.from_ns,
        span.length_ns(),
        count as u64,
    ] {
        push(into, value);
    }
}

/// The unread part of a row.
pub(super) struct RowReader<'a>(pub(super) &'a [u8]);

impl RowReader<'_> {
    pub(super) fn number(&mut self) -> Result<u64, Fault> {
        take(&mut self.0).ok_or(Fault::Impossible("it ends too early"))
    }

    pub(super) fn small(&mut self) -> Result<u32, Fault> {
        u32::try_from(self.number()?).map_err(|_| Fault::Impossible("a number that large"))
    }

    /// A number of items.
    pub(super) fn count(&mut self, most: usize, fault: &'static str) -> Result<usize, Fault> {
        let count = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        if count > most {
            Err(Fault::Impossible(fault))
        } else {
            Ok(count)
        }
    }

    /// A time, stored as its distance from `ns`.
    pub(super) fn time_after(&mut self, ns: u64) -> Result<u64, Fault> {
        ns.checked_add(self.number()?).ok_or(BEYOND)
    }

    /// The head of the row, without the count.
    pub(super) fn head(&mut self) -> Result<(u32, Span), Fault> {
        if self.number()? != 0 {
            return Err(Fault::Impossible("it has columns of a later version"));
        }
        let (cpu, from_ns) = (self.small()?, self.number()?);
        let until_ns = self.time_after(from_ns)?;
        Ok((cpu, Span { from_ns, until_ns }))
    }

    pub(super) fn text(&mut self, length: usize) -> Result<String, Fault> {
        let split = self.0.split_at_checked(length);
        let (text, rest) = split.ok_or(Fault::Impossible("it ends too early"))?;
        self.0 = rest;
        Ok(String::from_utf8_lossy(text).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(values in prop::collection::vec(any::<u64>(), 0..20)) {
            let mut bytes = Vec::new();
            values.iter().for_each(|value| push(&mut bytes, *value));
            let mut rest = &bytes[..];
            for value in values {
                prop_assert_eq!(take(&mut rest), Some(value));
            }
            prop_assert!(rest.is_empty() && take(&mut rest).is_none());
        }

        #[test]
        fn anything_may_stand_there(bytes: Vec<u8>) {
            let mut rest = &bytes[..];
            while take(&mut rest).is_some() {}
        }
    }
}
