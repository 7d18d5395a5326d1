// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the first pass over a trace finds: its machines, and of the one that
//! is wanted the begin, the order of its rows and their usual distance.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::number::NS_PER_S;
use crate::reader::Input;
use crate::usual_step::Lengths;
use crate::{Fault, Result};

use super::row::{TraceEpoch, TraceFormat, TraceReading, TraceStamps, Usual, is_header};

/// How many machines a message names.
const NAMED: usize = 5;
/// How many are counted.
const MOST_MACHINES: usize = 1 << 20;

pub(super) struct Survey {
    pub(super) machine: Vec<u8>,
    pub(super) clock: TraceEpoch,
    /// The most CPUs that a row names; 0 if none does.
    pub(super) cpus: u32,
    /// Rows of the machine that stand after one of a later time.
    pub(super) out_of_order: u64,
    /// For how long a value stands, as far as the order of the file tells.
    pub(super) usual_ns: i64,
    stamps: TraceStamps,
    first_ns: i64,
}

impl Survey {
    pub(super) fn of(trace: &TraceFormat, input: &Input<'_>) -> Result<Self> {
        let asked = input.options.machine.as_ref().map(String::as_bytes);
        // A file without names is of the one machine that the user means.
        let asked = asked.filter(|_| trace.machine.is_some());
        let mut lines = (input.lines)()?;
        let mut rows = 0;
        let mut machines = Machines::default();
        let mut wanted: Option<Vec<u8>> = asked.map(<[u8]>::to_vec);
        let mut order = Order::default();
        let mut first = true;
        let mut seen = false;
        let mut clock = None;
        while let Some(line) = lines.next_whole_line()? {
            let is_header = std::mem::take(&mut first) && is_header(line);
            if is_header || line.trim_ascii().is_empty() {
                continue;
            }
            let Some(machine) = trace.machine_of(line) else {
                // Words the error.
                let fault = (trace.reading)(line, rows).err().unwrap_or(Fault::Empty);
                return Err(lines.here(fault));
            };
            if wanted.is_none() {
                wanted = Some(machine.to_vec());
            }
            let is_wanted = wanted.as_deref() == Some(machine);
            seen |= is_wanted;
            machines.add(machine);
            // Of several machines none is read before one is chosen.
            if is_wanted && (asked.is_some() || machines.count() == 1) {
                let reading = (trace.reading)(line, rows).map_err(|fault| lines.here(fault))?;
                rows += 1;
                if let Some(reading) = reading {
                    if *clock.get_or_insert(reading.epoch) != reading.epoch {
                        return Err(lines.here(Fault::lacks(
                            trace.format,
                            "some of its stamps have a zone and some have none; \
                             export all of them in UTC",
                        )));
                    }
                    order.add(&reading);
                }
            }
        }
        if machines.count() > 1 && asked.is_none() || machines.count() > 0 && !seen {
            return Err(lines.nowhere(Fault::WhichMachine {
                known: machines.known(),
                asked: input.options.machine.clone(),
                names: machines.names(),
            }));
        }
        let Some(first_ns) = order.first_ns else {
            return Err(lines.nowhere(Fault::wrong_format(
                trace.format,
                "it holds no row of CPU utilisation",
            )));
        };
        Ok(Self {
            machine: wanted.unwrap_or_default(),
            clock: clock.unwrap_or(TraceEpoch::Unknown),
            cpus: order.cpus,
            out_of_order: order.out_of_order,
            usual_ns: order.usual_ns(trace.usual),
            stamps: trace.stamps,
            first_ns,
        })
    }

    /// When the first value of the machine begins, on the clock of the trace.
    pub(super) fn begin_ns(&self) -> i64 {
        match self.stamps {
            TraceStamps::Begin | TraceStamps::Both => self.first_ns,
            TraceStamps::End => self.first_ns.saturating_sub(self.usual_ns),
        }
    }
}

/// The machines of a file.
#[derive(Default)]
struct Machines {
    /// In the order of the file.
    named: Vec<Vec<u8>>,
    /// Of their names.
    hashes: HashSet<u64>,
    /// Of the last row: rows of a machine often follow each other.
    last: Option<Vec<u8>>,
}

impl Machines {
    fn add(&mut self, name: &[u8]) {
        if self.last.as_deref() == Some(name) {
            return;
        }
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(name);
        if self.hashes.len() >= MOST_MACHINES {
            return;
        }
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        if self.hashes.insert(hasher.finish()) {
            self.named.push(name.to_vec());
        }
    }

    fn count(&self) -> usize {
        self.hashes.len()
    }

    fn names(&self) -> Vec<String> {
        let names = self.named.iter();
        names
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect()
    }

    /// For a message.
    fn known(&self) -> String {
        // Names must be there in full, to be copied.
        let name = |name: &Vec<u8>| {
            let text: String = String::from_utf8_lossy(name).chars().take(100).collect();
            format!("`{}`", text.escape_debug())
        };
        let names: Vec<String> = self.named.iter().take(NAMED).map(name).collect();
        let names = names.join(", ");
        match self.count() {
            1 => format!("the file is of the machine {names}"),
            n if n <= NAMED => format!("the file holds {n} machines, {names}"),
            n if n < MOST_MACHINES => format!("the file holds {n} machines, {names} ..."),
            n => format!("the file holds more than {n} machines, {names} ..."),
        }
    }
}

/// The stamps of a machine.
#[derive(Default)]
pub(super) struct Order {
    first_ns: Option<i64>,
    last_ns: Option<i64>,
    greatest_ns: Option<i64>,
    out_of_order: u64,
    cpus: u32,
    /// Of stamps from each other, ns.
    distances: Lengths,
}

impl Order {
    pub(super) fn add(&mut self, reading: &TraceReading) {
        self.cpus = self.cpus.max(reading.cpus);
        let stamp_ns = reading.stamp_ns;
        let first_ns = self.first_ns.get_or_insert(stamp_ns);
        *first_ns = stamp_ns.min(*first_ns);
        self.out_of_order += u64::from(self.greatest_ns.is_some_and(|most| stamp_ns < most));
        self.greatest_ns = self.greatest_ns.max(Some(stamp_ns));
        let last_ns = self.last_ns.replace(stamp_ns);
        let Some(distance_ns) = last_ns.map(|last_ns| stamp_ns.saturating_sub(last_ns)) else {
            return;
        };
        if let Ok(distance_ns @ 1..) = u64::try_from(distance_ns) {
            self.distances.add(distance_ns);
        }
    }

    pub(super) fn usual_ns(&self, usual: Usual) -> i64 {
        let seen = || i64::try_from(self.distances.middle()?).ok();
        match usual {
            Usual::Documented(s) => s * NS_PER_S as i64,
            Usual::Median(s) => seen().unwrap_or(s * NS_PER_S as i64),
        }
    }
}
