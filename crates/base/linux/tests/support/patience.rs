// SPDX-License-Identifier: Apache-2.0 OR MIT
//! For tests that need CPU time: other programs, or the hypervisor, may have the CPUs for
//! seconds. Test modules of several crates include this file by its path.

use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// The first result of `run` that is `enough`; when the patience is over the last one, which
/// the test then judges.
pub fn repeat_until<T>(mut run: impl FnMut() -> T, enough: impl Fn(&T) -> bool) -> T {
    let begin = Instant::now();
    loop {
        let result = run();
        if enough(&result) || begin.elapsed() > PATIENCE {
            return result;
        }
    }
}
