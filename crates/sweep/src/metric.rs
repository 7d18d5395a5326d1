// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The numbers of a run: sandbag's own, and those that the program prints.
//!
//! `wall` or another own one; `NAME: /REGULAR EXPRESSION/` and `NAME: json:.key.key` of the
//! program's output; by `--metric-cmd` `NAME: COMMAND`, whose output is the number. A unit
//! may follow the name (`p99 [ms]: ...`), and `up` at the end, but of a command, says that more
//! is better.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::str::FromStr;
use std::time::Instant;

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use regex_lite::Regex;
use sandbag_linux::child::{ChildSetup as _, end_or_kill};
use sandbag_linux::interrupt;
use sandbag_linux::user::User;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::finished::Finished;
use crate::run::{GRACE, LONG};

/// Sandbag's own metrics: name, unit, meaning.
pub const OWN: [(&str, &str, &str); 10] = [
    ("wall", "s", "time from start to end"),
    ("user", "s", "CPU time in the program"),
    ("system", "s", "CPU time in the kernel"),
    ("cpu", "s", "both"),
    ("available", "s", "CPU time that the condition left"),
    (
        "efficiency",
        "",
        "CPU time used per CPU time that the condition left",
    ),
    ("rss", "KiB", "largest memory of one process"),
    ("switches", "", "context switches"),
    (
        "exit",
        "",
        "exit code of the program; 128 and the signal that ended it",
    ),
    ("failed", "", "1 where the program failed, else 0"),
];

/// What a run is described by beside its metrics, in one row of the Python module.
const OF_RUNS: [&str; 7] = [
    "number",
    "block",
    "condition",
    "program",
    "verdict",
    "exit_code",
    "signal",
];

/// A name for a run that failed, of which no other metric than these is known.
pub const FAILED: &str = "failed";
pub const EXIT: &str = "exit";

/// The number of a CPU in `cpu3`: the program's CPU time on it.
pub fn cpu_number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("cpu")?;
    digits.parse().ok().filter(|_| !digits.starts_with('+'))
}

#[derive(Debug, Clone)]
pub struct Metric {
    pub about: MetricAbout,
    /// A run without it is no error.
    pub optional: bool,
    source: Source,
}

/// What is kept of a metric.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricAbout {
    pub name: String,
    pub unit: String,
    pub higher_is_better: bool,
    /// As it was asked for.
    pub asked: String,
}

#[derive(Debug, Clone)]
enum Source {
    Own,
    /// The last match counts.
    Text(Regex),
    Json(Vec<String>),
    Command(String),
}

impl FromStr for Metric {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let own = OWN.iter().find(|(name, ..)| *name == text);
        let unit = own.map(|(_, unit, _)| *unit);
        if let Some(unit) = unit.or(cpu_number(text).map(|_| "s")) {
            return Ok(Self {
                about: MetricAbout {
                    name: text.to_owned(),
                    unit: unit.to_owned(),
                    higher_is_better: text == "efficiency",
                    asked: text.to_owned(),
                },
                optional: false,
                source: Source::Own,
            });
        }
        let (mut about, rest) = named(text)?;
        let (rest, up) = match rest.strip_suffix(" up") {
            Some(rest) => (rest.trim_end(), true),
            None => (rest, false),
        };
        about.higher_is_better = up;
        let source = if let Some(path) = rest.strip_prefix("json:") {
            Source::Json(keys_of(path)?)
        } else {
            let inner = rest
                .strip_prefix('/')
                .and_then(|rest| rest.strip_suffix('/'));
            let inner = inner.ok_or_else(expected)?;
            let regex = Regex::new(inner).map_err(|error| format!("/{inner}/: {error}"))?;
            if regex.captures_len() < 2 {
                return Err(format!("/{inner}/ has no group: put the number in ( )"));
            }
            Source::Text(regex)
        };
        Ok(Self {
            about,
            optional: false,
            source,
        })
    }
}

/// `NAME: COMMAND`.
pub fn of_command(text: &str) -> Result<Metric, String> {
    let (about, command) = named(text)?;
    Ok(Metric {
        source: Source::Command(command.to_owned()),
        optional: false,
        about,
    })
}

fn expected() -> String {
    let own: Vec<&str> = OWN.iter().map(|(name, ..)| *name).collect();
    format!(
        "expected {}, cpu0 (on CPU 0), or NAME: /REGULAR EXPRESSION/, or NAME: json:.key.key",
        own.join(", ")
    )
}

/// `NAME [UNIT]: REST`.
fn named(text: &str) -> Result<(MetricAbout, &str), String> {
    let (head, rest) = text.split_once(':').ok_or_else(expected)?;
    // `json:.a.p99` is called p99.
    if head == "json" {
        let path = rest.strip_suffix(" up").unwrap_or(rest).trim_end();
        let name = keys_of(path)?.pop().unwrap_or_default();
        return Ok((about(&name, "", text)?, text));
    }
    let (name, unit) = match head.split_once('[') {
        Some((name, unit)) => (
            name,
            unit.trim_end().strip_suffix(']').ok_or_else(expected)?,
        ),
        None => (head, ""),
    };
    Ok((about(name.trim(), unit, text)?, rest.trim()))
}

