// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--only`: which of the processes that inherit the environment suffer.

use std::str::FromStr;

use crate::inside::layout::ONLY;

/// Names of programs, and ranks. A process must match one of each kind that is given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramFilter {
    /// The file name of the program, or the name of the process (of a script,
    /// its own); none: all.
    pub names: Vec<String>,
    /// Ranks, below 8192; none: all.
    pub ranks: Vec<u32>,
    /// All processes with a rank.
    pub any_rank: bool,
}

/// Ranks from here on are out of range.
pub const RANKS: u32 = (ONLY * 8) as u32;

impl FromStr for ProgramFilter {
    type Err = String;

    /// `NAME`, `rank`, or `rank=LIST`.
    fn from_str(word: &str) -> Result<Self, String> {
        let mut only = Self::default();
        match word.split_once('=') {
            None if word == "rank" => only.any_rank = true,
            Some(("rank", list)) => {
                only.ranks = ranks(list).ok_or_else(|| {
                    format!(
                        "{list:?} is no list of ranks: expected rank, or rank=0,2-5 with ranks \
                         below {RANKS}"
                    )
                })?;
            }
            _ if word.is_empty() || word.contains(['/', '\n', '\0']) => {
                return Err(format!(
                    "{word:?} is no name of a program: give its file name, without directory"
                ));
            }
            _ => only.names.push(word.to_owned()),
        }
        only.check()?;
        Ok(only)
    }
}

fn ranks(list: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in list.split(',') {
        let (from, until) = part.split_once('-').unwrap_or((part, part));
        let (from, until): (u32, u32) = (from.parse().ok()?, until.parse().ok()?);
        if from > until || until >= RANKS {
            return None;
        }
        all.extend(from..=until);
    }
    Some(all)
}

impl ProgramFilter {
    /// The union of several.
    ///
    /// # Errors
    /// They are too many.
    pub fn all(words: impl IntoIterator<Item = Self>) -> Result<Self, String> {
        let mut all = Self::default();
        for word in words {
            all.names.extend(word.names);
            all.ranks.extend(word.ranks);
            all.any_rank |= word.any_rank;
        }
        all.check()?;
        Ok(all)
    }

    fn check(&self) -> Result<(), String> {
        let bytes: usize = self.names.iter().map(|name| name.len() + 1).sum();
        if bytes < ONLY {
            return Ok(());
        }
        Err(format!(
            "these are too many names: together they must be shorter than {ONLY} bytes"
        ))
    }

    /// For the header; names beyond its room are left out.
    pub(super) fn names_field(&self) -> [u8; ONLY] {
        let mut field = [0; ONLY];
        let mut at = 0;
        for name in &self.names {
            let bytes = name.as_bytes();
            if at + bytes.len() + 1 < ONLY {
                field[at..at + bytes.len()].copy_from_slice(bytes);
                field[at + bytes.len()] = b'\n';
                at += bytes.len() + 1;
            }
        }
        field
    }

    pub(super) fn ranks_field(&self) -> [u8; ONLY] {
        let mut field = [0; ONLY];
        for rank in self.ranks.iter().filter(|rank| **rank < RANKS) {
            field[*rank as usize / 8] |= 1 << (rank % 8);
        }
        field
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("app", &["app"], &[], false)]
    #[case("rank", &[], &[], true)]
    #[case("rank=0,2-4", &[], &[0, 2, 3, 4], false)]
    #[case("a=b", &["a=b"], &[], false)]
    fn words(#[case] word: &str, #[case] names: &[&str], #[case] ranks: &[u32], #[case] any: bool) {
        let only: ProgramFilter = word.parse().unwrap();
        assert_eq!(only.names, names);
        assert_eq!(only.ranks, ranks);
        assert_eq!(only.any_rank, any);
    }

    #[test]
    fn words_that_are_neither_a_name_nor_ranks_are_refused() {
        for word in [
            "",
            "/bin/app",
            "rank=",
            "rank=3-1",
            "rank=8192",
            "rank=0-4294967295",
        ] {
            assert!(word.parse::<ProgramFilter>().is_err(), "{word}");
        }
    }

    #[test]
    fn names_and_ranks_have_their_place() {
        let words = ["a", "bc", "rank=0,9"].map(|word| word.parse().unwrap());
        let only = ProgramFilter::all(words).unwrap();
        assert!(only.names_field().starts_with(b"a\nbc\n\0"));
        assert_eq!(only.ranks_field()[..3], [1, 2, 0]);
        let long = std::iter::repeat_with(|| "x".repeat(100).parse::<ProgramFilter>().unwrap());
        let error = ProgramFilter::all(long.take(11)).unwrap_err();
        assert!(error.contains("too many names"), "{error}");
    }
}
