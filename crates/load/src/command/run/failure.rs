// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is left of a run with a command that failed by us: the caller sees
//! exit code 125 and finds the reason in run.json.

use std::path::PathBuf;

use crate::report::failure::{Failure, Reason};
use crate::report::run::FORMAT;
use crate::report::write;
use sandbag_ui::failure::Result;

use super::directory::{RUN_PREFIX, RunDir};
use super::options::RunOptions;
use sandbag_linux::user::User;
use sandbag_ui::exit;
use sandbag_ui::messages::Messages;
use sandbag_ui::output;

/// Makes a run, from its load on; where that fails and there is a command, the
/// reason is written to the run directory, if the user named one or windows are
/// in it.
///
/// # Errors
/// Those of `run`.
pub fn recorded(
    options: &RunOptions,
    messages: &Messages,
    run: impl FnOnce(&RunOptions) -> Result<u8>,
) -> Result<u8> {
    options.hold.refuse_existing()?;
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
        let user = if options.hold.as_root {
            None
        } else {
            User::behind_sudo()
        };
        let out = options.hold.out;
        // A refusal that names no directory makes none: it was said.
        if let Some(out) = out.filter(|dir| named || dir.exists()) {
            leave_reason(error, out, user, messages);
        }
    }
    result
}

/// Writes why there was no run to its directory.
pub fn leave_reason(
    error: &sandbag_ui::Failure,
    out: PathBuf,
    user: Option<User>,
    messages: &Messages,
) {
    let Some(dir) = RunDir::make(Some(out), user, messages) else {
        return;
    };
    let failure = Failure {
        format: FORMAT,
        sandbag: env!("CARGO_PKG_VERSION").to_owned(),
        failed_at: jiff::Timestamp::now().to_string(),
        arguments: sandbag_run::program::arguments(),
        error: reason(error),
    };
    match write::write_failure(dir.path(), &failure) {
        Ok(()) => dir.give(),
        Err(error) => {
            messages.warning(&error.to_string());
            dir.discard_if_empty();
        }
    }
}

fn reason(error: &sandbag_ui::Failure) -> Reason {
    let exit_code_alone = error.exit_code(false);
    Reason {
        kind: match exit_code_alone {
            exit::USAGE => "bad-input",
            exit::NOT_POSSIBLE => "not-possible",
            _ => "failed",
        }
        .to_owned(),
        message: error.line(),
        remedy: error.remedy(),
        exit_code_alone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbag_run::Error;

    #[test]
    fn a_reason_has_kind_remedy_and_the_code_it_would_have_alone() {
        let error = Error::NotPossible {
            what: "no v2".into(),
            remedy: "mount it".into(),
        };
        let told = reason(&sandbag_ui::Failure::from(error).context("replay"));
        assert_eq!(
            (told.kind.as_str(), told.exit_code_alone),
            ("not-possible", 5)
        );
        assert_eq!(told.remedy.as_deref(), Some("mount it"));
        assert!(told.message.contains("no v2: mount it"), "{}", told.message);
        let told = reason(&exit::BadInput("x".to_owned()).into());
        assert_eq!((told.kind.as_str(), told.exit_code_alone), ("bad-input", 2));
        let told = reason(&sandbag_ui::failure!("x"));
        assert_eq!((told.kind.as_str(), told.exit_code_alone), ("failed", 1));
    }
}