/// The keys of `.latency.p99`; in double quotes a key may have dots: `.percentile."99.9"`.
fn keys_of(path: &str) -> Result<Vec<String>, String> {
    let fault = || format!("`{path}` is no path, as in json:.latency.p99");
    let mut keys = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        rest = rest.strip_prefix('.').ok_or_else(fault)?;
        let key = match rest.strip_prefix('"') {
            Some(quoted) => {
                let (key, more) = quoted.split_once('"').ok_or_else(fault)?;
                rest = more;
                key
            }
            None => {
                let (key, more) = rest.split_at(rest.find('.').unwrap_or(rest.len()));
                rest = more;
                key
            }
        };
        if key.is_empty() {
            return Err(fault());
        }
        keys.push(key.to_owned());
    }
    if keys.is_empty() {
        return Err(fault());
    }
    Ok(keys)
}

fn about(name: &str, unit: &str, asked: &str) -> Result<MetricAbout, String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty()
        || !name.chars().all(is_word)
        || name.starts_with(|c: char| c.is_ascii_digit())
    {
        return Err(format!(
            "`{name}` is no name for a metric: write letters, digits and _, a letter first"
        ));
    }
    if OWN.iter().any(|(own, ..)| *own == name) || cpu_number(name).is_some() {
        return Err(format!(
            "`{name}` is a metric of sandbag's own: name it otherwise"
        ));
    }
    if OF_RUNS.contains(&name) {
        return Err(format!("`{name}` of a run is no metric: name it otherwise"));
    }
    Ok(MetricAbout {
        name: name.to_owned(),
        unit: unit.to_owned(),
        higher_is_better: false,
        asked: asked.to_owned(),
    })
}

impl Metric {
    /// Sandbag measures it, and not the program.
    pub fn is_own(&self) -> bool {
        matches!(self.source, Source::Own)
    }

    /// The value of a run, whose directory is `dir`. A command for it runs as `user`, or as we
    /// do.
    ///
    /// # Errors
    /// Why there is none.
    pub fn value(&self, run: &Finished, dir: &Path, user: Option<&User>) -> Result<f64, String> {
        let name = &self.about.name;
        let value = match &self.source {
            Source::Own => run
                .own(name)
                .ok_or("sandbag does not know it for this run")?,
            Source::Text(regex) => {
                let found = [&run.stdout, &run.stderr]
                    .into_iter()
                    .find_map(|text| regex.captures_iter(text).last());
                let found = found.ok_or_else(|| format!("nothing matches /{}/", regex.as_str()))?;
                number(found.get(1).map_or("", |group| group.as_str()))?
            }
            Source::Json(keys) => {
                let value = json_of(&run.stdout).ok_or("the program printed no JSON object")?;
                let mut at = &value;
                for key in keys {
                    let inner = match key.parse::<usize>() {
                        Ok(index) if at.is_array() => at.get(index),
                        _ => at.get(key),
                    };
                    at = inner.ok_or_else(|| format!("there is no {key} in {}", keys.join(".")))?;
                }
                match at {
                    Value::Number(value) => value.as_f64().ok_or("it is too large")?,
                    Value::String(text) => number(text)?,
                    other => return Err(format!("{other} is no number")),
                }
            }
            Source::Command(command) => by_command(command, dir, user)?,
        };
        if value.is_finite() {
            Ok(value)
        } else {
            Err(format!("{value} is no number"))
        }
    }
}

fn number(text: &str) -> Result<f64, String> {
    let text = text.trim();
    text.parse().map_err(|_| {
        format!(
            "`{}` is no number",
            text.escape_debug().take(40).collect::<String>()
        )
    })
}

/// A whole output that is JSON, or its last line that is.
fn json_of(text: &str) -> Option<Value> {
    let whole = serde_json::from_str(text).ok();
    whole.or_else(|| {
        let mut lines = text.lines().rev();
        lines.find_map(|line| {
            let line = line.trim();
            line.starts_with('{')
                .then(|| serde_json::from_str(line).ok())?
        })
    })
}

fn by_command(command: &str, dir: &Path, user: Option<&User>) -> Result<f64, String> {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", command])
        .env("SANDBAG_RUN_DIR", dir)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    // What it starts ends with it, and what asks at a terminal fails.
    shell.own_session();
    if let Some(user) = user.cloned() {
        user.become_in(&mut shell);
    }
    // Changing the user would clear it.
    shell.die_with_us(libc::SIGKILL);
    let (status, printed) = run_shell(&mut shell).map_err(|error| format!("sh: {error}"))?;
    if !status.success() {
        return Err(format!("`{command}` failed ({status})"));
    }
    number(&String::from_utf8_lossy(&printed))
}

