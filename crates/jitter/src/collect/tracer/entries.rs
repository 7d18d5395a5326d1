// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which of the kernel's events are traced, and what their entries mean.

use std::collections::HashMap;

use sandbag_linux::tracefs::Instance;
use sandbag_linux::tracefs::format::{EventFormat, Field};
use sandbag_linux::tracefs::ring::Record;
use sandbag_linux::{Error, Result};

use crate::attribution::{MarkKind, NoiseOrigin, SourceKind, Sources};

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

/// What is traced, and who was met so far.
#[derive(Debug, Default)]
pub(super) struct Entries {
    shapes: HashMap<u16, Shape>,
    sources: Sources,
}

impl Entries {
    /// Traces what there is of the events that are of use.
    ///
    /// # Errors
    /// An event is not as documented, or there are none at all.
    pub(super) fn enable(instance: &Instance) -> Result<Self> {
        let mut this = Self::default();
        this.pair(
            instance,
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
        this.pair(
            instance,
            "irq",
            "softirq_entry",
            "softirq_exit",
            |enter, leave| {
                let vec = enter.field("vec")?;
                let leave = leave.field("vec")?;
                Some((Shape::SoftEnter { vec }, Shape::SoftLeave { vec: leave }))
            },
        )?;
        // Those of x86; Arm's kernels have some under `ipi`.
        let mut number = 0;
        for system in ["irq_vectors", "ipi"] {
            for event in instance.events(system) {
                let Some(name) = event.strip_suffix("_entry") else {
                    continue;
                };
                number += 1;
                let key = VECTOR | number;
                let source = this
                    .sources
                    .place(NoiseOrigin::new(SourceKind::Irq, name, None));
                this.pair(instance, system, &event, &format!("{name}_exit"), |_, _| {
                    Some((
                        Shape::VectorEnter { key, source },
                        Shape::VectorLeave { key },
                    ))
                })?;
            }
        }
        let fault = this
            .sources
            .place(NoiseOrigin::new(SourceKind::Fault, "page fault", None));
        for event in ["page_fault_user", "page_fault_kernel"] {
            // Of the loops alone; unless that can be said it would be many.
            let filtered = instance.set_filter("exceptions", event, LOOPS);
            if filtered.is_ok() {
                this.one(instance, "exceptions", event, |format| {
                    let pid = format.field("common_pid")?;
                    Some(Shape::Fault { pid, source: fault })
                })?;
            }
        }
        let nmi = this
            .sources
            .place(NoiseOrigin::new(SourceKind::Nmi, "nmi", None));
        this.one(instance, "nmi", "nmi_handler", |format| {
            let ns = format.field("delta_ns")?;
            Some(Shape::Nmi { ns, source: nmi })
        })?;
        let switches = this.one(instance, "sched", "sched_switch", |format| {
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
        Ok(this)
    }

    /// Traces an event if the kernel has it.
    fn one(
        &mut self,
        instance: &Instance,
        system: &str,
        name: &str,
        shape: impl FnOnce(&EventFormat) -> Option<Shape>,
    ) -> Result<bool> {
        if !instance.has_event(system, name) {
            return Ok(false);
        }
        let format = instance.format(system, name)?;
        let Some(shape) = shape(&format) else {
            return Ok(false);
        };
        instance.enable(system, name)?;
        self.shapes.insert(format.id, shape);
        Ok(true)
    }

    /// Traces a begin and an end, if the kernel has both.
    fn pair(
        &mut self,
        instance: &Instance,
        system: &str,
        enter: &str,
        leave: &str,
        shapes: impl FnOnce(&EventFormat, &EventFormat) -> Option<(Shape, Shape)>,
    ) -> Result<()> {
        if !instance.has_event(system, enter) || !instance.has_event(system, leave) {
            return Ok(());
        }
        let first = instance.format(system, enter)?;
        let second = instance.format(system, leave)?;
        if let Some((begin, end)) = shapes(&first, &second) {
            instance.enable(system, enter)?;
            instance.enable(system, leave)?;
            self.shapes.insert(first.id, begin);
            self.shapes.insert(second.id, end);
        }
        Ok(())
    }

    /// What an entry means for a loop; `None` for those that mean nothing to it.
    pub(super) fn mark_kind(&mut self, thread: u32, record: Record<'_>) -> Option<MarkKind> {
        let sources = &mut self.sources;
        let data = record.data;
        let id = u16::from_le_bytes([*data.first()?, *data.get(1)?]);
        let number = |field: &Field| Some(field.number(data)? as u32);
        let is_few = sources.all().len() < MANY;
        let text = |field: &Field| Some(String::from_utf8_lossy(field.text(data)?).into_owned());
        Some(match self.shapes.get(&id)? {
            Shape::IrqEnter { irq, name } => {
                let irq = number(irq)?;
                let source =
                    sources.place(NoiseOrigin::new(SourceKind::Irq, text(name)?, Some(irq)));
                MarkKind::Enter {
                    key: IRQ | u64::from(irq),
                    source,
                }
            }
            Shape::IrqLeave { irq } => MarkKind::Leave {
                key: IRQ | u64::from(number(irq)?),
            },
            Shape::SoftEnter { vec } => {
                let vec = number(vec)?;
                let name = SOFTIRQS.get(vec as usize);
                let source = sources.place(NoiseOrigin::new(
                    SourceKind::Softirq,
                    name.map_or_else(|| vec.to_string(), |name| (*name).to_owned()),
                    Some(vec),
                ));
                MarkKind::Enter {
                    key: SOFTIRQ | u64::from(vec),
                    source,
                }
            }
            Shape::SoftLeave { vec } => MarkKind::Leave {
                key: SOFTIRQ | u64::from(number(vec)?),
            },
            Shape::VectorEnter { key, source } => MarkKind::Enter {
                key: *key,
                source: *source,
            },
            Shape::VectorLeave { key } => MarkKind::Leave { key: *key },
            Shape::Switch { pid, comm } => {
                let pid = number(pid)?;
                if pid == thread {
                    return Some(MarkKind::Loop);
                }
                MarkKind::Task {
                    source: sources.place(NoiseOrigin::new(
                        if pid == 0 {
                            SourceKind::Idle
                        } else {
                            SourceKind::Task
                        },
                        text(comm)?,
                        is_few.then_some(pid),
                    )),
                }
            }
            Shape::Fault { pid, source } => {
                if number(pid)? != thread {
                    return None;
                }
                MarkKind::Fault { source: *source }
            }
            Shape::Nmi { ns, source } => MarkKind::Took {
                source: *source,
                ns: u64::try_from(ns.number(data)?).unwrap_or(0),
            },
        })
    }

    pub(super) fn sources(&self) -> &[NoiseOrigin] {
        self.sources.all()
    }
}
