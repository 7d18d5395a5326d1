// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's trace events beside the loops, in an instance of our own.
//!
//! It is read when a round is over, so the loops are not disturbed by that;
//! what they do notice is that the kernel writes an entry as it goes in and
//! out. When a buffer is full the oldest entries are overwritten: of what was
//! before the first that is left nothing is known.

use std::collections::HashMap;

use sandbag_kernel::tracefs::Instance;
use sandbag_kernel::tracefs::format::Field;
use sandbag_kernel::tracefs::ring::{Layout, Record};
use sandbag_kernel::{CpuList, Error};

use super::counter::{Moment, Scale};
use crate::attribution::{About, CpuCauses, Kind, Mark, Merger, Method, Source, Sources, What};
use crate::{Clock, Event, Fault, Result, Span};

/// How the threads of the loops are called, as the kernel's filters match it.
const LOOPS: &str = "comm ~ \"jitter-*\"";

/// Soft interrupts by number (include/linux/interrupt.h).
const SOFTIRQS: [&str; 10] = [
    "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
];

/// What an entry of the buffer says, by the number of its event.
#[derive(Debug)]
enum Shape {
    IrqEnter {
        irq: Field,
        name: Field,
    },
    IrqLeave {
        irq: Field,
    },
    SoftEnter {
        vec: Field,
    },
    SoftLeave {
        vec: Field,
    },
    /// Interrupts that have an event of their own.
    VectorEnter {
        key: u64,
        source: u32,
    },
    VectorLeave {
        key: u64,
    },
    Switch {
        pid: Field,
        comm: Field,
    },
    Fault {
        pid: Field,
        source: u32,
    },
    Nmi {
        ns: Field,
        source: u32,
    },
}

/// From so many sources on a task is its name, whatever its number: hours of
/// short-lived processes are not to fill the memory.
const MANY: usize = 1 << 16;

/// Keys of begins and ends; the kind stands above the number.
const IRQ: u64 = 1 << 32;
const SOFTIRQ: u64 = 2 << 32;
const VECTOR: u64 = 3 << 32;

/// Records what the kernel does on some CPUs.
#[derive(Debug)]
pub struct Tracer {
    instance: Instance,
    layout: Layout,
    shapes: HashMap<u16, Shape>,
    sources: Sources,
    /// Stamps are nanoseconds of `CLOCK_MONOTONIC_RAW`, not counts.
    is_raw: bool,
    round: Round,
    /// Lost so far, by CPU.
    lost: HashMap<u32, u64>,
    about: About,
}

/// The ends of a round by both clocks.
#[derive(Debug, Clone, Copy)]
struct Round {
    from: Moment,
    until: Moment,
}

impl Round {
    /// Counts at a stamp of the other clock.
    fn counts(&self, raw_ns: u64) -> u64 {
        let since = raw_ns as f64 - self.from.raw_ns as f64;
        let rate = self.from.rate(self.until) / 1e9;
        self.from
            .counts
            .saturating_add_signed((since * rate).round() as i64)
    }
}

impl Tracer {
    /// Sets an instance up; nothing is traced yet.
    ///
    /// # Errors
    /// The kernel lacks what is needed, or memory.
    pub fn new(instance: Instance, cpus: &CpuList, buffer_kib: u64) -> Result<Self> {
        let clocks = instance.clocks().map_err(Fault::Kernel)?;
        let wanted = match super::counter::CLOCK {
            Clock::Tsc => &["x86-tsc", "mono_raw"][..],
            _ => &["mono_raw"],
        };
        let clock = wanted
            .iter()
            .find(|name| clocks.iter().any(|clock| clock == *name));
        let clock = *clock.ok_or_else(|| {
            missing(
                "a clock that the loop can read",
                &format!("this kernel's trace clocks are {}", clocks.join(" ")),
            )
        })?;
        let mut this = Self {
            layout: instance.layout().map_err(Fault::Kernel)?,
            shapes: HashMap::new(),
            sources: Sources::default(),
            is_raw: clock == "mono_raw",
            round: Round {
                from: Moment::now(),
                until: Moment::now(),
            },
            lost: HashMap::new(),
            about: About {
                method: Method::Tracefs,
                clock: Some(clock.to_owned()),
                ..About::default()
            },
            instance,
        };
        this.set_up(clock, cpus, buffer_kib)
            .map_err(Fault::Kernel)?;
        Ok(this)
    }

