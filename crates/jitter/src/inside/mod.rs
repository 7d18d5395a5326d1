// SPDX-License-Identifier: Apache-2.0 OR MIT
//! OS jitter replayed *inside* the program that is to suffer it (De, Kothari
//! and Mann's JitterEmulator, METHODS of the papers; docs/explanation/jitter-inside.md).
//!
//! ```text
//!   sandbag --writes--> plan file <--maps-- libsandbag_jitter.so, in each process
//!              |            ^                        |
//!              '---reads----'----- books in its slot '
//! ```
//!
//! A library that the dynamic linker loads before all others ([`library`])
//! arms a timer and suffers each event in a signal handler. It learns what to
//! suffer from a file ([`plan`]) and books there what came of it
//! ([`outcome`]). Which programs can be entered so is found out beforehand
//! ([`preloadable`]), and what an injection costs by itself is measured and
//! taken off ([`overhead`]). Programs may also ask by themselves: in C by
//! c/sandbag_jitter.h, in Rust by [`api`]. One of ours does so to see what
//! becomes of it ([`collector`]).
//!
//! The library is written in C, against the habit of this workspace. It needs
//! thread-local variables that are allocated when the program starts (others
//! must not be touched in a signal handler) and references that may stay
//! without a definition (it meets C libraries of any age); stable Rust has
//! neither. It is also the file that C programs add to their own.
//!
//! Units: nanoseconds (`_ns`) of `CLOCK_MONOTONIC`.

pub mod api;
pub mod collector;
mod error;
pub mod library;
pub mod outcome;
pub mod overhead;
pub mod plan;
pub mod preloadable;

pub use error::{Error, Result};
