// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `deadline`: a reservation of L*P in every period P (SCHED_DEADLINE,
//! Documentation/scheduler/sched-deadline.rst), on the common grid.
//!
//! A pinned task of this class needs either an exclusive cpuset partition,
//! which takes the CPU from everyone else, or no admission control at all:
//! `kernel.sched_rt_runtime_us = -1`. The latter is journalled, written once
//! per run and put back when the burners are gone (the kernel refuses while
//! their reservations exceed the limit). Without a high-resolution tick the
//! kernel ends a budget at the tick only, so the burner stops by its own clock.

use sandbag_linux::sched::Attributes;

use super::{MOST_REAL_TIME, Method, MethodOptions};
use crate::burn::Duty;

pub(super) fn method(options: &MethodOptions) -> Result<Method, String> {
    let period_ns = options.period_on_grid("deadline", 10_000_000)?;
    Ok(Method {
        about: "a kernel-enforced reservation per CPU (SCHED_DEADLINE)",
        duty: Duty::Pace { period_ns },
        attributes: Attributes::Deadline {
            runtime_ns: 0,
            period_ns,
        },
        most: MOST_REAL_TIME,
        lifts_real_time_limit: true,
        ..Method::named("deadline")
    })
}