    fn set_up(
        &mut self,
        clock: &str,
        cpus: &CpuList,
        buffer_kib: u64,
    ) -> sandbag_kernel::Result<()> {
        self.instance.set_clock(clock)?;
        self.instance.set_cpus(cpus, buffer_kib)?;
        for (option, on) in [
            ("overwrite", true),
            // Nothing that would make entries longer or dearer.
            ("stacktrace", false),
            ("userstacktrace", false),
            ("record-cmd", false),
            ("record-tgid", false),
        ] {
            self.instance.set_option(option, on)?;
        }
        self.about.buffer_kib = self.instance.buffer_kib()?;
        self.pair(
            "irq",
            "irq_handler_entry",
            "irq_handler_exit",
            |enter, leave| {
                let irq = enter.field("irq")?;
                let name = enter.field("name")?;
                let leave = leave.field("irq")?;
                Some((
                    Shape::IrqEnter { irq, name },
                    Shape::IrqLeave { irq: leave },
                ))
            },
        )?;
        self.pair("irq", "softirq_entry", "softirq_exit", |enter, leave| {
            let vec = enter.field("vec")?;
            let leave = leave.field("vec")?;
            Some((Shape::SoftEnter { vec }, Shape::SoftLeave { vec: leave }))
        })?;
        // Those of x86; Arm's kernels have some under `ipi`.
        let mut number = 0;
        for system in ["irq_vectors", "ipi"] {
            for event in self.instance.events(system) {
                let Some(name) = event.strip_suffix("_entry") else {
                    continue;
                };
                number += 1;
                let key = VECTOR | number;
                let source = self.sources.place(Source {
                    kind: Kind::Irq,
                    name: name.to_owned(),
                    number: None,
                });
                self.pair(system, &event, &format!("{name}_exit"), |_, _| {
                    Some((
                        Shape::VectorEnter { key, source },
                        Shape::VectorLeave { key },
                    ))
                })?;
            }
        }
        let fault = self.sources.place(Source {
            kind: Kind::Fault,
            name: "page fault".to_owned(),
            number: None,
        });
        for event in ["page_fault_user", "page_fault_kernel"] {
            // Of the loops alone; unless that can be said it would be many.
            let filtered = self.instance.set_filter("exceptions", event, LOOPS);
            if filtered.is_ok() {
                self.one("exceptions", event, |format| {
                    let pid = format.field("common_pid")?;
                    Some(Shape::Fault { pid, source: fault })
                })?;
            }
        }
        let nmi = self.sources.place(Source {
            kind: Kind::Nmi,
            name: "nmi".to_owned(),
            number: None,
        });
        self.one("nmi", "nmi_handler", |format| {
            let ns = format.field("delta_ns")?;
            Some(Shape::Nmi { ns, source: nmi })
        })?;
        let switches = self.one("sched", "sched_switch", |format| {
            let pid = format.field("next_pid")?;
            let comm = format.field("next_comm")?;
            Some(Shape::Switch { pid, comm })
        })?;
        if !switches {
            return Err(Error::Missing {
                what: "the trace event sched_switch".to_owned(),
                remedy: "this kernel was built without trace events".to_owned(),
            });
        }
        Ok(())
    }

    /// Traces an event if the kernel has it.
    fn one(
        &mut self,
        system: &str,
        name: &str,
        shape: impl FnOnce(&sandbag_kernel::tracefs::format::EventFormat) -> Option<Shape>,
    ) -> sandbag_kernel::Result<bool> {
        if !self.instance.has_event(system, name) {
            return Ok(false);
        }
        let format = self.instance.format(system, name)?;
        let Some(shape) = shape(&format) else {
            return Ok(false);
        };
        self.instance.enable(system, name)?;
        self.shapes.insert(format.id, shape);
        Ok(true)
    }

    /// Traces a begin and an end, if the kernel has both.
    fn pair(
        &mut self,
        system: &str,
        enter: &str,
        leave: &str,
        shapes: impl FnOnce(
            &sandbag_kernel::tracefs::format::EventFormat,
            &sandbag_kernel::tracefs::format::EventFormat,
        ) -> Option<(Shape, Shape)>,
    ) -> sandbag_kernel::Result<()> {
        if !self.instance.has_event(system, enter) || !self.instance.has_event(system, leave) {
            return Ok(());
        }
        let first = self.instance.format(system, enter)?;
        let second = self.instance.format(system, leave)?;
        if let Some((begin, end)) = shapes(&first, &second) {
            self.instance.enable(system, enter)?;
            self.instance.enable(system, leave)?;
            self.shapes.insert(first.id, begin);
            self.shapes.insert(second.id, end);
        }
        Ok(())
    }

