// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the whole program on this machine, as root: what it leaves, how it
//! runs a command, what it refuses, what it survives, what it holds.
//! What they need and show: `docs/testing.md`.

#[macro_use]
extern crate sandbag_machine_tests;

/// A list of cases with the names of their functions: `LIST: can_run; NAME, ...`.
macro_rules! cases {
    ($list:ident: $can_run:expr; $($test:ident),* $(,)?) => {
        pub const $list: &[sandbag_machine_tests::case::Case] = &[
            $(sandbag_machine_tests::case::Case {
                name: stringify!($test),
                can_run: $can_run,
                run: || $crate::place::in_place($test),
            }),*
        ];
    };
}

mod absences;
mod attach;
mod audit;
mod combined;
mod commands;
mod descriptors;
mod doctor;
mod faults;
mod feel;
mod freezing;
mod groups;
mod holding;
mod hosts;
mod jitter;
mod jitter_inside;
mod jitter_replay;
mod kills;
mod lab;
mod node_kills;
mod nodes;
mod nodes_file;
mod offline;
mod others;
mod pace;
mod pages;
mod place;
mod prelude;
mod processes;
mod prometheus;
mod record_command;
mod refusals;
mod registry;
mod run_record;
mod scale;
mod signals;
mod slowed;
mod start_on;
mod sweeps;
mod terminal;
mod throttles;
mod users;
mod watching;

use std::process::ExitCode;

use nix::sys::signal::{SigHandler, Signal, signal};

use sandbag_machine_tests::case;

fn main() -> ExitCode {
    // Under nohup, and in the background of a script, we ignore them, and so
    // would all that we start.
    for ignored in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT] {
        // SAFETY: the default action is no handler.
        let _ = unsafe { signal(ignored, SigHandler::SigDfl) };
    }
    let cases = [
        refusals::CASES,
        refusals::APART,
        commands::CASES,
        descriptors::CASES,
        signals::CASES,
        start_on::CASES,
        terminal::CASES,
        users::CASES,
        others::CASES,
        registry::CASES,
        registry::APART,
        doctor::CASES,
        freezing::CASES,
        throttles::CASES,
        nodes::CASES,
        nodes::REPEATED,
        attach::CASES,
        attach::REDIS,
        attach::CONTAINER,
        combined::CASES,
        combined::PROFILE,
        sweeps::CASES,
        sweeps::PROGRAMS,
        sweeps::SERVICE,
        watching::CASES,
        watching::PROMETHEUS,
        nodes_file::CASES,
        faults::CASES,
        faults::SPOILING,
        prometheus::CASES,
        record_command::CASES,
        record_command::OPPOSING,
        record_command::FAMILY,
        pace::CASES,
        feel::CASES,
        pages::CASES,
        absences::CASES,
        absences::FREEZING,
        absences::MOVED,
        jitter::CASES,
        audit::CASES,
        audit::QUIET,
        offline::CASES,
        hosts::CASES,
        holding::REPEATED,
        holding::UNEQUAL,
        holding::ENDS,
        holding::ALONE,
        holding::PUBLISHED,
        holding::LIGHT,
        lab::REPEATED,
        jitter_inside::CASES,
        jitter_inside::PYTHON,
        jitter_inside::OPENMP,
        jitter_inside::MPI,
        jitter_inside::HPCC,
        jitter_replay::CASES,
        jitter_replay::REPEATED,
        scale::CASES,
        kills::CASES,
        node_kills::CASES,
    ]
    .concat();
    let code = case::run(&cases);
    place::remove_copy();
    code
}
