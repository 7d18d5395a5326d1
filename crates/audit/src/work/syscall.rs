// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calls that only return information.

use super::test_work::TestWork;

/// getppid(2), past the C library, so that the kernel is really entered.
pub(super) struct Calls;

#[inline]
pub(super) fn call() {
    // SAFETY: no arguments, touches nothing.
    unsafe { libc::syscall(libc::SYS_getppid) };
}

impl TestWork for Calls {
    fn run(&mut self, units: u64) -> Result<(), String> {
        for _ in 0..units {
            call();
        }
        Ok(())
    }

    fn describe(&self) -> String {
        "getppid(2), each call into the kernel".to_owned()
    }
}
