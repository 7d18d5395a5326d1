// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A long profile passes through in the memory of a short one.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{BufWriter, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

use sandbag_profile::{Format, InputSource, ReadOptions, algebra, export, summarise};

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on unchanged to the system's allocator; the
// counters beside it are atomic and allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's promises about the layout are handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: `at` came from `alloc` above, so from the system.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The most memory that was in use at a time while `work` ran, above what
/// was in use before.
fn peak_memory(work: impl FnOnce()) -> usize {
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    work();
    MOST.load(Ordering::Relaxed) - before
}

fn write(file: &mut dyn Write, format: Format, seconds: u64, cpus: u32) -> std::io::Result<()> {
    let load = |s: u64, cpu: u32| (s * 7 + u64::from(cpu) * 13) % 100;
    match format {
        Format::Native => {
            write!(file, "time")?;
            (0..cpus).try_for_each(|c| write!(file, ",cpu{c}"))?;
            for s in 0..seconds {
                write!(file, "\n{s}")?;
                (0..cpus).try_for_each(|c| write!(file, ",{}.25", load(s, c)))?;
            }
            writeln!(file, "\n{seconds},end")
        }
        Format::SadfCsv => {
            writeln!(
                file,
                "# hostname;interval;timestamp;CPU;%user;%nice;%system;%iowait;%steal;%idle"
            )?;
            for s in 0..seconds {
                for c in 0..cpus {
                    let idle = load(s, c);
                    let stamp = 1_795_223_453 + s;
                    writeln!(file, "vm;1;{stamp};{c};0.00;0.00;0.00;0.00;0.00;{idle}.25")?;
                }
            }
            Ok(())
        }
        Format::Azure => {
            for s in 0..seconds {
                for c in 0..cpus {
                    writeln!(file, "{},vm{c},1,2,{}.25", 300 * s, load(s, c))?;
                }
            }
            Ok(())
        }
        Format::Swf => {
            writeln!(file, "; MaxProcs: {cpus}")?;
            for s in 0..seconds {
                let wait = load(s, 0);
                let rest = "-1 -1 -1 -1 -1 1 1 1 -1 1 -1 -1 -1";
                writeln!(file, "{s} {s} {wait} 1 {cpus} {rest}")?;
            }
            Ok(())
        }
        _ => {
            write!(file, "{{\"sysstat\":{{\"hosts\":[{{\"statistics\":[")?;
            for s in 0..seconds {
                let comma = if s > 0 { "," } else { "" };
                let (h, m, sec) = (s / 3600 % 24, s / 60 % 60, s % 60);
                write!(
                    file,
                    "{comma}{{\"timestamp\":{{\"date\":\"2026-11-21\",\
                     \"time\":\"{h:02}:{m:02}:{sec:02}\",\"utc\":1,\"interval\":1}},\"cpu-load\":["
                )?;
                for c in 0..cpus {
                    let comma = if c > 0 { "," } else { "" };
                    let idle = load(s, c);
                    write!(file, "{comma}{{\"cpu\":\"{c}\",\"idle\":{idle}.25}}")?;
                }
                write!(file, "]}}")?;
            }
            writeln!(file, "]}}]}}}}")
        }
    }
}

/// One test, because the counters are the process's.
#[test]
fn memory_does_not_grow_with_length() {
    for format in [
        Format::Native,
        Format::SadfCsv,
        Format::SadfJson,
        Format::Azure,
        Format::Swf,
    ] {
        let used = [100u64, 1200].map(|seconds| {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            write(&mut BufWriter::new(&mut file), format, seconds, 64).unwrap();
            let bytes = file.path().metadata().unwrap().len();
            let used = peak_memory(|| {
                let source = InputSource::new(file.path()).unwrap();
                let options = ReadOptions {
                    machine: (format == Format::Azure).then(|| "vm3".into()),
                    ..ReadOptions::default()
                };
                let summary = summarise(&mut source.open(Some(format), &options).unwrap()).unwrap();
                // A job that waits changes the load twice.
                assert!(summary.steps == seconds || format == Format::Swf);
                // The whole chain of a conversion.
                let steps = source.open(Some(format), &options).unwrap();
                let steps = algebra::scale_load(steps, 0.5).unwrap();
                let mut steps = algebra::resample(steps, 1_500_000_000).unwrap();
                export(&mut steps, Format::Native, &mut std::io::sink()).unwrap();
            });
            (bytes, used)
        });
        let [(small_bytes, small), (large_bytes, large)] = used;
        assert!(large_bytes > 10 * small_bytes);
        assert!(
            large < small + small / 10 && large < 2 << 20,
            "{format}: {large} bytes for a file of {large_bytes}, {small} for one of {small_bytes}"
        );
    }
}
