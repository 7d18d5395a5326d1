// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the verdict of a virtual node takes into account besides its load.

use crate::supervisor::RunOutcome;
use sandbag_stats::Verdict;

use super::facts::Facts;
use super::foreign::{Foreign, MOST_NAMED};

/// The verdict of a node is about what its programs got, and not only about
/// what was taken from them.
pub(super) fn node_verdict(
    facts: &Facts,
    outcome: &RunOutcome,
    foreign: &Foreign<'_>,
    verdict: Verdict,
    reason: String,
) -> (Verdict, String) {
    if facts.node.is_none() {
        return (verdict, reason);
    }
    if let Some(left) = left_words(outcome).or_else(|| other_cpus_words(outcome)) {
        return (Verdict::Missed, format!("{left}; {reason}"));
    }
    let doubt = match (verdict, foreign.too_much()) {
        (Verdict::Kept | Verdict::Undecided, Some(too_much)) => Some(format!(
            "foreign load took {too_much} from the node's programs"
        )),
        (Verdict::Kept, None) => foreign.starved().or_else(|| foreign.unknown()),
        _ => None,
    };
    match doubt {
        Some(doubt) => (Verdict::Undecided, format!("{doubt}; {reason}")),
        None => (verdict, reason),
    }
}

/// A group that others made, and gave other CPUs while it was a node.
fn other_cpus_words(outcome: &RunOutcome) -> Option<String> {
    let cpus = outcome.node.as_ref()?.other_cpus.as_ref()?;
    Some(format!(
        "the node's programs could use CPUs {cpus} for a part of the run"
    ))
}

/// CPU time of a command outside its node that is no matter of rounding,
/// seconds and share.
const OUTSIDE_S: f64 = 0.1;
const OUTSIDE_SHARE: f64 = 0.02;

/// The processes of a node that ran outside its groups.
fn left_words(outcome: &RunOutcome) -> Option<String> {
    let node = outcome.node.as_ref()?;
    let names: Vec<String> = node
        .left
        .iter()
        .take(MOST_NAMED)
        .map(|(pid, name)| format!("{name} (process {pid})"))
        .collect();
    if !names.is_empty() {
        let more = match node.left.len() - names.len() {
            0 => String::new(),
            more => format!(" and {more} others"),
        };
        return Some(format!("{}{more} left the node's groups", names.join(", ")));
    }
    // Of one that ended before it was seen.
    let how = outcome.command?.how;
    let whole_s = how.user_s + how.system_s;
    let outside_s = whole_s - node.used_ns? as f64 / 1e9;
    (outside_s > OUTSIDE_S.max(OUTSIDE_SHARE * whole_s))
        .then(|| format!("the command used {outside_s:.2} s of CPU time outside the node's groups"))
}

pub(super) fn left_warning(outcome: &RunOutcome) -> Option<String> {
    let left = left_words(outcome)?;
    Some(format!(
        "{left}: what runs outside does not have the node's speed (only a program with the right \
         to write to the group tree can leave; run it as a user without that right)"
    ))
}
