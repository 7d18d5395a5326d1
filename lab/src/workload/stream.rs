// SPDX-License-Identifier: Apache-2.0 OR MIT
//! STREAM's four kernels (McCalpin 1995): copy, scale, add and triad over
//! arrays that no cache holds, and its check of the values at the end.

use sandbag_linux::{Root, memory};

/// Each array at least four times the last cache, as STREAM asks.
const TIMES_CACHE: u64 = 4;
/// Where the size of the caches is unknown.
const UNKNOWN_CACHE: u64 = 32 << 20;
/// All three together at most this share of the free memory.
const SHARE_OF_FREE: u64 = 4;
const SCALAR: f64 = 3.0;

#[derive(Debug)]
pub struct Stream {
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
    passes: u64,
}

impl Stream {
    pub fn new(elements: usize) -> Self {
        Self {
            a: vec![1.0; elements],
            b: vec![2.0; elements],
            c: vec![0.0; elements],
            passes: 0,
        }
    }

    fn pass(&mut self) {
        self.passes += 1;
        self.c.copy_from_slice(&self.a);
        for (b, c) in self.b.iter_mut().zip(&self.c) {
            *b = SCALAR * c;
        }
        for ((c, a), b) in self.c.iter_mut().zip(&self.a).zip(&self.b) {
            *c = a + b;
        }
        for ((a, b), c) in self.a.iter_mut().zip(&self.b).zip(&self.c) {
            *a = b + SCALAR * c;
        }
    }

    /// Whether every element has its value after these passes. Values grow by 15 with
    /// every pass, so [`Stream::advance`] resets them in time.
    pub fn is_right(&self) -> bool {
        let (mut a, mut b, mut c) = (1.0, 2.0, 0.0);
        for _ in 0..self.passes {
            c = a;
            b = SCALAR * c;
            c = a + b;
            a = b + SCALAR * c;
        }
        let close = |values: &[f64], expected: f64| {
            values.iter().all(|value| {
                ((value - expected) / if expected == 0.0 { 1.0 } else { expected }).abs() < 1e-13
            })
        };
        close(&self.a, a) && close(&self.b, b) && close(&self.c, c)
    }

    fn restart(&mut self) {
        self.a.fill(1.0);
        self.b.fill(2.0);
        self.c.fill(0.0);
        self.passes = 0;
    }

    /// Makes `count` passes, with resets before the values leave the range in which they
    /// are exact. False if a value was wrong then.
    pub fn advance(&mut self, count: u64) -> bool {
        // 15^13 < 2^53: integers of a double.
        const EXACT: u64 = 12;
        let mut right = true;
        for _ in 0..count {
            if self.passes == EXACT {
                right &= self.is_right();
                self.restart();
            }
            self.pass();
        }
        right
    }
}

/// Elements of an array on this machine: beyond the last cache, within the
/// memory that is free.
pub fn elements(root: &Root) -> usize {
    let cache = (0..8)
        .filter_map(|index| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
            kib(&root.read(path).ok()?)
        })
        .max()
        .unwrap_or(UNKNOWN_CACHE);
    let free = memory::available(root).unwrap_or(u64::MAX);
    let bytes = (TIMES_CACHE * cache).min(free / SHARE_OF_FREE / 3);
    (bytes / 8).max(1) as usize
}

/// Bytes of a size as sysfs writes it, `32768K`.
fn kib(text: &str) -> Option<u64> {
    Some(text.trim().strip_suffix('K')?.parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_values_are_those_of_the_kernels() {
        let mut stream = Stream::new(1000);
        assert!(stream.is_right());
        stream.pass();
        // c = 1, b = 3, c = 1 + 3, a = 3 + 3 * 4.
        assert_eq!((stream.a[7], stream.b[7], stream.c[7]), (15.0, 3.0, 4.0));
        assert!(stream.is_right());
        assert!(stream.advance(40) && stream.is_right());
        stream.c[999] += 1.0;
        assert!(!stream.is_right());
    }

    #[test]
    fn arrays_are_larger_than_the_last_cache_and_fit_into_memory() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        let write = |path: &str, text: &str| {
            let path = root.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("/sys/devices/system/cpu/cpu0/cache/index0/size", "32K\n");
        write("/sys/devices/system/cpu/cpu0/cache/index3/size", "1024K\n");
        write("/proc/meminfo", "MemAvailable:   1048576 kB\n");
        assert_eq!(elements(&root), 4 * 1024 * 1024 / 8);
        write("/proc/meminfo", "MemAvailable:   1200 kB\n");
        assert_eq!(elements(&root), 1200 * 1024 / 12 / 8);
    }
}