    /// Before the loops begin.
    pub(super) fn round_begins(&mut self) -> Result<()> {
        self.instance.set_on(true).map_err(Fault::Kernel)?;
        if self.is_raw {
            self.round.from = Moment::now();
        }
        Ok(())
    }

    /// When they have ended.
    pub(super) fn round_ended(&mut self) -> Result<()> {
        if self.is_raw {
            self.round.until = Moment::now();
        }
        Ok(self.instance.set_on(false).map_err(Fault::Kernel)?)
    }

    /// What caused the events that the loop of this thread found in the last
    /// round.
    pub(super) fn causes(
        &mut self,
        cpu: u32,
        thread: u32,
        span: Span,
        events: &[Event],
        scale: Scale,
    ) -> Result<CpuCauses> {
        let lost = self.instance.lost(cpu).map_err(Fault::Kernel)?.all();
        let before = self.lost.insert(cpu, lost).unwrap_or(0);
        let lost = lost.saturating_sub(before);
        self.about.lost += lost;
        let mut merger = Merger::new(span, events);
        let mut is_torn = lost > 0;
        let mut entries = 0;
        let (is_raw, round) = (self.is_raw, self.round);
        let ns = |stamp: u64| match is_raw {
            true => scale.since_begin(round.counts(stamp)),
            false => scale.since_begin(stamp),
        };
        let (shapes, sources) = (&self.shapes, &mut self.sources);
        let layout = self.layout;
        let taken = self.instance.take(cpu, &layout, |bytes| {
            let page = layout.page(bytes);
            if page.missed() || is_torn {
                merger.lost(ns(page.begins_at()));
                is_torn = false;
            }
            for record in page {
                entries += 1;
                if let Some(what) = what(shapes, sources, thread, record) {
                    merger.mark(Mark {
                        at_ns: ns(record.at),
                        what,
                    });
                }
            }
        });
        taken.map_err(Fault::Kernel)?;
        if is_torn {
            // Not one is left.
            merger.lost(span.until_ns);
        }
        self.about.entries += entries;
        let merged = merger.finish();
        self.about.outside += merged.outside;
        Ok(CpuCauses {
            cpu,
            known: merged.known,
            causes: merged.causes,
        })
    }

    /// All sources so far.
    pub(super) fn sources(&self) -> &[Source] {
        self.sources.all()
    }

    /// Entries that were lost so far.
    pub(super) fn lost(&self) -> u64 {
        self.about.lost
    }

    /// What is to be said of it at the end.
    pub(super) fn about(&self) -> About {
        self.about.clone()
    }
}

fn missing(what: &str, remedy: &str) -> Fault {
    Fault::Kernel(Error::Missing {
        what: what.to_owned(),
        remedy: remedy.to_owned(),
    })
}

