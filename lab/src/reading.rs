// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result of a program's run: its time and its figures, by its own output or by our
//! clock.
//!
//! Several programs in turn are run by a shell, which writes `= NAME` before the output of
//! each and `! CODE` after one that failed. A program that was ended by the time limit has
//! only its name; those after it have nothing.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;

use crate::program::ProgramExit;
use crate::workload::WorkReport;

#[derive(Debug, Clone, PartialEq)]
pub enum ProgramResult {
    Done {
        seconds: f64,
        figures: BTreeMap<String, f64>,
    },
    Failed {
        why: String,
    },
}

/// Results by program. One that is not there did not end.
pub type Reading = BTreeMap<String, ProgramResult>;

pub type Read<'a> = dyn Fn(&[&str], &ProgramExit) -> Reading + 'a;

/// Words of a shell that runs the lab's own programs in turn: `sandbag lab
/// work` with the words of each, the name first.
pub fn in_turn(own: &Path, programs: &[Vec<String>]) -> Vec<OsString> {
    let mut script = String::new();
    for words in programs {
        let name = words.first().map_or("", String::as_str);
        let words = words.join(" ");
        let _ = write!(
            script,
            "echo '= {name}'; \"$0\" work {words} || echo \"! $?\"; "
        );
    }
    let own = own.as_os_str().to_owned();
    ["sh".into(), "-c".into(), script.into(), own].into()
}

/// Reads the output of programs that ran [in turn](in_turn).
pub fn marked_words(programs: &[&str], ended: &ProgramExit) -> Reading {
    let mut said: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut current = None;
    for line in ended.out.lines() {
        match (line.strip_prefix("= "), current) {
            (Some(name), _) => {
                current = Some(name);
                said.entry(name).or_default();
            }
            (None, Some(name)) => said.entry(name).or_default().push(line),
            (None, None) => {}
        }
    }
    let mut reading = Reading::new();
    for program in programs {
        let Some(lines) = said.get(program) else {
            // Not begun: what ran before it took the whole limit.
            if ended.status.is_some() {
                reading.insert((*program).to_owned(), nothing(program, ended));
            }
            continue;
        };
        let failed = lines.iter().find_map(|line| line.strip_prefix("! "));
        let result = match (failed, lines.first()) {
            (Some(code), _) => ProgramResult::Failed {
                why: format!("exit code {code}: {}", ended.last_words()),
            },
            (None, Some(line)) => done(program, line),
            (None, None) if ended.status.is_some() => nothing(program, ended),
            (None, None) => continue,
        };
        reading.insert((*program).to_owned(), result);
    }
    reading
}

/// Reads the output of one of the lab's own programs: a line.
pub fn own_words(programs: &[&str], ended: &ProgramExit) -> Reading {
    let result = |program: &str| match ended.out.lines().next() {
        Some(line) => Some(done(program, line)),
        None if ended.status.is_some() => Some(nothing(program, ended)),
        None => None,
    };
    programs
        .iter()
        .filter_map(|program| Some(((*program).to_owned(), result(program)?)))
        .collect()
}

/// The time of the whole run, by us.
pub fn whole_time(programs: &[&str], ended: &ProgramExit) -> Reading {
    let result = ProgramResult::Done {
        seconds: ended.seconds,
        figures: BTreeMap::new(),
    };
    programs
        .iter()
        .filter(|_| ended.status.is_some())
        .map(|program| ((*program).to_owned(), result.clone()))
        .collect()
}

fn done(program: &str, line: &str) -> ProgramResult {
    match serde_json::from_str::<WorkReport>(line) {
        Err(_) => ProgramResult::Failed {
            why: format!("{program} said {line:?}"),
        },
        Ok(done) if !done.right => ProgramResult::Failed {
            why: format!("the result of {program} is wrong"),
        },
        Ok(done) => {
            let mut figures = done.figures;
            if done.slept_s > 0.0 {
                figures.insert("slept_s".to_owned(), done.slept_s);
            }
            ProgramResult::Done {
                seconds: done.seconds,
                figures,
            }
        }
    }
}

fn nothing(program: &str, ended: &ProgramExit) -> ProgramResult {
    ProgramResult::Failed {
        why: format!("{program} said nothing; {}", ended.last_words()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    pub(crate) const DONE: &str = r#"{"seconds":0.5,"slept_s":0,"amount":1,"right":true}"#;

    /// A run that said this; `over` if it was ended by its limit.
    pub(crate) fn ended(out: &str, over: bool) -> ProgramExit {
        ProgramExit {
            status: (!over).then(|| ExitStatus::from_raw(0)),
            seconds: 1.5,
            out: out.to_owned(),
            err: "bad luck".to_owned(),
        }
    }

    fn failed(reading: &Reading, name: &str) -> String {
        match &reading[name] {
            ProgramResult::Failed { why } => why.clone(),
            ProgramResult::Done { .. } => panic!("{name} is done"),
        }
    }

    #[test]
    fn one_that_fails_is_one_that_failed() {
        let wrong = DONE.replace("true", "false");
        let out = format!("= a\n{DONE}\n= b\n! 1\n= c\n{wrong}\n= d\nrubbish\n= e\n{DONE}\n");
        let reading = marked_words(&["a", "b", "c", "d", "e", "f"], &ended(&out, false));
        for name in ["a", "e"] {
            assert!(matches!(reading[name], ProgramResult::Done { seconds, .. } if seconds == 0.5));
        }
        assert_eq!(failed(&reading, "b"), "exit code 1: bad luck");
        assert_eq!(failed(&reading, "c"), "the result of c is wrong");
        assert!(failed(&reading, "d").contains("rubbish"));
        assert!(failed(&reading, "f").contains("said nothing"));
    }

    #[test]
    fn of_those_that_did_not_end_nothing_is_said() {
        let out = format!("= a\n{DONE}\n= b\n");
        let reading = marked_words(&["a", "b", "c"], &ended(&out, true));
        assert_eq!(reading.keys().collect::<Vec<_>>(), ["a"]);
        assert!(own_words(&["a"], &ended("", true)).is_empty());
        assert!(whole_time(&["a"], &ended("", true)).is_empty());
    }

    #[test]
    fn a_shell_runs_them_as_they_are_read() {
        // `echo work b ...` is no JSON; `false` fails.
        let programs = [vec!["b".to_owned(), "--amount 3".to_owned()]];
        let run = |sandbag: &str| {
            let words = in_turn(Path::new(sandbag), &programs);
            let output = std::process::Command::new(&words[0])
                .args(&words[1..])
                .output()
                .unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        assert_eq!(run("/bin/echo"), "= b\nwork b --amount 3\n");
        assert_eq!(run("/bin/false"), "= b\n! 1\n");
    }

    #[test]
    fn a_program_of_its_own_is_read_by_its_line() {
        let reading = own_words(&["ep"], &ended(DONE, false));
        assert!(matches!(reading["ep"], ProgramResult::Done { .. }));
        let reading = own_words(&["ep"], &ended("", false));
        assert!(failed(&reading, "ep").contains("bad luck"));
        let reading = whole_time(&["x"], &ended("", false));
        assert!(matches!(reading["x"], ProgramResult::Done { seconds, .. } if seconds == 1.5));
    }
}
