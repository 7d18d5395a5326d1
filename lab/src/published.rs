// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The papers' figures, to be shown beside ours.

use crate::agreement::{Agreement, Published};
use crate::summary::{Median, relative_sd};

/// KRASH (Perarnau and Huard, IPDPS 2010), table II: NAS EP under a load of
/// 50 % on all CPUs; 30 runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Precision {
    pub name: &'static str,
    pub method: &'static str,
    pub seconds: f64,
    pub seconds_sd: f64,
    pub perceived_pct: f64,
    pub perceived_sd: f64,
}

/// Unloaded time of EP in table II, seconds.
pub const EP_UNLOADED_S: f64 = 21.4;

const fn precision(
    (name, method): (&'static str, &'static str),
    (seconds, seconds_sd): (f64, f64),
    (perceived_pct, perceived_sd): (f64, f64),
) -> Precision {
    Precision {
        name,
        method,
        seconds,
        seconds_sd,
        perceived_pct,
        perceived_sd,
    }
}

pub const PRECISION: [Precision; 4] = [
    precision(GENERATORS[0], (41.9, 0.9), (48.9, 1.1)),
    precision(GENERATORS[1], (47.6, 4.5), (55.0, 3.9)),
    precision(GENERATORS[2], (47.1, 3.8), (54.5, 3.2)),
    precision(GENERATORS[3], (45.3, 0.3), (52.7, 0.5)),
];

/// Slowdowns of programs (named as ours) in tables III, IV and V under a load of 50 %, by
/// generator; infinity where the paper has "> 100".
pub const OBTRUSIVE: [(&str, [f64; 4]); 3] = [
    ("copy", [2.0, 2.4, 3.6, 2.4]),
    ("exchange", [2.1, f64::INFINITY, 3.9, 1.5]),
    ("compile", [2.0, f64::INFINITY, 2.8, 2.0]),
];

/// Why ours of tables II to V differ from the paper's, as far as we know.
pub const WHY_LOADS_DIFFER: [&str; 5] = [
    "KRASH and our shares: the formula was right on the kernels of its time. A current one divides \
     a group's weight over the CPUs on which the group is busy, and the burner is busy on one: \
     with N CPUs it takes N/(N + 1) for the half that is asked, a slowdown of N + 1.",
    "Real time: ours (rt) runs half of every 100 ms. Why the paper's generator slowed programs by \
     3 to 4 is not known.",
    "Wrekavoc: its process limiter slows the processes that it is given and puts no load on CPUs, so \
     it is in the experiment on slowed nodes (lim); there one process of ours watches all of the \
     node's, which is why its slowdowns above 100 are not to be seen.",
    "Frequency: a virtual machine has no frequency to set.",
    "Copies: their time is that of page cache and disk. Where a run waits for a disk, no load on \
     a CPU is what slows it, and the figures of a shared disk scatter: they are called undecided.",
];

pub const WHAT_SPINNERS_ARE: &str = "The spinners are one program of another session: with \
     autogroup, as on most desktops and here unless the table of the machine says otherwise, they \
     get half of each CPU, however many processes the measured program has. Without it, or in the \
     same session, a spinner is one task of many, and takes less from a program of many.";

/// The load generators of the tables, and our method that is nearest.
pub const GENERATORS: [(&str, &str); 4] = [
    ("KRASH", "shares"),
    ("Wrekavoc", "lim"),
    ("real time", "rt"),
    ("frequency", "freq"),
];

/// The hogs as published; ours need no barrier.
pub const BARRIER: &str = "hogs --hog-sync barrier";

/// What Buchert, Nussbaum and Gustedt (HPCC 2011, figures 5 and 6) found for a
/// program and a method, in words; `None` where the paper has nothing on it.
pub fn micro(program: &str, method: &str) -> Option<&'static str> {
    let text = match (program, if method == BARRIER { "hogs" } else { method }) {
        ("compute" | "processes" | "threads", "hogs" | "gov") => "proportional to the speed",
        ("compute", "shares") => "proportional, the steadiest method",
        ("processes" | "threads", "shares") => "proportional on one core, too slow on more",
        ("compute", "lim") => "proportional, the least steady method",
        ("processes", "lim") => "too fast: each process has the whole limit",
        ("threads", "lim") => "too slow: threads count together",
        ("compute-sleep", "lim") => "too fast: sleep counts as merit",
        ("compute-sleep", "gov") => "only computation slowed, the steadiest method",
        ("compute-sleep", _) => "only computation slowed",
        ("datagrams", "hogs") => "linear",
        ("datagrams", "lim" | "shares" | "gov") => "saturates",
        ("memory", "hogs" | "shares") => "nearly linear",
        ("memory", "lim") => "fluctuates",
        ("memory", "gov") => "predictable, but unrelated to the speed",
        _ => return None,
    };
    let published = ["hogs", BARRIER, "shares", "lim", "gov"];
    published.contains(&method).then_some(text)
}

