// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two commands from one list of words: `./a x --vs ./b y`.

use std::ffi::OsString;

use sandbag_ui::BadInput;

/// Splits at the first `--vs`; a later one belongs to the second command.
pub fn split(words: &[OsString]) -> Result<[Vec<OsString>; 2], BadInput> {
    let usage = "after -- come both programs: -- ./a ARGS --vs ./b ARGS";
    let Some(at) = words.iter().position(|word| word == "--vs") else {
        return Err(BadInput(format!("--vs is missing: {usage}")));
    };
    let (a, b) = (&words[..at], &words[at + 1..]);
    if a.is_empty() || b.is_empty() {
        let side = if a.is_empty() { "before" } else { "after" };
        return Err(BadInput(format!("no program {side} --vs: {usage}")));
    }
    Ok([a.to_vec(), b.to_vec()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn at_the_first_vs() {
        let [a, b] = split(&words("./a -x 1 --vs ./b --vs y")).unwrap();
        assert_eq!(a, words("./a -x 1"));
        assert_eq!(b, words("./b --vs y"));
    }

    #[test]
    fn both_programs_must_be_there() {
        for (text, says) in [
            ("./a ./b", "--vs is missing"),
            ("--vs ./b", "before --vs"),
            ("./a --vs", "after --vs"),
        ] {
            let error = split(&words(text)).unwrap_err();
            assert!(error.0.contains(says), "{}", error.0);
        }
    }
}
