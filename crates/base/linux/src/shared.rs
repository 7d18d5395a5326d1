// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory that several processes map, and waiting on a word of it.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ptr::NonNull;

/// Anonymous memory of `bytes` zeros, to be mapped by processes that get the
/// descriptor. It closes on exec.
pub fn memory_file(name: &CStr, bytes: usize) -> io::Result<OwnedFd> {
    // SAFETY: the name is a valid C string.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above returned a new descriptor.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    file.set_len(bytes as u64)?;
    Ok(file.into())
}

/// A shared mapping, taken away when it is dropped. What is in it is changed
/// by other processes at any time: reach it as atomics only.
#[derive(Debug)]
pub struct SharedMemory {
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to no thread and lives as long as this; what
// is in it is reached as atomics.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Maps the first bytes of a file, which must be as long. `touched`: its
    /// pages are there before the first access.
    pub fn of_file(
        file: impl AsFd,
        bytes: usize,
        writable: bool,
        touched: bool,
    ) -> io::Result<Self> {
        let flags = if touched { libc::MAP_POPULATE } else { 0 };
        Self::map(bytes, writable, flags, file.as_fd().as_raw_fd())
    }

    /// Zeros that a process shares with those it forks, all pages touched.
    pub fn anonymous(bytes: usize) -> io::Result<Self> {
        let flags = libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        Self::map(bytes, true, flags, -1)
    }

    fn map(bytes: usize, writable: bool, flags: i32, fd: i32) -> io::Result<Self> {
        let write = if writable { libc::PROT_WRITE } else { 0 };
        // SAFETY: a new mapping at an address of the kernel's choice.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | write,
                libc::MAP_SHARED | flags,
                fd,
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { at, bytes })
    }

    /// Its first byte, at the beginning of a page.
    pub fn start(&self) -> NonNull<u8> {
        self.at
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and no reference into it outlives
        // this.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}

/// Sleeps while the word in shared memory is `seen`, until it is woken, a
/// signal comes, or `until` (CLOCK_MONOTONIC, ns).
pub fn wait_on(word: *const u32, seen: u32, until: Option<u64>) {
    futex(word, libc::FUTEX_WAIT_BITSET, seen, until);
}

/// Wakes all that wait on the word.
pub fn wake_all(word: *const u32) {
    futex(word, libc::FUTEX_WAKE, i32::MAX as u32, None);
}

fn futex(word: *const u32, operation: i32, value: u32, until: Option<u64>) {
    let deadline = until.map(|ns| libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    });
    // SAFETY: the kernel only compares the word, and refuses an address that
    // is not mapped. It reads the time or takes null; FUTEX_WAKE ignores it.
    // Every error means that the word is to be looked at again.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word,
            operation,
            value,
            deadline
                .as_ref()
                .map_or(std::ptr::null(), std::ptr::from_ref),
            0,
            u32::MAX,
        );
    }
}
