// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an ordinary user may not do, for tests that root runs.

use sandbag_linux::capability::Capability;

/// Takes CAP_SYS_NICE out of the calling thread's effective capabilities (capset(2)).
pub fn give_up_nice() {
    // _LINUX_CAPABILITY_VERSION_3, this thread.
    let mut header = [0x2008_0522u32, 0];
    let mut sets = [0u32; 6];
    // SAFETY: a header and two sets of three words, as this version has them.
    unsafe {
        let got = libc::syscall(libc::SYS_capget, header.as_mut_ptr(), sets.as_mut_ptr());
        sets[0] &= !(1 << Capability::SysNice as u32);
        let set = libc::syscall(libc::SYS_capset, header.as_mut_ptr(), sets.as_ptr());
        assert_eq!((got, set), (0, 0));
    }
}
