// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Directories that we make ourselves: v1, v2 without systemd, and a v2 group
//! that was handed to us.

use std::path::Path;

use sandbag_linux::cgroup::Group;

use super::{Holder, Layout, LayoutKind, PREFIX, Tenant};
use crate::error::Result;
use crate::journal::{Entry, Journal};
use crate::run_process::RunId;

impl Layout {
    pub(super) fn settle_by_hand(
        &self,
        journal: &mut Journal,
        run: RunId,
        tenant: Tenant,
        pid: u32,
    ) -> Result<Holder> {
        let name = name(run, tenant);
        let h = &self.hierarchies;
        // On v1 groups may be nested at will, so the command stays where it
        // was, one level deeper. On v2 a group with processes can have no
        // children with controllers: the command gets a sibling.
        let nested = tenant == Tenant::Command && self.kind == LayoutKind::V1;
        let cpu = if nested {
            h.own_dir().join(&name)
        } else {
            self.base.join(&name)
        };
        // Burners need no accounting: they have clocks of their own.
        let accounting = h
            .cpuacct
            .as_ref()
            .filter(|mount| tenant == Tenant::Command && **mount != h.cpu);
        let group = Group::at(
            self.version(),
            cpu,
            accounting.map(|mount| mount.join(&h.own_cpuacct).join(&name)),
        );
        let back = (tenant == Tenant::Command).then(|| {
            let mut back = vec![h.own_dir()];
            back.extend(accounting.map(|mount| mount.join(&h.own_cpuacct)));
            back
        });
        journal.note(Entry::Group {
            dirs: group.dirs().map(Path::to_owned).collect(),
            back,
        })?;
        group.make()?;
        group.add(pid)?;
        Ok(Holder {
            group,
            slice: None,
            scope: None,
        })
    }
}

/// Directory of a tenant: whose run, and which CPU.
fn name(run: RunId, tenant: Tenant) -> String {
    match tenant {
        Tenant::Burner { cpu, nth: 0 } => format!("{PREFIX}-{run}-cpu{cpu}"),
        Tenant::Burner { cpu, nth } => format!("{PREFIX}-{run}-cpu{cpu}.{nth}"),
        Tenant::Command => format!("{PREFIX}-{run}-cmd"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_run_and_cpu() {
        let burner = |cpu, nth| name(RunId::from(7), Tenant::Burner { cpu, nth });
        assert_eq!(burner(3, 0), "sandbag-7-cpu3");
        assert_eq!(burner(3, 2), "sandbag-7-cpu3.2");
        assert_eq!(name(RunId::from(7), Tenant::Command), "sandbag-7-cmd");
    }
}
