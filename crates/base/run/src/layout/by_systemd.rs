// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Units that PID 1 makes for us.

use std::path::{Path, PathBuf};

use sandbag_linux::cgroup::{Group, Version};

use super::{Holder, Layout, PREFIX, Tenant};
use crate::error::{Error, Result};
use crate::journal::{Entry, Journal};
use crate::run_process::RunId;
use crate::systemd;

/// The largest that systemd takes. A slice has it again after a reload of systemd until that
/// is seen, and so a load is held meanwhile.
const MOST_CPU_WEIGHT: u64 = 10_000;

impl Layout {
    pub(super) fn settle_by_systemd(
        &self,
        journal: &mut Journal,
        run: RunId,
        tenant: Tenant,
        pid: u32,
    ) -> Result<Holder> {
        // No dash in a slice's name: sandbag-0.slice would lie inside
        // sandbag.slice, whose weight would be divided over all our CPUs.
        let (slice, made) = match tenant {
            Tenant::Burner { cpu, nth } => (format!("{PREFIX}{run}c{cpu}n{nth}.slice"), true),
            Tenant::Command => (slice_of(&self.hierarchies.own), false),
        };
        let scope = match tenant {
            Tenant::Burner { cpu, nth } => format!("{PREFIX}{run}c{cpu}n{nth}.scope"),
            Tenant::Command => format!("{PREFIX}{run}cmd.scope"),
        };
        if made {
            journal.note(Entry::Unit {
                name: slice.clone(),
                keep: false,
            })?;
            systemd::start_slice(&slice, MOST_CPU_WEIGHT).map_err(not_possible)?;
        }
        journal.note(Entry::Unit {
            name: scope.clone(),
            keep: !made,
        })?;
        systemd::start_scope(&scope, &slice, &[pid]).map_err(not_possible)?;
        let dir =
            systemd::wait_for_scope(&self.hierarchies.cpu, pid, &scope).map_err(not_possible)?;
        // The burner's weight is that of its slice: the scope is alone in it.
        let dir = if made {
            dir.parent().map_or(dir.clone(), Path::to_owned)
        } else {
            dir
        };
        Ok(Holder {
            group: Group::at(Version::V2, dir, None),
            slice: made.then_some(slice),
            scope: Some(scope),
        })
    }
}

/// The slice that a process at `own` (its path in the tree) lies in: the
/// command stays there. Below a service or scope nothing is PID 1's: a user's
/// own systemd is a service and has slices that PID 1 knows nothing of, and a
/// container has a whole tree.
pub(super) fn slice_of(own: &Path) -> String {
    let units = own.iter().filter_map(|part| part.to_str());
    units
        .take_while(|part| !part.ends_with(".service") && !part.ends_with(".scope"))
        .filter(|part| part.ends_with(".slice"))
        .last()
        .unwrap_or("system.slice")
        .to_owned()
}

/// The group of the scope in which the command of a run is, whose supervisor has this id; in
/// the tree at `mount`.
pub fn dir_of_scope(mount: &Path, supervisor: u32, scope: &str) -> Option<PathBuf> {
    Some(mount.join(beside(&systemd::group_of(supervisor)?, scope)))
}

fn beside(own: &Path, scope: &str) -> PathBuf {
    let slice = slice_of(own);
    let dir = own.ancestors().find(|above| above.ends_with(&slice));
    dir.unwrap_or(Path::new(&slice)).join(scope)
}

/// The unit of PID 1's whose group is at `own` (its path in the tree); `None` for what is
/// in one, and for what holds no processes.
pub(super) fn unit_of(own: &Path) -> Option<String> {
    let mut parts = own.iter().map(|part| part.to_string_lossy().into_owned());
    let name = parts.find(|part| part.ends_with(".service") || part.ends_with(".scope"))?;
    parts.next().is_none().then_some(name)
}

/// PID 1 refused.
pub(super) fn not_possible(what: String) -> Error {
    let remedy = "see the journal of PID 1 (journalctl -u init.scope), or give a delegated group \
                  with --cgroup";
    Error::not_possible(what, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_s_scope_is_in_the_slice_of_its_supervisor() {
        for (own, dir) in [
            (
                "user.slice/user-0.slice/session-3.scope",
                "user.slice/user-0.slice/x.scope",
            ),
            (
                "user.slice/user-0.slice/user@0.service/app.slice/y.service",
                "user.slice/user-0.slice/x.scope",
            ),
            ("init.scope", "system.slice/x.scope"),
        ] {
            assert_eq!(beside(Path::new(own), "x.scope"), Path::new(dir));
        }
    }

    #[test]
    fn a_unit_is_a_group_that_pid_1_knows() {
        let unit = |path: &str| unit_of(Path::new(path));
        assert_eq!(unit("system.slice/nginx.service").unwrap(), "nginx.service");
        assert_eq!(unit("user.slice/user@1.service/app.slice/x.scope"), None);
        assert_eq!(unit("system.slice"), None);
    }

    /// Paths as they were seen on machines, by how sandbag was started.
    #[test]
    fn the_command_stays_in_the_slice_that_pid_1_knows() {
        for (own, slice) in [
            // ssh, a console
            (
                "user.slice/user-1000.slice/session-3.scope",
                "user-1000.slice",
            ),
            // sudo in a terminal of a desktop
            (
                "user.slice/user-1000.slice/user@1000.service/app.slice/\
                 app-org.gnome.Terminal.slice/vte-spawn-5f3c0d0e.scope",
                "user-1000.slice",
            ),
            // the same in a unit of the user's own
            (
                "user.slice/user-1000.slice/user@1000.service/app.slice/x.service",
                "user-1000.slice",
            ),
            (
                "user.slice/user-0.slice/user@0.service/init.scope",
                "user-0.slice",
            ),
            // a service, an instance of one
            ("system.slice/cron.service", "system.slice"),
            (
                "system.slice/system-getty.slice/getty@tty1.service",
                "system-getty.slice",
            ),
            // a container that shows its own slices
            (
                "machine.slice/machine-deb.scope/payload/system.slice/cron.service",
                "machine.slice",
            ),
            ("system.slice/docker-0f1e.scope", "system.slice"),
            ("init.scope", "system.slice"),
            ("", "system.slice"),
        ] {
            assert_eq!(slice_of(Path::new(own)), slice, "{own}");
        }
    }
}
