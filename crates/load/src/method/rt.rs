// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `rt`: the early Wrekavoc loader, a real-time process per CPU that watches
//! its own share (KRASH section II). For comparison: the CPUs are not in phase,
//! so a program with fewer threads than CPUs gets more than its speed.

use sandbag_linux::sched::Attributes;

use super::{MOST_REAL_TIME, Method, MethodOptions};
use crate::burn::Duty;

pub(super) fn method(options: &MethodOptions) -> Result<Method, String> {
    Ok(Method {
        about: "a real-time task per CPU that watches its own share; CPUs not in phase (early Wrekavoc)",
        duty: Duty::Adapt {
            period_ns: options.period_on_grid("rt", 100_000_000)?,
        },
        attributes: Attributes::Fifo { priority: 1 },
        most: MOST_REAL_TIME,
        parameters: vec![("priority", "1".to_owned())],
        ..Method::named("rt")
    })
}
