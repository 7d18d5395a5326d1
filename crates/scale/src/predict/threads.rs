// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Work in pieces on several threads. The result does not depend on their number.

use std::sync::atomic::{AtomicUsize, Ordering};

/// `of` 0, 1, ... `count` - 1, in this order.
pub(crate) fn map_each<T: Send>(
    threads: usize,
    count: usize,
    of: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let work = || {
        let numbers = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
        let own = numbers.take_while(|i| *i < count);
        own.map(|i| (i, of(i))).collect::<Vec<_>>()
    };
    let threads = threads.clamp(1, count.max(1));
    let mut done = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut done = work();
        for other in others {
            done.extend(
                other
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            );
        }
        done
    });
    done.sort_unstable_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, result)| result).collect()
}
