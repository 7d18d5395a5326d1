// SPDX-License-Identifier: Apache-2.0 OR MIT
//! KRASH's own profiles (Perarnau & Huard, IPDPS 2010), in both dialects.
//!
//! ```text
//! cgroup_root = /dev/cgroup        # top level: the newer dialect;
//! cpu {                            # inside cpu { }: the older one
//!     profile { 0 { 0 70  60 30 } }
//! }
//! kill 150
//! ```
//!
//! Whole seconds and whole percents. The format lists CPU after CPU, not
//! moment after moment, so it is held in memory, 8 bytes per entry.

use std::collections::BTreeMap;

use crate::number::{NS_PER_S, cpu_number, whole};
use crate::reader::{ImportReader, Lines};
use crate::stream::make_steps;
use crate::{BoxSteps, Error, Fault, Format, ProfileCell, ProfileHeader, Result, Step};
use sandbag_linux::CpuList;
use sandbag_ui::quantity::Seconds;

const NO_END: &str = "add a line `kill <seconds>` or give the end";

pub(super) const READER: ImportReader = ImportReader {
    format: Format::Krash,
    looks_like: |head| head.data().take(20).any(is_item),
    open: |input| read(&mut (input.lines)()?, input.options.end_ns),
};

/// The beginning of something that may stand at the top level.
fn is_item(line: &[u8]) -> bool {
    let follows = |word: &[u8], is_next: fn(u8) -> bool| {
        line.strip_prefix(word).is_some_and(|rest| {
            let next = rest.trim_ascii_start().first();
            next.is_none_or(|b| is_next(*b))
        })
    };
    follows(b"cpu", |b| b == b'{')
        || follows(b"kill", |b| b.is_ascii_digit())
        || follows(b"cgroup_root", |b| b == b'=')
        || follows(b"all_name", |b| b == b'=')
}

/// Load of a CPU from a second on.
type KrashEntry = (u32, u8);

fn read(lines: &mut Lines, end_ns: Option<u64>) -> Result<BoxSteps> {
    let mut parser = Parser {
        tokens: Tokens {
            lines,
            line: Vec::new(),
            at: 0,
        },
        cpus: BTreeMap::new(),
        kill_s: None,
        full: 0,
    };
    parser.top_level()?;
    let Parser {
        cpus, kill_s, full, ..
    } = parser;
    if cpus.is_empty() {
        return Err(lines.nowhere(Fault::wrong_format(
            Format::Krash,
            "it holds no `cpu { profile { <cpu> { <second> <percent> ... } } }`",
        )));
    }
    let end_ns = match kill_s {
        Some(s) => s.saturating_mul(NS_PER_S),
        None => end_ns.ok_or_else(|| lines.nowhere(Fault::NoEnd(NO_END)))?,
    };
    if end_ns == 0 {
        return Err(lines.nowhere(Fault::NothingLeft { end: Seconds(0) }));
    }
    let warnings = warnings(&cpus, end_ns, full);
    let (numbers, entries): (Vec<u32>, Vec<Vec<KrashEntry>>) = cpus.into_iter().unzip();
    // Per CPU, how many entries lie at or before `at_ns`.
    let mut next = vec![0usize; entries.len()];
    let mut at_ns = 0;
    let header = ProfileHeader::new(numbers, Format::Krash);
    Ok(make_steps(header, warnings, move || {
        if at_ns >= end_ns {
            return Ok(None);
        }
        let start_ns = at_ns;
        at_ns = end_ns;
        let mut cells = Vec::with_capacity(entries.len());
        for (entries, next) in entries.iter().zip(&mut next) {
            let time = |entry: &KrashEntry| u64::from(entry.0) * NS_PER_S;
            while entries.get(*next).is_some_and(|e| time(e) <= start_ns) {
                *next += 1;
            }
            if let Some(entry) = entries.get(*next) {
                at_ns = at_ns.min(time(entry));
            }
            let load = next.checked_sub(1).and_then(|i| entries.get(i));
            let load_pct = load.map_or(0.0, |entry| f64::from(entry.1));
            cells.push(Some(ProfileCell::load(load_pct)));
        }
        Ok(Some(Step {
            start_ns,
            end_ns: at_ns,
            cells,
        }))
    }))
}

