// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Text from outside (host names, arguments, file names) made fit to print.

use crate::run::NodeUse;

/// Control characters made visible, so that no text can drive a terminal or
/// hide in a page; what turns the direction of writing and what is no character
/// (XML takes none of those), too.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        let hides = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}');
        if c.is_control() || hides {
            safe.extend(c.escape_default());
        } else {
            safe.push(c);
        }
    }
    safe
}

/// Arguments as one would type them into a shell.
#[must_use]
pub fn command_line(arguments: &[String]) -> String {
    let words = arguments.iter().map(String::as_str);
    // A NUL cannot be typed, but a record from elsewhere may hold one.
    let joined = shlex::Quoter::new().allow_nul(true).join(words);
    visible(&joined.unwrap_or_else(|_| arguments.join(" ")))
}

/// With its sign, unless it rounds to zero: minus zero is no finding.
#[must_use]
pub fn signed(value: f64, digits: usize) -> String {
    let text = format!("{value:+.digits$}");
    if text.bytes().any(|b| b.is_ascii_digit() && b != b'0') {
        text
    } else {
        text[1..].to_owned()
    }
}

/// `once`, `3 times`.
pub(crate) fn times(n: u64) -> String {
    match n {
        1 => "once".to_owned(),
        n => format!("{n} times"),
    }
}

/// How often and how long a node was throttled, as far as it is known.
pub(crate) fn throttled(node: &NodeUse) -> Option<String> {
    match (node.throttled_times, node.throttled_s) {
        (Some(0), None | Some(0.0)) => Some("never".to_owned()),
        (Some(n), Some(s)) => Some(format!("{} for {s:.2} s", times(n))),
        (Some(n), None) => Some(times(n)),
        (None, Some(s)) => Some(format!("for {s:.2} s")),
        (None, None) => None,
    }
}

/// A length of time: `12.5 s`, `3:20 min`, `1:00:00 h`.
#[must_use]
pub fn clock(seconds: f64) -> String {
    if seconds < 120.0 {
        return format!("{} s", (seconds * 10.0).round() / 10.0);
    }
    let s = seconds.round() as u64;
    let (hours, minutes, rest) = (s / 3600, s / 60 % 60, s % 60);
    if hours == 0 {
        format!("{minutes}:{rest:02} min")
    } else {
        format!("{hours}:{minutes:02}:{rest:02} h")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_the_shell_needs_it() {
        let arguments = ["load", "50", "--out", "my run", "it's"].map(str::to_owned);
        assert_eq!(command_line(&arguments), r#"load 50 --out 'my run' "it's""#);
    }

    #[test]
    fn lengths_read_like_a_clock_once_they_are_long() {
        assert_eq!(clock(12.54), "12.5 s");
        assert_eq!(clock(200.0), "3:20 min");
        assert_eq!(clock(86_399.9), "24:00:00 h");
    }

    #[test]
    fn zero_has_no_sign() {
        assert_eq!(signed(-0.004, 2), "0.00");
        assert_eq!(signed(-0.006, 2), "-0.01");
        assert_eq!(signed(3.0, 1), "+3.0");
    }

    #[test]
    fn control_characters_are_seen() {
        assert_eq!(visible("a\u{1b}[0m\0b"), r"a\u{1b}[0m\u{0}b");
        assert_eq!(command_line(&["a\0".to_owned()]).matches('\0').count(), 0);
    }
}
