// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Help on one screen: what an option is called decides its heading, and whether
//! `-h` has it; `--help` and man pages have all.

use clap::{Arg, Command};

struct Group {
    heading: &'static str,
    /// Left out of `-h`.
    is_long: bool,
    /// By what clap calls them.
    options: &'static [&'static str],
}

const EXPERT: &str = "Expert options";

/// Options that are in none stand first.
const GROUPS: [Group; 9] = [
    Group {
        heading: "Profile options",
        is_long: true,
        options: &[
            "machine",
            "map_machines",
            "spread",
            "map",
            "gaps",
            "steal",
            "end",
            "resample",
            "cut",
            "select",
            "delay",
            "append",
            "add",
            "times",
        ],
    },
    Group {
        heading: "Output options",
        is_long: false,
        options: &["output", "to", "out", "json", "html", "force"],
    },
    // Many hosts.
    Group {
        heading: EXPERT,
        is_long: true,
        options: &[
            "host_rank",
            "host_ranks",
            "hosts_start",
            "hosts_patience",
            "hosts_lost",
        ],
    },
    // Methods.
    Group {
        heading: EXPERT,
        is_long: true,
        options: &[
            "period",
            "feel",
            "pace_weight",
            "pace_slice",
            "shares_weight",
            "hog_sync",
            "hog_priority",
            "lim_variant",
            "lim_interval",
            "split_domains",
            "calibrate",
        ],
    },
    // Runs.
    Group {
        heading: EXPERT,
        is_long: true,
        options: &[
            "windows",
            "at",
            "start_on",
            "supervisor_cpu",
            "progress",
            "no_out",
            "no_settle",
            "kill",
            "as_root",
            "cgroup",
            "ignore_failure",
            "extra",
        ],
    },
    // Jitter.
    Group {
        heading: EXPERT,
        is_long: true,
        options: &[
            "trace_cpus",
            "share",
            "group",
            "priority",
            "max_memory",
            "unit",
            "cpu",
            "no_fork",
            "only",
            "per_thread",
            "scale_factor",
            "no_safeguard",
            "preheat",
            "round",
            "threshold",
            "late",
            "longer",
            "longer_pct",
            "events",
        ],
    },
    // Scale.
    Group {
        heading: EXPERT,
        is_long: true,
        options: &[
            "loggp",
            "drift",
            "mix",
            "tail",
            "no_classes",
            "barrier",
            "bytes",
            "starts",
            "threads",
            "rounds",
            "clock",
            "repeats",
            "seed",
        ],
    },
    // Audits.
    Group {
        heading: EXPERT,
        is_long: true,
        options: &[
            "confidence",
            "precision",
            "limit",
            "memory",
            "calls",
            "file",
            "anyway",
            "files",
        ],
    },
    Group {
        heading: "Common options",
        is_long: false,
        options: &["quiet", "verbose", "help", "version"],
    },
];

/// The same command line with its options in groups.
pub fn grouped(command: Command) -> Command {
    command.mut_args(group).mut_subcommands(grouped)
}

fn group(arg: Arg) -> Arg {
    let has = |group: &&Group| group.options.contains(&arg.get_id().as_str());
    match GROUPS.iter().find(has) {
        Some(group) if !arg.is_positional() && arg.get_help_heading().is_none() => {
            let is_long = group.is_long || arg.is_hide_short_help_set();
            arg.help_heading(group.heading).hide_short_help(is_long)
        }
        _ => arg,
    }
}