/// What the words of [`micro`] say of the speeds got where half is asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AtHalf {
    /// They are among these.
    Among(Published),
    /// They are not among these.
    Outside(Published),
    /// Their standard deviation is this part of their mean.
    Scattered(Published),
}

/// Speeds within a tenth of half the speed.
const PROPORTIONAL: Published = Published::between(0.45, 0.55);
/// STREAM is to scatter by less at full speed.
const STEADY: f64 = 0.05;

impl AtHalf {
    pub fn of(words: &str, one_cpu: bool) -> Self {
        let too_slow = Published::between(0.0, 0.45);
        let too_fast = Published::between(0.55, f64::INFINITY);
        match words {
            w if w.contains("too slow on more") && one_cpu => Self::Among(PROPORTIONAL),
            w if w.contains("too slow") => Self::Among(too_slow),
            w if w.starts_with("too fast") => Self::Among(too_fast),
            "saturates" => Self::Among(too_fast),
            "fluctuates" => Self::Scattered(Published::between(STEADY, f64::INFINITY)),
            w if w.contains("unrelated") => Self::Outside(PROPORTIONAL),
            _ => Self::Among(PROPORTIONAL),
        }
    }

    /// Whether speeds got are so. A program whose times scatter as much without a node does not
    /// tell whether a method's speeds do.
    pub fn compare(self, speeds: &[f64], unslowed_s: &[f64]) -> Agreement {
        match self {
            Self::Among(range) => range.compare(Median::of(speeds)),
            Self::Scattered(range) => match relative_sd(unslowed_s) {
                Some(own) if own.value < STEADY => range.compare(relative_sd(speeds)),
                _ => Agreement::Undecided,
            },
            Self::Outside(range) => match range.compare(Median::of(speeds)) {
                Agreement::Agrees => Agreement::Differs,
                Agreement::Differs => Agreement::Agrees,
                other => other,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_perceived_load_is_that_of_the_times() {
        for row in PRECISION {
            let perceived = 100.0 * (1.0 - EP_UNLOADED_S / row.seconds);
            assert!((perceived - row.perceived_pct).abs() < 0.6, "{}", row.name);
        }
    }

    #[test]
    fn only_published_methods_have_a_published_shape() {
        assert!(micro("compute", "hogs").is_some());
        assert_eq!(micro("compute-sleep", "quota"), None);
        assert_eq!(micro("compute", "pace"), None);
        assert_eq!(micro("compute", BARRIER), micro("compute", "hogs"));
    }

    #[test]
    fn words_are_ranges_of_the_speed() {
        let words = micro("threads", "shares").unwrap();
        assert_ne!(AtHalf::of(words, true), AtHalf::of(words, false));
        let beside = |method, speeds: &[f64], unslowed_s: &[f64]| {
            AtHalf::of(micro("memory", method).unwrap(), true).compare(speeds, unslowed_s)
        };
        let compare = |method, speeds: &[f64]| beside(method, speeds, &[1.0, 1.01, 1.0]);
        for (method, speeds, expected) in [
            ("gov", [0.8, 0.81, 0.8], Agreement::Agrees),
            ("gov", [0.5, 0.51, 0.5], Agreement::Differs),
            ("gov", [0.44, 0.46, 0.5], Agreement::Undecided),
            ("lim", [0.5, 0.501, 0.5], Agreement::Differs),
            ("lim", [0.2, 0.5, 0.9], Agreement::Agrees),
            ("lim", [0.48, 0.5, 0.53], Agreement::Undecided),
        ] {
            assert_eq!(compare(method, &speeds), expected, "{method} {speeds:?}");
        }
        let scattered = beside("lim", &[0.2, 0.5, 0.9], &[1.0, 1.3, 0.8]);
        assert_eq!(scattered, Agreement::Undecided);
    }
}
