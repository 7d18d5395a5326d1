// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory for events that exists before the first one: no page fault in the loop.

use std::collections::TryReserveError;
use std::mem::size_of_val;

use super::hot::Raw;

/// Room for `events`, in pages that have all been written to and, where this process may do
/// so, are locked.
///
/// # Errors
/// There is not that much memory.
pub fn room(events: usize) -> Result<Vec<Raw>, TryReserveError> {
    let events = events.max(1);
    let mut room = Vec::new();
    room.try_reserve_exact(events)?;
    room.resize(
        events,
        Raw {
            start: 0,
            length: 0,
        },
    );
    // SAFETY: the memory of the vector, which does not grow any more.
    unsafe { libc::mlock(room.as_ptr().cast(), size_of_val(&room[..])) };
    Ok(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_all_events() {
        assert_eq!(room(10_000).unwrap().len(), 10_000);
        assert!(room(usize::MAX).is_err());
    }
}
