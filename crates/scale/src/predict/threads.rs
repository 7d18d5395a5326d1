// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Work in pieces on several threads; what comes out does not depend on how
//! many there are.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// `of` 0, 1, ... `count` - 1, in this order.
pub(crate) fn map_each<T: Send>(
    threads: usize,
    count: usize,
    of: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let threads = threads.clamp(1, count.max(1));
    if threads == 1 {
        return (0..count).map(of).collect();
    }
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(count));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= count {
                        return;
                    }
                    let result = of(i);
                    // Only a panic of another thread, which ends this one, too.
                    if let Ok(mut done) = done.lock() {
                        done.push((i, result));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_unstable_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_order_is_that_of_the_numbers() {
        let squares: Vec<usize> = (0..100).map(|i| i * i).collect();
        for threads in [0, 1, 3, 200] {
            assert_eq!(super::map_each(threads, 100, |i| i * i), squares);
        }
        assert!(super::map_each(4, 0, |i| i).is_empty());
    }
}
