// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A group of ours with tasks in it, and the interface that changes it.

use sandbag_linux::cgroup::{Cap, Group, Weight};

use crate::error::{Error, Result};

/// A group with what made it: a directory of ours, or systemd.
#[derive(Debug)]
pub struct Holder {
    pub(super) group: Group,
    pub(super) slice: Option<String>,
    pub(super) scope: Option<String>,
}

impl Holder {
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// The systemd scope, where there is one.
    pub fn scope(&self) -> Option<&str> {
        self.scope.as_deref()
    }

    /// Written into the kernel's file also where systemd made the group: a burner that
    /// starves waits for this, and systemd, which needs a busy CPU itself, may answer after
    /// a second. When it reads its files anew it sets its own value again.
    pub fn set_weight(&self, weight: Weight) -> Result<()> {
        Ok(self.group.set_weight(weight)?)
    }

    /// See [`Group::set_idle`]; returns whether it could be had.
    pub fn set_idle(&self, idle: bool) -> bool {
        self.group.set_idle(idle).is_ok()
    }

    pub fn set_cap(&self, cap: Option<Cap>) -> Result<()> {
        if self.slice.is_some() && cap.is_some() {
            return Err(Error::not_possible(
                "systemd cannot set the burst that a cap needs to be exact",
                "use --method pace, or give a delegated group with --cgroup",
            ));
        }
        match self.slice {
            Some(_) => Ok(()),
            None => Ok(self.group.set_cap(cap)?),
        }
    }
}
