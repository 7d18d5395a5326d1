// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `run.json` of a run that was not made, or not to its end: why. A caller who
//! finds exit code 125 looks here.

use std::fs;
use std::path::{Path, PathBuf};

use sandbag_input::Existing;
use sandbag_linux::user::User;
use sandbag_ui::messages::Messages;
use sandbag_ui::{Failure, Result, exit, output};
use serde::{Deserialize, Serialize};

use crate::directory::{FORMAT, REPORT_HTML, RUN_JSON, RunDir};
use crate::program;

/// A run that failed by us and not by its command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFailure {
    /// [`crate::directory::FORMAT`] of the writer.
    pub format: u32,
    pub sandbag: String,
    /// When it failed, RFC 3339, UTC.
    pub failed_at: String,
    /// The arguments as given, without the program's own name.
    pub arguments: Vec<String>,
    /// Why. Its presence tells this record from that of a run.
    pub error: Reason,
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// `bad-input`, `not-possible` or `failed`.
    pub kind: String,
    /// What happened, with path, value and cause.
    pub message: String,
    /// What to do about it, where that is known apart from the message.
    pub remedy: Option<String>,
    /// The exit code that this has where there is no command to wrap.
    pub exit_code_alone: u8,
}

/// Writes why there was no run to its directory.
pub fn leave_reason(error: &Failure, out: PathBuf, user: Option<User>, messages: &Messages) {
    let Ok(Some(dir)) = RunDir::make(Some(out), user, messages) else {
        return;
    };
    let failure = RunFailure {
        format: FORMAT,
        sandbag: env!("CARGO_PKG_VERSION").to_owned(),
        failed_at: jiff::Timestamp::now().to_string(),
        arguments: program::arguments(),
        error: reason(error),
    };
    match write(dir.path(), &failure) {
        Ok(()) => dir.give(),
        Err(error) => {
            messages.warning(&error.to_string());
            dir.discard_if_empty();
        }
    }
}

fn reason(error: &Failure) -> Reason {
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

/// Writes why a run failed as the `run.json` of the existing directory `dir`.
/// A page of an earlier run there would contradict it and is removed.
pub fn write(dir: &Path, failure: &RunFailure) -> Result<()> {
    output::put_json(&dir.join(RUN_JSON), failure, Existing::Replace)?;
    // It need not be there.
    let _ = fs::remove_file(dir.join(REPORT_HTML));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn a_reason_has_kind_remedy_and_the_code_it_would_have_alone() {
        let error = Error::not_possible("no v2", "mount it");
        let told = reason(&Failure::from(error).context("replay"));
        let kind = (told.kind.as_str(), told.exit_code_alone);
        assert_eq!(kind, ("not-possible", 5));
        assert_eq!(told.remedy.as_deref(), Some("mount it"));
        assert!(told.message.contains("no v2: mount it"), "{}", told.message);
        let told = reason(&sandbag_ui::BadInput("x".to_owned()).into());
        assert_eq!((told.kind.as_str(), told.exit_code_alone), ("bad-input", 2));
        let told = reason(&sandbag_ui::failure!("x"));
        assert_eq!((told.kind.as_str(), told.exit_code_alone), ("failed", 1));
    }
}
