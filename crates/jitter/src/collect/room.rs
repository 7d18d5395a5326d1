// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory for events that is there before the first one: no page fault in the
//! loop.

use std::io;
use std::mem::{MaybeUninit, size_of};

use super::hot::Raw;

/// Events in memory of our own, every page of it touched.
#[derive(Debug)]
pub struct Room {
    at: *mut MaybeUninit<Raw>,
    events: usize,
}

// SAFETY: the memory is this one's alone.
unsafe impl Send for Room {}

impl Room {
    /// Room for so many events.
    pub fn new(events: usize) -> io::Result<Self> {
        let bytes = events
            .max(1)
            .checked_mul(size_of::<Raw>())
            .ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: an anonymous mapping of our own; populated, so that its
        // pages are there.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
                -1,
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // Where it may not be locked it is at least there.
        // SAFETY: the mapping made above.
        unsafe { libc::mlock(at, bytes) };
        Ok(Self {
            at: at.cast(),
            events: events.max(1),
        })
    }

    pub fn as_mut(&mut self) -> &mut [MaybeUninit<Raw>] {
        // SAFETY: the mapping is of this size, and ours.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.events) }
    }

    /// The first events, which have been stored.
    pub fn stored(&self, events: usize) -> &[Raw] {
        let events = events.min(self.events);
        // SAFETY: pages of an anonymous mapping are zeros until they are
        // written, and zeros are a `Raw`.
        unsafe { std::slice::from_raw_parts(self.at.cast(), events) }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`; nobody borrows from it any more.
        unsafe { libc::munmap(self.at.cast(), self.events * size_of::<Raw>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_there() {
        let mut room = Room::new(10_000).unwrap();
        room.as_mut()[9_999].write(Raw {
            start: 7,
            length: 9,
        });
        let stored = room.stored(20_000);
        assert_eq!(
            (stored.len(), stored[9_999].start, stored[0].length),
            (10_000, 7, 0)
        );
        assert!(Room::new(usize::MAX).is_err());
    }
}
