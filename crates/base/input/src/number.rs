// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers as other programs write them.

pub const NS_PER_S: u64 = 1_000_000_000;

const POWERS: [f64; 16] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
];

/// A decimal number. Up to 15 digits the quotient of two exact numbers, which
/// is correctly rounded and many times faster than the general way.
pub fn decimal<T: AsRef<[u8]> + ?Sized>(text: &T) -> Option<f64> {
    let bytes = text.as_ref();
    let mut mantissa = 0u64;
    let mut digits = 0usize;
    let mut fraction = None;
    for b in bytes {
        match b {
            b'0'..=b'9' if digits < 15 => {
                mantissa = mantissa * 10 + u64::from(b - b'0');
                digits += 1;
            }
            b'.' if fraction.is_none() => fraction = Some(digits),
            _ => return std::str::from_utf8(bytes).ok()?.trim().parse().ok(),
        }
    }
    (digits > 0).then(|| mantissa as f64 / POWERS[digits - fraction.unwrap_or(digits)])
}

pub fn whole<T: AsRef<[u8]> + ?Sized>(text: &T) -> Option<u64> {
    let bytes = text.as_ref();
    if bytes.is_empty() {
        return None;
    }
    bytes.iter().try_fold(0u64, |n, b| match b {
        b'0'..=b'9' => n.checked_mul(10)?.checked_add(u64::from(b - b'0')),
        _ => None,
    })
}

/// Without blanks and without the quotes that spreadsheets may put around text.
pub fn unquoted(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.trim_ascii();
    bytes
        .strip_prefix(b"\"")
        .and_then(|b| b.strip_suffix(b"\""))
        .map_or(bytes, <[u8]>::trim_ascii)
}

/// Nothing above the kernel's own limits is believed.
pub const MAX_CPU: u32 = 65_535;

pub fn cpu_number<T: AsRef<[u8]> + ?Sized>(text: &T) -> Option<u32> {
    whole(text)
        .and_then(|n| u32::try_from(n).ok())
        .filter(|n| *n <= MAX_CPU)
}

/// Decimal seconds without a unit, exact to the nanosecond; digits beyond
/// the ninth are cut off.
pub fn decimal_seconds<T: AsRef<[u8]> + ?Sized>(text: &T) -> Option<u64> {
    let bytes = text.as_ref();
    let (head, tail) = match bytes.iter().position(|b| *b == b'.') {
        Some(dot) => (&bytes[..dot], &bytes[dot + 1..]),
        None => (bytes, &[][..]),
    };
    if head.is_empty() && tail.is_empty() {
        return None;
    }
    let seconds = if head.is_empty() { 0 } else { whole(head)? };
    let mut ns = 0;
    let mut unit = NS_PER_S;
    for b in tail {
        if !b.is_ascii_digit() {
            return None;
        }
        unit /= 10;
        ns += u64::from(b - b'0') * unit;
    }
    seconds.checked_mul(NS_PER_S)?.checked_add(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_exact() {
        for (text, ns) in [
            ("5789.857529929", Some(5_789_857_529_929)),
            ("1", Some(1_000_000_000)),
            (".5", Some(500_000_000)),
            ("1.", Some(1_000_000_000)),
            ("1.0000000019", Some(1_000_000_001)),
            ("-1", None),
            ("", None),
            (".", None),
            ("1.x", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(decimal_seconds(text), ns, "{text}");
        }
    }

    #[test]
    fn whole_numbers_are_digits_only() {
        assert_eq!(whole("18446744073709551615"), Some(u64::MAX));
        for text in ["+1", "", "1.0", "18446744073709551616"] {
            assert_eq!(whole(text), None, "{text}");
        }
        assert_eq!(
            (cpu_number("65535"), cpu_number("65536")),
            (Some(65_535), None)
        );
    }
}
