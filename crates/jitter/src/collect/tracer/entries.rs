// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which of the kernel's events are traced, and what their entries mean.

use std::collections::HashMap;

use sandbag_linux::tracefs::Instance;
use sandbag_linux::tracefs::format::{EventFormat, Field};
use sandbag_linux::tracefs::ring::Record;
use sandbag_linux::{Error, Result};

use crate::attribution::MarkKind;
use crate::causes::{NoiseOrigin, SourceKind, Sources};

/// How the threads of the loops are called, as the kernel's filters match it.
const LOOPS: &str = "comm ~ \"jitter-*\"";

/// Soft interrupts by number (include/linux/interrupt.h).
const SOFTIRQS: [&str; 10] = [
    "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
];

/// Content of an entry of the buffer, by the number of its event.
#[derive(Debug)]
enum Shape {
    /// Begin of an interrupt: class, number, and name, which soft interrupts lack.
    Enter(u64, Field, Option<Field>),
    /// Class and number.
    Leave(u64, Field),
    /// Begin of an interrupt that has an event of its own: key and source.
    VectorEnter(u64, u32),
    VectorLeave(u64),
    /// Process and name.
    Switch(Field, Field),
    /// Process and source.
    Fault(Field, u32),
    /// Length and source.
    Nmi(Field, u32),
}

/// With this many sources and more, a task is identified by its name without its number:
/// hours of short-lived processes must not fill the memory.
const MANY: usize = 1 << 16;

/// Keys of begins and ends: a class above the number.
const IRQ: u64 = 1 << 32;
const SOFTIRQ: u64 = 2 << 32;
const VECTOR: u64 = 3 << 32;

/// The events that are traced, and the sources so far.
#[derive(Debug, Default)]
pub(super) struct Entries {
    shapes: HashMap<u16, Shape>,
    sources: Sources,
}

impl Entries {
    /// Traces those useful events that this kernel has.
    ///
    /// # Errors
    /// An event is not as documented, or there is no sched_switch.
    pub(super) fn enable(instance: &Instance) -> Result<Self> {
        let mut this = Self::default();
        let irq = ["irq_handler_entry", "irq_handler_exit"];
        this.pair(instance, "irq", irq, |enter, leave| {
            let (number, name) = (enter.field("irq")?, enter.field("name")?);
            let enter = Shape::Enter(IRQ, number, Some(name));
            Some((enter, Shape::Leave(IRQ, leave.field("irq")?)))
        })?;
        let softirq = ["softirq_entry", "softirq_exit"];
        this.pair(instance, "irq", softirq, |enter, leave| {
            let enter = Shape::Enter(SOFTIRQ, enter.field("vec")?, None);
            Some((enter, Shape::Leave(SOFTIRQ, leave.field("vec")?)))
        })?;
        // Those of x86; kernels of Arm have some under `ipi`.
        let mut number = 0;
        for system in ["irq_vectors", "ipi"] {
            for event in instance.events(system) {
                let Some(name) = event.strip_suffix("_entry") else {
                    continue;
                };
                number += 1;
                let key = VECTOR | number;
                let source = this.place(SourceKind::Irq, name);
                let exit = format!("{name}_exit");
                this.pair(instance, system, [&event, &exit], |_, _| {
                    Some((Shape::VectorEnter(key, source), Shape::VectorLeave(key)))
                })?;
            }
        }
        let source = this.place(SourceKind::Fault, "page fault");
        for event in ["page_fault_user", "page_fault_kernel"] {
            // Without a filter for the loops there would be too many.
            if instance.set_filter("exceptions", event, LOOPS).is_ok() {
                this.one(instance, "exceptions", event, |format| {
                    Some(Shape::Fault(format.field("common_pid")?, source))
                })?;
            }
        }
        let source = this.place(SourceKind::Nmi, "nmi");
        this.one(instance, "nmi", "nmi_handler", |format| {
            Some(Shape::Nmi(format.field("delta_ns")?, source))
        })?;
        let switches = this.one(instance, "sched", "sched_switch", |format| {
            let pid = format.field("next_pid")?;
            Some(Shape::Switch(pid, format.field("next_comm")?))
        })?;
        if !switches {
            return Err(Error::Missing {
                what: "the trace event sched_switch".to_owned(),
                remedy: "this kernel was built without trace events".to_owned(),
            });
        }
        Ok(this)
    }

    fn place(&mut self, kind: SourceKind, name: &str) -> u32 {
        self.sources.place(NoiseOrigin::new(kind, name, None))
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

    /// Traces a begin and an end if the kernel has both.
    fn pair(
        &mut self,
        instance: &Instance,
        system: &str,
        [enter, leave]: [&str; 2],
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

    /// The meaning of an entry for the loop of `thread`; `None` if it has none.
    pub(super) fn mark_kind(&mut self, thread: u32, record: Record<'_>) -> Option<MarkKind> {
        let sources = &mut self.sources;
        let data = record.data;
        let id = u16::from_le_bytes([*data.first()?, *data.get(1)?]);
        let number_of = |field: &Field| Some(field.number(data)? as u32);
        let text = |field: &Field| Some(String::from_utf8_lossy(field.text(data)?).into_owned());
        Some(match self.shapes.get(&id)? {
            Shape::Enter(class, number, name) => {
                let number = number_of(number)?;
                let (kind, name) = match name {
                    Some(name) => (SourceKind::Irq, text(name)?),
                    None => {
                        let name = SOFTIRQS.get(number as usize);
                        let name = name.map_or_else(|| number.to_string(), ToString::to_string);
                        (SourceKind::Softirq, name)
                    }
                };
                let source = sources.place(NoiseOrigin::new(kind, name, Some(number)));
                let key = class | u64::from(number);
                MarkKind::Enter { key, source }
            }
            Shape::Leave(class, number) => MarkKind::Leave {
                key: class | u64::from(number_of(number)?),
            },
            Shape::VectorEnter(key, source) => {
                let (key, source) = (*key, *source);
                MarkKind::Enter { key, source }
            }
            Shape::VectorLeave(key) => MarkKind::Leave { key: *key },
            Shape::Switch(pid, comm) => {
                let pid = number_of(pid)?;
                if pid == thread {
                    return Some(MarkKind::Loop);
                }
                let kind = if pid == 0 {
                    SourceKind::Idle
                } else {
                    SourceKind::Task
                };
                let number = (sources.all().len() < MANY).then_some(pid);
                let source = sources.place(NoiseOrigin::new(kind, text(comm)?, number));
                MarkKind::Task { source }
            }
            Shape::Fault(pid, _) if number_of(pid)? != thread => return None,
            Shape::Fault(_, source) => MarkKind::Fault { source: *source },
            Shape::Nmi(ns, source) => {
                let ns = u64::try_from(ns.number(data)?).unwrap_or(0);
                MarkKind::Took {
                    source: *source,
                    ns,
                }
            }
        })
    }

    pub(super) fn sources(&self) -> &[NoiseOrigin] {
        self.sources.all()
    }
}