fn warnings(cpus: &BTreeMap<u32, Vec<KrashEntry>>, end_ns: u64, full: u64) -> Vec<String> {
    let mut all = Vec::new();
    let late: CpuList = cpus
        .iter()
        .filter(|(_, entries)| entries.first().is_none_or(|e| e.0 > 0))
        .map(|(cpu, _)| *cpu)
        .collect();
    if !late.is_empty() {
        all.push(format!(
            "CPUs {late} have no entry at second 0; their load is taken to be 0 until their \
             first one"
        ));
    }
    if full > 0 {
        all.push(format!(
            "{full} entries ask for 100; KRASH itself makes 99 of that, here it stays 100"
        ));
    }
    let beyond = cpus
        .values()
        .flatten()
        .filter(|e| u64::from(e.0) * NS_PER_S >= end_ns)
        .count();
    if beyond > 0 {
        all.push(format!(
            "{beyond} entries lie at or after the end, {}, and have no effect",
            Seconds(end_ns)
        ));
    }
    all
}

#[derive(Debug, PartialEq)]
enum Token {
    Open,
    Close,
    Equals,
    Number(u64),
    Word(String),
    End,
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Open => f.write_str("`{`"),
            Self::Close => f.write_str("`}`"),
            Self::Equals => f.write_str("`=`"),
            Self::Number(n) => write!(f, "`{n}`"),
            Self::Word(w) => f.write_str(&crate::error::printable(w.as_bytes())),
            Self::End => f.write_str("the end of the file"),
        }
    }
}

struct Tokens<'a> {
    lines: &'a mut Lines,
    line: Vec<u8>,
    at: usize,
}

fn in_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'/' | b'.')
}

impl Tokens<'_> {
    fn next(&mut self) -> Result<Token> {
        loop {
            let Some(b) = self.line.get(self.at).copied() else {
                match self.lines.next_line()? {
                    None => return Ok(Token::End),
                    Some(line) => {
                        self.line.clear();
                        self.line.extend_from_slice(line);
                        self.at = 0;
                        continue;
                    }
                }
            };
            self.at += 1;
            match b {
                b'{' => return Ok(Token::Open),
                b'}' => return Ok(Token::Close),
                b'=' => return Ok(Token::Equals),
                b'#' => self.at = self.line.len(),
                _ if in_word(b) => return Ok(self.word()),
                // KRASH's own reader passes over all other characters, so
                // `50%` is 50. A comma is where that would go wrong.
                b',' => {
                    return Err(self
                        .lines
                        .here(Fault::syntax("whole numbers divided by blanks", &self.line)));
                }
                _ => {}
            }
        }
    }

    fn word(&mut self) -> Token {
        let from = self.at - 1;
        let length = self.line[from..]
            .iter()
            .position(|b| !in_word(*b))
            .unwrap_or(self.line.len() - from);
        self.at = from + length;
        let word = &self.line[from..self.at];
        whole(word).map_or_else(
            || Token::Word(String::from_utf8_lossy(word).into_owned()),
            Token::Number,
        )
    }
}

struct Parser<'a> {
    tokens: Tokens<'a>,
    cpus: BTreeMap<u32, Vec<KrashEntry>>,
    kill_s: Option<u64>,
    /// Entries of 100.
    full: u64,
}