/// What an entry means for a loop; `None` for those that mean nothing to it.
fn what(
    shapes: &HashMap<u16, Shape>,
    sources: &mut Sources,
    thread: u32,
    record: Record<'_>,
) -> Option<What> {
    let data = record.data;
    let id = u16::from_le_bytes([*data.first()?, *data.get(1)?]);
    let number = |field: &Field| Some(field.number(data)? as u32);
    let is_few = sources.all().len() < MANY;
    let text = |field: &Field| Some(String::from_utf8_lossy(field.text(data)?).into_owned());
    Some(match shapes.get(&id)? {
        Shape::IrqEnter { irq, name } => {
            let irq = number(irq)?;
            let source = sources.place(Source {
                kind: Kind::Irq,
                name: text(name)?,
                number: Some(irq),
            });
            What::Enter {
                key: IRQ | u64::from(irq),
                source,
            }
        }
        Shape::IrqLeave { irq } => What::Leave {
            key: IRQ | u64::from(number(irq)?),
        },
        Shape::SoftEnter { vec } => {
            let vec = number(vec)?;
            let name = SOFTIRQS.get(vec as usize);
            let source = sources.place(Source {
                kind: Kind::Softirq,
                name: name.map_or_else(|| vec.to_string(), |name| (*name).to_owned()),
                number: Some(vec),
            });
            What::Enter {
                key: SOFTIRQ | u64::from(vec),
                source,
            }
        }
        Shape::SoftLeave { vec } => What::Leave {
            key: SOFTIRQ | u64::from(number(vec)?),
        },
        Shape::VectorEnter { key, source } => What::Enter {
            key: *key,
            source: *source,
        },
        Shape::VectorLeave { key } => What::Leave { key: *key },
        Shape::Switch { pid, comm } => {
            let pid = number(pid)?;
            if pid == thread {
                return Some(What::Loop);
            }
            What::Task {
                source: sources.place(Source {
                    kind: if pid == 0 { Kind::Idle } else { Kind::Task },
                    name: text(comm)?,
                    number: is_few.then_some(pid),
                }),
            }
        }
        Shape::Fault { pid, source } => {
            if number(pid)? != thread {
                return None;
            }
            What::Fault { source: *source }
        }
        Shape::Nmi { ns, source } => What::Took {
            source: *source,
            ns: u64::try_from(ns.number(data)?).unwrap_or(0),
        },
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::attribution::Cause;

    const COMMON: &str = "\
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;
";

    /// Of each event its number and its own fields.
    const EVENTS: [(&str, u16, &str); 7] = [
        (
            "irq/irq_handler_entry",
            1,
            "	field:int irq;	offset:8;	size:4;	signed:1;
	field:__data_loc char[] name;	offset:12;	size:4;	signed:0;
",
        ),
        (
            "irq/irq_handler_exit",
            2,
            "	field:int irq;	offset:8;	size:4;	signed:1;\n",
        ),
        (
            "irq/softirq_entry",
            3,
            "	field:unsigned int vec;	offset:8;	size:4;	signed:0;\n",
        ),
        (
            "irq/softirq_exit",
            4,
            "	field:unsigned int vec;	offset:8;	size:4;	signed:0;\n",
        ),
        ("irq_vectors/local_timer_entry", 5, ""),
        ("irq_vectors/local_timer_exit", 6, ""),
        (
            "sched/sched_switch",
            7,
            "	field:char next_comm[16];	offset:8;	size:16;	signed:0;
	field:pid_t next_pid;	offset:24;	size:4;	signed:1;
",
        ),
    ];

    fn write(dir: &Path, name: &str, content: impl AsRef<[u8]>) {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn entry(id: u16, rest: &[u8]) -> Vec<u8> {
        let mut entry = id.to_le_bytes().to_vec();
        entry.extend([0; 6]);
        entry.extend(rest);
        entry
    }

    fn switch(pid: u32, comm: &str) -> Vec<u8> {
        let mut rest = comm.as_bytes().to_vec();
        rest.resize(16, 0);
        rest.extend(pid.to_le_bytes());
        entry(7, &rest)
    }

    /// A page of entries with their stamps.
    fn page(begin: u64, flags: u64, entries: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let mut data = Vec::new();
        let mut last = begin;
        for (at, bytes) in entries {
            let word = (bytes.len() / 4) as u32 | ((at - last) as u32) << 5;
            data.extend(word.to_le_bytes());
            data.extend(bytes);
            last = *at;
        }
        let mut page = begin.to_le_bytes().to_vec();
        page.extend((data.len() as u64 | flags).to_le_bytes());
        page.extend(data);
        page.resize(4096, 0);
        page
    }

    /// An instance as a tree of files.
    fn instance(dir: &Path) -> Instance {
        for name in [
            "tracing_on",
            "tracing_cpumask",
            "per_cpu/cpu0/buffer_size_kb",
        ] {
            write(dir, name, "0");
        }
        write(dir, "trace_clock", "[local] global x86-tsc mono_raw\n");
        write(dir, "buffer_total_size_kb", "640\n");
        write(
            dir,
            "events/header_page",
            "	field: u64 timestamp;	offset:0;	size:8;	signed:0;
	field: local_t commit;	offset:8;	size:8;	signed:1;
	field: char data;	offset:16;	size:4080;	signed:0;
",
        );
        for (name, id, fields) in EVENTS {
            let text = format!("name: x\nID: {id}\nformat:\n{COMMON}\n{fields}\n");
            write(dir, &format!("events/{name}/format"), text);
            write(dir, &format!("events/{name}/enable"), "0");
        }
        Instance::at(dir)
    }

    fn stats(dir: &Path, overrun: u64) {
        let text = format!("entries: 1\noverrun: {overrun}\ndropped events: 0\n");
        write(dir, "per_cpu/cpu0/stats", text);
    }

    /// A count is a nanosecond.
    const SCALE: Scale = Scale {
        begin: 1000,
        rate: 1e9,
    };
    const SPAN: Span = Span {
        from_ns: 0,
        until_ns: 100_000,
    };

    #[test]
    fn what_the_kernel_wrote_becomes_causes() {
        let dir = tempfile::tempdir().unwrap();
        let mut tracer = Tracer::new(instance(dir.path()), &CpuList::from_iter([0]), 320).unwrap();
        // Mono_raw would do as well, but for the test's clock.
        tracer.is_raw = false;
        for (name, ..) in EVENTS {
            let path = dir.path().join("events").join(name).join("enable");
            assert_eq!(fs::read_to_string(path).unwrap(), "1", "{name}");
        }
        let mut irq = 36u32.to_le_bytes().to_vec();
        irq.extend((16 | 5u32 << 16).to_le_bytes());
        irq.extend(b"eth0\0\0\0\0");
        let vec = |n: u32| n.to_le_bytes();
        let mut bytes = page(
            1000,
            0,
            &[
                (2100, entry(5, &[])),
                (2200, entry(6, &[])),
                (2300, entry(3, &vec(7))),
                (2310, entry(1, &irq)),
                (2320, entry(2, &36u32.to_le_bytes())),
                (2350, entry(4, &vec(7))),
                // Of an event that nobody asked for.
                (2360, entry(99, &vec(7))),
            ],
        );
        bytes.extend(page(
            3000,
            0,
            &[
                (3100, switch(77, "cc1")),
                (3200, switch(0, "swapper/0")),
                (3300, switch(9, "jitter-0")),
                (9000, switch(5, "late")),
            ],
        ));
        write(dir.path(), "per_cpu/cpu0/trace_pipe_raw", bytes);
        stats(dir.path(), 0);
        let events = [(1050, 400), (2050, 300), (5000, 10)].map(|(start_ns, length_ns)| Event {
            start_ns,
            length_ns,
        });
        let got = tracer.causes(0, 9, SPAN, &events, SCALE).unwrap();
        let name = |cause: &Cause| {
            let source = &tracer.sources()[cause.source as usize];
            (
                cause.start_ns,
                cause.length_ns,
                source.name.clone(),
                source.number,
            )
        };
        let named: Vec<_> = got.causes.iter().map(name).collect();
        let row = |start, length, name: &str, number| (start, length, name.to_owned(), number);
        assert_eq!(
            named,
            [
                row(1100, 100, "local_timer", None),
                row(1300, 50, "SCHED", Some(7)),
                row(1310, 10, "eth0", Some(36)),
                row(2100, 100, "cc1", Some(77)),
                row(2200, 100, "swapper/0", Some(0)),
            ]
        );
        assert_eq!(got.known, [SPAN]);
        let about = tracer.about();
        assert_eq!((about.entries, about.lost, about.outside), (11, 0, 1));
        assert_eq!(about.buffer_kib, 640);
    }

    #[test]
    fn what_was_overwritten_is_not_known() {
        let dir = tempfile::tempdir().unwrap();
        let mut tracer = Tracer::new(instance(dir.path()), &CpuList::from_iter([0]), 320).unwrap();
        tracer.is_raw = false;
        let bytes = page(
            5000,
            1 << 31,
            &[(5100, entry(6, &[])), (8000, entry(5, &[]))],
        );
        write(dir.path(), "per_cpu/cpu0/trace_pipe_raw", bytes);
        stats(dir.path(), 17);
        let known = |from_ns, until_ns| Span { from_ns, until_ns };
        let got = tracer.causes(0, 9, SPAN, &[], SCALE).unwrap();
        assert_eq!(got.known, [known(4000, 100_000)]);
        assert_eq!(tracer.about().lost, 17);
        // Nothing more in the next round; then all of it is lost.
        write(dir.path(), "per_cpu/cpu0/trace_pipe_raw", "");
        assert_eq!(tracer.causes(0, 9, SPAN, &[], SCALE).unwrap().known, [SPAN]);
        stats(dir.path(), 18);
        assert_eq!(tracer.causes(0, 9, SPAN, &[], SCALE).unwrap().known, []);
    }

    #[test]
    fn stamps_of_the_other_clock_become_counts() {
        let at = |counts, raw_ns| Moment { counts, raw_ns };
        let round = Round {
            from: at(1_000_000, 500),
            until: at(1_000_000 + 2_600_000_000, 1_000_000_500),
        };
        assert_eq!(round.counts(500), 1_000_000);
        assert_eq!(round.counts(1500), 1_002_600);
        assert_eq!(round.counts(0), 1_000_000 - 1300);
    }

    #[test]
    fn a_kernel_without_the_events_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let instance = instance(dir.path());
        fs::remove_dir_all(dir.path().join("events/sched")).unwrap();
        let error = Tracer::new(instance, &CpuList::from_iter([0]), 320).unwrap_err();
        assert!(error.to_string().contains("sched_switch"), "{error}");
    }
}
