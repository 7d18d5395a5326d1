// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is left of a run with a command that failed by us: the caller sees
//! exit code 125 and finds the reason in run.json.

use sandbag_ui::failure::Result;

use super::options::RunOptions;
use sandbag_run::directory::RUN_PREFIX;
use sandbag_ui::exit;
use sandbag_ui::messages::Messages;
use sandbag_ui::output;

/// Makes a run, from its load on; where that fails and there is a command, the
/// reason is written to the run directory, if the user named one or windows are
/// in it.
pub fn record_failure(
    options: &RunOptions,
    messages: &Messages,
    run: impl FnOnce(&RunOptions) -> Result<u8>,
) -> Result<u8> {
    options.hold.check_results()?;
    let mut options = options.clone();
    let named = options.hold.out.is_some();
    if !options.hold.no_out {
        // One name for the run and for its failure.
        let by_time = || output::new_name(RUN_PREFIX, "");
        options.hold.out.get_or_insert_with(by_time);
    }
    let result = run(&options);
    if let Err(error) = &result
        && error.exit_code(true) == exit::OUR_FAILURE
        && !options.hold.command.is_empty()
        && !options.hold.no_out
        && !options.hold.dry_run
    {
        let user = options.hold.user();
        let out = options.hold.out;
        // A refusal that names no directory makes none: it was said.
        if let Some(out) = out.filter(|dir| named || dir.exists()) {
            sandbag_run::failure::leave_reason(error, out, user, messages);
        }
    }
    result
}