impl Parser<'_> {
    fn here(&self, fault: Fault) -> Error {
        self.tokens.lines.here(fault)
    }

    fn unexpected<T>(&self, expected: &str, found: &Token) -> Result<T> {
        Err(self.here(Fault::unexpected(expected, found.to_string())))
    }

    fn expect(&mut self, wanted: &Token, expected: &str) -> Result<()> {
        let found = self.tokens.next()?;
        if found == *wanted {
            Ok(())
        } else {
            self.unexpected(expected, &found)
        }
    }

    fn number(&mut self, what: &str) -> Result<u64> {
        match self.tokens.next()? {
            Token::Number(n) => Ok(n),
            found => self.unexpected(what, &found),
        }
    }

    fn top_level(&mut self) -> Result<()> {
        loop {
            match self.tokens.next()? {
                Token::End => return Ok(()),
                Token::Word(w) if w == "cpu" => self.cpu()?,
                Token::Word(w) if w == "kill" => {
                    let seconds = self.number("the second at which the load ends")?;
                    if self.kill_s.replace(seconds).is_some() {
                        return Err(self.here(Fault::Duplicate("kill".into())));
                    }
                }
                Token::Word(w) if is_setting(&w) => self.setting()?,
                found => {
                    return self.unexpected("`cpu`, `kill`, `cgroup_root` or `all_name`", &found);
                }
            }
        }
    }

    /// Names of groups: of no meaning here.
    fn setting(&mut self) -> Result<()> {
        self.expect(&Token::Equals, "`=`")?;
        match self.tokens.next()? {
            Token::Word(_) | Token::Number(_) => Ok(()),
            found => self.unexpected("a name", &found),
        }
    }

    fn cpu(&mut self) -> Result<()> {
        self.expect(&Token::Open, "`{` after `cpu`")?;
        loop {
            match self.tokens.next()? {
                Token::Close => return Ok(()),
                Token::Word(w) if w == "profile" => self.profile()?,
                Token::Word(w) if is_setting(&w) => self.setting()?,
                found => return self.unexpected("`profile` or `}`", &found),
            }
        }
    }

    fn profile(&mut self) -> Result<()> {
        self.expect(&Token::Open, "`{` after `profile`")?;
        loop {
            match self.tokens.next()? {
                Token::Close => return Ok(()),
                Token::Number(n) => {
                    let Some(cpu) = cpu_number(n.to_string().as_bytes()) else {
                        return self.unexpected("the number of a CPU", &Token::Number(n));
                    };
                    self.entries(cpu)?;
                }
                found => return self.unexpected("the number of a CPU or `}`", &found),
            }
        }
    }

    fn entries(&mut self, cpu: u32) -> Result<()> {
        self.expect(&Token::Open, "`{` after the number of the CPU")?;
        let mut entries: Vec<KrashEntry> = Vec::new();
        loop {
            let second = match self.tokens.next()? {
                Token::Close => break,
                Token::Number(n) => n,
                found => return self.unexpected("a whole second or `}`", &found),
            };
            let load = self.number("a whole percentage after the second")?;
            let Some(load_pct) = u8::try_from(load).ok().filter(|l| *l <= 100) else {
                return Err(self.here(Fault::out_of_range(format!("load of cpu{cpu}"), load)));
            };
            let Ok(at_s) = u32::try_from(second) else {
                return self.unexpected("a second", &Token::Number(second));
            };
            if let Some(last) = entries.last().filter(|e| e.0 >= at_s) {
                return Err(self.here(Fault::TimesGoBack {
                    now: second.to_string(),
                    last: last.0.to_string(),
                    remedy: "; the entries of a CPU stand in the order of their seconds",
                }));
            }
            self.full += u64::from(load_pct == 100);
            entries.push((at_s, load_pct));
        }
        if self.cpus.insert(cpu, entries).is_some() {
            return Err(self.here(Fault::Duplicate(format!("CPU {cpu}"))));
        }
        Ok(())
    }
}

fn is_setting(word: &str) -> bool {
    matches!(word, "cgroup_root" | "all_name" | "burner_basename")
}
