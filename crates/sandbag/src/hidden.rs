// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The verbs that only sandbag itself uses, for the processes it starts.

use std::ffi::OsString;
use std::path::Path;

use sandbag_audit::WORK_VERB;
use sandbag_jitter::inside::collector;
use sandbag_jitter::replay::process::{INJECTOR_VERB, injector};
use sandbag_load::burn;
use sandbag_load::metrics::{self, EXPORTER_VERB};
use sandbag_load::node::socket::{Directory, sweep};
use sandbag_run::child::{BURNER_VERB, EXEC_VERB, GUARDIAN_VERB};
use sandbag_run::{command, guardian};

use sandbag_ui::exit;
use sandbag_ui::messages::Messages;

/// Removes the socket of a node or a load whose supervisor was killed.
fn sweep_one(arguments: &[String]) -> Result<(), String> {
    let journal = arguments.first().map(Path::new).and_then(Path::parent);
    journal.map_or(Ok(()), |registry| {
        let all = [
            Directory::in_registry(registry),
            Directory::of_loads(registry),
        ];
        let swept = all.iter().map(sweep).fold(Ok(()), Result::and);
        swept.map_err(|error| error.to_string())
    })
}

/// Runs a hidden verb, if that is what the first argument is.
pub fn main() -> Option<u8> {
    let mut arguments = std::env::args_os().skip(1);
    let verb = arguments.next()?;
    let verb = verb.to_str()?;
    if verb == EXEC_VERB {
        return Some(command::exec(&arguments.collect::<Vec<OsString>>()));
    }
    let ours = [
        BURNER_VERB,
        GUARDIAN_VERB,
        INJECTOR_VERB,
        collector::VERB,
        WORK_VERB,
        EXPORTER_VERB,
    ];
    if !ours.contains(&verb) {
        return None;
    }
    let arguments: Vec<String> = arguments
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let outcome = match verb {
        GUARDIAN_VERB => {
            let undone = guardian::run(&arguments).map_err(|error| error.to_string());
            undone.and(sweep_one(&arguments))
        }
        WORK_VERB => sandbag_audit::work(&arguments),
        EXPORTER_VERB => metrics::run(&arguments),
        INJECTOR_VERB => match injector::InjectorSetup::from_args(&arguments) {
            Some(setup) => injector::run(&setup).map_err(|error| error.to_string()),
            None => Err(format!("{INJECTOR_VERB} is for sandbag's own use")),
        },
        collector::VERB => collector::run(&arguments).map_err(|error| error.to_string()),
        _ => match burn::BurnerSetup::from_args(&arguments) {
            Some(setup) => burn::run(&setup).map_err(|error| error.to_string()),
            None => Err(format!("{BURNER_VERB} is for sandbag's own use")),
        },
    };
    Some(match outcome {
        Ok(()) => exit::KEPT,
        Err(error) => {
            Messages::error(&error);
            exit::FAILED
        }
    })
}
