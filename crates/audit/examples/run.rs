// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An audit by the library alone: as JSON on standard output.
//!
//!     cargo run --release -p sandbag-audit --example run -- quick compute,syscall
//!
//! A program that calls [`sandbag_audit::run`] must answer to the hidden verb,
//! because it is started anew as the process that works.

use sandbag_audit::{Options, Progress, WORK_VERB, Wanted};
use sandbag_linux::Root;

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|verb| verb == WORK_VERB) {
        return sandbag_audit::work(&arguments[1..]);
    }
    let mut options = match arguments.first().map(String::as_str) {
        Some("quick") => Options::quick(),
        _ => Options::default(),
    };
    if let Some(names) = arguments.get(1) {
        let tests = names.split(',').map(str::parse::<Wanted>);
        let tests: Result<Vec<Wanted>, _> = tests.collect();
        options.tests = tests.map_err(|error| error.to_string())?;
    }
    let mut progress = |progress| match progress {
        Progress::Round {
            name,
            round,
            half_width_pct,
            ..
        } => {
            eprint!("\r{name} {round} {half_width_pct:?}      ");
        }
        other => eprintln!("\n{other:?}"),
    };
    let audit = sandbag_audit::run(&Root::default(), &options, &mut progress, &|| false);
    let mut audit = audit.map_err(|error| error.to_string())?;
    eprintln!();
    // The figures without the runs.
    if arguments.get(2).is_some_and(|word| word == "short") {
        audit.tests.iter_mut().for_each(|test| test.samples.clear());
    }
    println!(
        "{}",
        serde_json::to_string_pretty(&audit).unwrap_or_default()
    );
    Ok(())
}
