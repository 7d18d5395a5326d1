// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A replay among the runs of this machine: `sandbag status` shows it,
//! `sandbag stop` ends it. It changes nothing, so its journal holds nothing
//! but its name, and a guardian removes it should sandbag be killed.

use std::ffi::OsString;
use std::process::Child;

use sandbag_linux::CpuList;
use sandbag_run::guardian;
use sandbag_run::journal::{Journal, RunInfo};
use sandbag_run::registry::Registry;

use sandbag_run::program::words;
use sandbag_ui::messages::Messages;

/// While it lives the replay is listed.
pub struct RunEntry(Option<(Journal, Child)>);

impl RunEntry {
    /// Where there is no place for journals (a user without XDG_RUNTIME_DIR)
    /// it is not listed; that is no reason not to run.
    pub fn enter(
        (what, method, cpus): (String, &str, &[u32]),
        command: &[OsString],
        messages: &Messages,
    ) -> Self {
        let cpus: CpuList = cpus.iter().copied().collect();
        let info = RunInfo {
            cpus: cpus.to_string(),
            method: method.to_owned(),
            command: words(command),
            shares: true,
            ..RunInfo::of_this_process(&what)
        };
        let entered = Registry::open().and_then(|registry| {
            // As every run does; what could not be undone a load would say.
            registry.restore()?;
            let guardian = guardian::start(&registry.own_journal())?;
            match registry.register(info, &CpuList::default()) {
                Ok(journal) => Ok((journal, guardian)),
                Err(error) => {
                    guardian::dismiss(guardian);
                    Err(error)
                }
            }
        });
        if let Err(error) = &entered {
            messages.detail(&format!("sandbag status will not show this run: {error}"));
        }
        Self(entered.ok())
    }
}

impl Drop for RunEntry {
    fn drop(&mut self) {
        if let Some((journal, guardian)) = self.0.take() {
            // What cannot be removed now the guardian removes.
            let _ = journal.close();
            guardian::dismiss(guardian);
        }
    }
}