/// Runs a shell that leads its process group, to its end or until a signal comes, and reads what
/// it printed.
fn run_shell(shell: &mut Command) -> io::Result<(ExitStatus, Vec<u8>)> {
    // No pipe: what it leaves behind could hold that open.
    let mut file = File::from(memfd_create(c"metric", MFdFlags::MFD_CLOEXEC)?);
    let mut child = shell.stdout(file.try_clone()?).spawn()?;
    let ended = |child: &mut Child| child.try_wait().is_ok_and(|end| end.is_some());
    let waited = interrupt::wait_for(Instant::now() + LONG, || ended(&mut child));
    if let Err(error) = waited {
        let group = Pid::from_raw(child.id().cast_signed());
        let _ = killpg(group, Signal::SIGTERM);
        end_or_kill(&mut child, GRACE);
        let _ = killpg(group, Signal::SIGKILL);
        return Err(error);
    }
    let status = child.wait()?;
    file.rewind()?;
    let mut printed = Vec::new();
    file.read_to_end(&mut printed)?;
    Ok((status, printed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(stdout: &str) -> Finished {
        let mut finished = Finished::default();
        finished.stdout = stdout.to_owned();
        finished.stderr = "warn p99=7 ms".to_owned();
        finished
    }

    fn value(metric: &str, stdout: &str) -> Result<f64, String> {
        let metric: Metric = metric.parse()?;
        metric.value(&finished(stdout), Path::new("."), None)
    }

    #[test]
    fn numbers_come_from_what_the_program_prints() {
        let p99 = "p99: /p99=([0-9.]+) ms/";
        assert_eq!(value(p99, "p99=1.5 ms\nlater p99=2.5 ms"), Ok(2.5));
        assert_eq!(value(p99, "nothing"), Ok(7.0));
        let json = "json:.latency.0.p99";
        assert_eq!(value(json, "{\"latency\": [{\"p99\": 3}]}"), Ok(3.0));
        assert_eq!(
            value(json, "start\n{\"latency\": [{\"p99\": \"4.5\"}]}\nend"),
            Ok(4.5)
        );
        let metric: Metric = "rate [1/s]: /rate (.*)/ up".parse().unwrap();
        assert!(metric.about.higher_is_better && metric.about.unit == "1/s");
        assert_eq!(
            metric.value(&finished("rate 1e3"), Path::new("."), None),
            Ok(1000.0)
        );
        let named: Metric = json.parse().unwrap();
        assert_eq!(named.about.name, "p99");
        let dots = r#"p99: json:.percentile."99.000000""#;
        assert_eq!(value(dots, r#"{"percentile": {"99.000000": 7}}"#), Ok(7.0));
        let named: Metric = r#"json:."a.b".p99 up"#.parse().unwrap();
        assert!(named.about.name == "p99" && named.about.higher_is_better);
        let command = of_command("four: echo $((2 + 2))").unwrap();
        assert_eq!(command.value(&finished(""), Path::new("."), None), Ok(4.0));
    }

    #[test]
    fn what_is_missing_is_said() {
        for (metric, stdout, said) in [
            ("a: /x=(.*)/", "y", "nothing matches /x=(.*)/"),
            ("a: /x=(.*)/", "x=y", "`y` is no number"),
            ("a: /x=(.*)/", "x=inf", "inf is no number"),
            ("a: json:.b", "text", "no JSON"),
            ("a: json:.b", "{\"c\": 1}", "there is no b"),
            ("a: json:.b", "{\"b\": [1]}", "[1] is no number"),
            ("rss", "", "does not know it"),
        ] {
            let error = value(metric, stdout).unwrap_err();
            assert!(error.contains(said), "{metric}: {error}");
        }
        let error = of_command("a: exit 3")
            .unwrap()
            .value(&finished(""), Path::new("."), None);
        assert!(error.unwrap_err().contains("failed"));
    }

    #[test]
    fn what_is_no_metric_is_refused() {
        for (metric, said) in [
            ("wal", "expected wall, user"),
            ("a: x", "expected wall"),
            ("a: /(/", "/(/:"),
            ("a: /x/", "has no group"),
            ("a b: /(x)/", "`a b` is no name"),
            ("1a: /(x)/", "a letter first"),
            ("wall: /(x)/", "sandbag's own"),
            ("a: json:b", "is no path"),
            ("a: json:.b..c", "is no path"),
            ("a: json:.", "is no path"),
            ("a: json:.\"b", "is no path"),
            ("a: json:.\"b\"c", "is no path"),
            (r#"json:.percentile."99.9""#, "`99.9` is no name"),
            ("verdict: /(x)/", "`verdict` of a run is no metric"),
            ("a [ms: /(x)/", "expected wall"),
        ] {
            let error = metric.parse::<Metric>().map(drop).unwrap_err();
            assert!(error.contains(said), "{metric}: {error}");
        }
    }
}
