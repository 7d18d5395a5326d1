// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The audit: are all CPUs of this machine equal? Which one charges a program
//! more than the others, by how much, how sure, and why (Cardo, "Auditing the
//! processors of a parallel machine").
//!
//! The way of a figure: `plan` says which CPU runs what in which order,
//! a test runs there in a process of its own and says its times, evidence of the
//! same CPU and time is put beside it ([`model::Sample`]); all samples of a test
//! become one effect per CPU and quantity ([`model::Effect`]), a verdict, and
//! with the machine's configuration a list of suspects ([`model::Suspect`]).
//! An [`model::Audit`] holds it all: it is what is written, read again, compared
//! and drawn.

pub mod compare;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
pub mod model;
