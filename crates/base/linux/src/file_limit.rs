// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many files a process may have open (RLIMIT_NOFILE, getrlimit(2)).
//!
//! The soft limit is 1024 nearly everywhere, for programs that call select(2).
//! Any process may raise it to the hard one; what it starts inherits that.

use std::io;
use std::sync::OnceLock;

use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};

/// The soft limit that our caller gave us, once it was raised.
static CALLERS: OnceLock<rlim_t> = OnceLock::new();

/// Raises the soft limit of this process to the hard one. If that is refused,
/// it stays as it is.
pub fn raise() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok()
    {
        // Refused if it was raised before: this is not our caller's then.
        let _ = CALLERS.set(soft);
    }
}

/// Takes the limit of our caller again, if it was raised. Async-signal-safe.
pub fn take_back() -> io::Result<()> {
    let Some(soft) = CALLERS.get() else {
        return Ok(());
    };
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok(setrlimit(Resource::RLIMIT_NOFILE, hard.min(*soft), hard)?)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::child::ChildSetup as _;

    #[test]
    fn a_raised_limit_is_not_handed_on() {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        // Too little less for other tests to notice.
        setrlimit(Resource::RLIMIT_NOFILE, hard - 1, hard).unwrap();
        raise();
        raise();
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap(), (hard, hard));
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -Sn; ulimit -Hn"]);
        let said = shell.callers_file_limit().output().unwrap().stdout;
        let said = String::from_utf8(said).unwrap();
        assert_eq!(said, format!("{}\n{hard}\n", hard - 1));
    }
}
