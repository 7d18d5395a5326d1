// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is left of a run with a command that failed by us: the caller sees
//! exit code 125 and finds the reason in run.json.

use sandbag_ui::failure::Result;

use super::options::RunOptions;
use sandbag_ui::exit;
use sandbag_ui::messages::Messages;

/// Makes a run, from its load on; where that fails and there is a command, the
/// reason is written to the run directory, if the user named one or windows are
/// in it.
pub fn record_failure(
    options: &RunOptions,
    messages: &Messages,
    run: impl FnOnce(&RunOptions) -> Result<u8>,
) -> Result<u8> {
    let hold = &options.hold;
    hold.check_results()?;
    let result = run(options);
    if let Err(error) = &result
        && error.exit_code(true) == exit::OUR_FAILURE
        && !hold.command.is_empty()
        && !hold.no_out
        && !hold.dry_run
    {
        // A refusal that names no directory makes none: it was said.
        let made = hold.made.get().filter(|dir| dir.exists());
        if let Some(out) = hold.out.as_ref().or(made) {
            sandbag_run::failure::leave_reason(error, out.clone(), hold.user(), messages);
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser as _;
    use sandbag_ui::output::RUN_JSON;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: RunOptions,
    }

    #[test]
    fn a_directory_of_the_run_s_own_is_not_named_and_has_the_reason() {
        let place = tempfile::tempdir().unwrap();
        let messages = Messages::new(true, 0);
        for remains in [true, false] {
            let dir = place.path().join(format!("r-{remains}"));
            fs::create_dir(&dir).unwrap();
            let options = Line::parse_from(["x", "--", "true"]).options;
            let result = record_failure(&options, &messages, |options| {
                assert_eq!(options.hold.out, None);
                // As a node does.
                options.hold.clone().made.set(dir.clone()).unwrap();
                if !remains {
                    fs::remove_dir(&dir).unwrap();
                }
                Err(sandbag_ui::failure!("the disk is on fire"))
            });
            assert!(result.is_err());
            assert_eq!(dir.join(RUN_JSON).exists(), remains);
        }
    }
}
