// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From what the probes found to what each method can do here. Pure.

mod loads;
mod nodes;

use std::fmt::Write as _;

use crate::method::{NAMES, SLOWING};
use serde::Serialize;

use super::check::{Check, CheckState};
use super::frequencies::FrequencySetting;
use super::judge::Judgement;
use super::judge::Refusal;
use super::probes::ProbeFindings;

#[derive(Debug, Clone, Copy)]
pub struct Ground<'a> {
    /// Why no group can be made, and what to do; `None` if one can.
    pub no_groups: Option<(&'a str, &'a str)>,
    /// systemd owns the tree.
    pub by_systemd: bool,
    pub cpus: usize,
    pub virtual_machine: bool,
    /// Part of a CPU that real-time tasks may take; `None` where nothing
    /// limits them.
    pub real_time_limit: Option<f64>,
    pub frequencies: &'a FrequencySetting,
}

/// A method, what it is for, and how it stands with it.
#[derive(Debug, Clone, Serialize)]
pub struct MethodVerdict {
    #[serde(flatten)]
    pub check: Check,
    pub used_for: Vec<&'static str>,
    /// For which of them it is the default.
    pub default_for: Vec<&'static str>,
}

const LOADS: &str = "loads";
const NODES: &str = "nodes";

pub fn all(found: &ProbeFindings, ground: Ground<'_>) -> Vec<MethodVerdict> {
    let only_nodes = SLOWING.into_iter().filter(|name| !NAMES.contains(name));
    NAMES
        .into_iter()
        .chain(only_nodes)
        .map(|name| verdict(name, found, ground))
        .collect()
}

fn verdict(name: &'static str, found: &ProbeFindings, ground: Ground<'_>) -> MethodVerdict {
    let kinds = [(LOADS, &NAMES[..]), (NODES, &SLOWING[..])];
    let those = |has: fn(&[&str], &str) -> bool| {
        let kinds = kinds.iter().filter(|(_, names)| has(names, name));
        kinds.map(|(kind, _)| *kind).collect()
    };
    MethodVerdict {
        check: judge(name, found, ground),
        used_for: those(|names, name| names.contains(&name)),
        default_for: those(|names, name| names[0] == name),
    }
}

fn judge(name: &'static str, found: &ProbeFindings, ground: Ground<'_>) -> Check {
    if let Some((what, remedy)) = ground.no_groups {
        return Check::no(name, what).remedy(remedy);
    }
    let probe = match name {
        "pace" => loads::pace,
        "quota" => loads::quota,
        "shares" => loads::shares,
        "hogs" => loads::hogs,
        "rt" => loads::rt,
        "deadline" => loads::deadline,
        "lim" => nodes::lim,
        "freq" => nodes::freq,
        "gov" => nodes::gov,
        "cap" => nodes::cap,
        // A new method: said, not hidden.
        _ => |name: &'static str, _: &ProbeFindings, _: Ground<'_>| {
            Ok(Check::new(
                name,
                CheckState::Untried,
                "there is no probe for it",
            ))
        },
    };
    probe(name, found, ground).unwrap_or_else(|check| check)
}

/// What a method needs of the kernel: `Err` is the verdict without it, `line`
/// the line that says more.
fn needs(
    name: &'static str,
    judgement: Option<Judgement>,
    what: &str,
    line: &str,
) -> Result<(), Check> {
    let see = format!("see the line on {line}");
    match judgement {
        Some(Judgement::No) => Err(Check::no(name, format!("{what} here")).remedy(see)),
        None => {
            let why = format!("could not be tried ({line})");
            Err(Check::new(name, CheckState::Untried, why).remedy(see))
        }
        Some(Judgement::Yes | Judgement::Unclear) => Ok(()),
    }
}

fn check_refusal(name: &'static str, refusal: Option<&Refusal>) -> Result<(), Check> {
    match refusal {
        Some((what, remedy)) => Err(Check::no(name, what).remedy(remedy)),
        None => Ok(()),
    }
}

/// A worker or burner of a real-time class.
fn needs_real_time(name: &'static str, found: &ProbeFindings) -> Result<(), Check> {
    check_refusal(name, found.no_real_time.as_ref())?;
    let what = "real-time tasks do not go first";
    needs(name, found.real_time, what, "real-time")
}

/// For a method whose probe was drowned by other work.
fn too_busy(name: &'static str) -> Check {
    Check::warn(name, "probably works; the machine was too busy to be sure")
        .remedy("try again when it is quieter")
}

/// The methods for people: a check's columns, and what each is for.
pub fn table(verdicts: &[MethodVerdict]) -> String {
    let uses = |verdict: &MethodVerdict| {
        let each = verdict.used_for.iter().map(|kind| {
            let star = if verdict.default_for.contains(kind) {
                "*"
            } else {
                ""
            };
            format!("{kind}{star}")
        });
        each.collect::<Vec<_>>().join(" ")
    };
    let name = verdicts.iter().map(|v| v.check.name.len()).max();
    let name = name.unwrap_or(0);
    let most = verdicts.iter().map(|v| uses(v).len()).max().unwrap_or(0);
    let mut text = "Methods (* the default)\n".to_owned();
    for (n, verdict) in verdicts.iter().enumerate() {
        let check = &verdict.check;
        let next = verdicts.get(n + 1).map(|next| &next.check);
        let (state, used) = (check.state.word(), uses(verdict));
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "  {:name$}  {used:most$}  {state:7}  {}",
            check.name, check.why
        );
        // What many need to be done is said once.
        if let Some(remedy) = &check.remedy
            && next.is_none_or(|next| next.remedy != check.remedy)
        {
            let _ = writeln!(text, "  {:name$}  {:most$}  {:7}  -> {remedy}", "", "", "");
        }
    }
    text
}

#[cfg(test)]
mod tests;
