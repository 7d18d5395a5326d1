// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the user should hear about a trace.

use sandbag_jitter::Trace;

use super::options::Options;

pub(super) fn warn(trace: &Trace, options: &Options, warnings: &mut Vec<String>) {
    let known = trace.cpus.iter().filter(|cpu| cpu.known_ns() > 0).count();
    let empty = trace.cpus.len() - known;
    if empty > 0 {
        warnings.push(format!(
            "{empty} CPUs on which nothing was looked for are left out"
        ));
    }
    let over = known % options.group.max(1) as usize;
    if over > 0 {
        warnings.push(format!(
            "{over} of {known} CPUs are left out: they do not fill a node of {}",
            options.group
        ));
    }
    if options
        .ranks
        .iter()
        .any(|n| n % u64::from(options.group) != 0)
    {
        warnings.push(format!(
            "nodes of {} ranks are whole: a number of ranks in between counts as the next",
            options.group
        ));
    }
    let dropped: u64 = trace
        .notes
        .iter()
        .flat_map(|notes| &notes.cpus)
        .map(|cpu| cpu.dropped)
        .sum();
    if dropped > 0 {
        warnings.push(format!(
            "{dropped} events were dropped when the trace was recorded: the prediction is too low"
        ));
    }
}
