// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Text from outside (host names, arguments, file names) made fit to print.

/// Control characters made visible, so that no text can drive a terminal or
/// hide in a page; line ends, what turns the direction of writing, what has no
/// width and what is no character (XML takes none of those), too. As JSON
/// writes them, so that JSON remains JSON.
pub fn visible(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' | '\r' | '\n' => safe.extend(c.escape_default()),
            c if c.is_control() || hides(c) => {
                let units = c.encode_utf16(&mut [0; 2]).to_vec();
                safe.extend(units.iter().map(|unit| format!("\\u{unit:04x}")));
            }
            c => safe.push(c),
        }
    }
    safe
}

/// The same of a text of several lines, which remain lines: for text that we
/// laid out. What others wrote in it, and may not begin a line, is made
/// [`visible`] before.
pub fn visible_lines(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(visible).collect();
    lines.join("\n")
}

/// Direction marks and overrides, blanks of no width, tags, noncharacters.
fn hides(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e007f}')
}

/// Arguments as one would type them into a shell.
pub fn command_line(arguments: &[String]) -> String {
    let words = arguments.iter().map(String::as_str);
    // A NUL cannot be typed, but a record from elsewhere may hold one.
    let joined = shlex::Quoter::new().allow_nul(true).join(words);
    visible(&joined.unwrap_or_else(|_| arguments.join(" ")))
}

/// With its sign, unless it rounds to zero: minus zero is no finding.
pub fn signed(value: f64, digits: usize) -> String {
    let text = format!("{value:+.digits$}");
    if text.bytes().any(|b| b.is_ascii_digit() && b != b'0') {
        text
    } else {
        text[1..].to_owned()
    }
}

/// With `digits` decimals, or as many more as it takes to be on its own side of the limit:
/// `1.004` beside 1, and not `1.00`.
pub fn beside_limit(value: f64, limit: f64, digits: usize) -> String {
    /// No number needs more.
    const MOST_DIGITS: usize = 20;
    let text = |digits: usize| format!("{value:.digits$}");
    let is_beside = |text: &String| {
        let shown: f64 = text.parse().unwrap_or(value);
        shown.partial_cmp(&limit) == value.partial_cmp(&limit)
    };
    let mut texts = (digits..MOST_DIGITS).map(text);
    texts.find(is_beside).unwrap_or_else(|| text(digits))
}

/// `once`, `3 times`.
pub fn times(n: u64) -> String {
    match n {
        1 => "once".to_owned(),
        n => format!("{n} times"),
    }
}

/// A length of time: `12.5 s`, `3:20 min`, `1:00:00 h`.
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
    fn no_figure_is_rounded_to_the_limit_that_it_broke() {
        for (value, limit, text) in [
            (1.004, 1.0, "1.004"),
            (0.996, 1.0, "0.996"),
            (1.0, 1.0, "1.00"),
            (2.5, 1.0, "2.50"),
            (1.2341, 1.234, "1.2341"),
            (0.1 + 0.2, 0.3, "0.30000000000000004"),
        ] {
            assert_eq!(beside_limit(value, limit, 2), text);
        }
        assert_eq!(beside_limit(98.96, 99.0, 1), "98.96");
        assert_eq!(beside_limit(f64::NAN, 1.0, 1), "NaN");
    }

    #[test]
    fn zero_has_no_sign() {
        assert_eq!(signed(-0.004, 2), "0.00");
        assert_eq!(signed(-0.006, 2), "-0.01");
        assert_eq!(signed(3.0, 1), "+3.0");
    }

    #[test]
    fn control_characters_are_seen() {
        assert_eq!(visible("a\u{1b}[0m\0b"), r"a\u001b[0m\u0000b");
        assert_eq!(visible("\u{9b}31m\u{7f}"), r"\u009b31m\u007f");
        let hidden = visible("\u{202e}\u{2066}\u{e0041}");
        assert_eq!(hidden, r"\u202e\u2066\udb40\udc41");
        assert_eq!(visible("a\r\n\tb"), r"a\r\n\tb");
        let plain = "2 \u{b5}s, \u{2588} \u{e9}";
        assert_eq!(visible(plain), plain);
        assert_eq!(command_line(&["a\0".to_owned()]).matches('\0').count(), 0);
    }

    #[test]
    fn lines_remain_lines_and_json_remains_json() {
        assert_eq!(visible_lines("a\n\u{9b}b\r\n"), "a\n\\u009bb\\r\n");
        let foreign = "\u{1b}[31m\u{9b}\u{202e}\u{e0041}\n\"";
        let json = serde_json::to_string_pretty(&[foreign]).unwrap();
        let read: Vec<String> = serde_json::from_str(&visible_lines(&json)).unwrap();
        assert_eq!(read, [foreign]);
    }
}
