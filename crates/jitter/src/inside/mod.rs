// SPDX-License-Identifier: Apache-2.0 OR MIT
//! OS jitter replayed *inside* the program (De, Kothari and Mann's JitterEmulator;
//! docs/explanation/jitter-inside.md).
//!
//! ```text
//!   sandbag --writes--> plan file <--maps-- libsandbag_jitter.so, in each process
//!              |            ^                        |
//!              '---reads----'----- books in its slot '
//! ```
//!
//! A library that the dynamic linker loads before all others ([`library`]) arms a
//! timer and injects each event in a signal handler. It reads the events from a file
//! ([`plan`]) and books there what became of them ([`outcome`]). [`preloadable`]
//! checks beforehand which programs can load it, and [`overhead`] measures the cost
//! of an injection, which is subtracted. Programs may also poll: in C by
//! c/sandbag_jitter.h, in Rust by [`api`]. [`collector`] is a process of sandbag
//! that does so.
//!
//! The library is in C, because it needs thread-local variables that are allocated
//! when the program starts (others must not be touched in a signal handler) and weak
//! references (it meets C libraries of any age); stable Rust has neither. C programs
//! can also add it to their own sources.
//!
//! Units: nanoseconds (`_ns`) of `CLOCK_MONOTONIC`.

pub mod api;
pub mod collector;
mod error;
pub mod layout;
pub mod library;
pub mod outcome;
pub mod overhead;
pub mod plan;
pub mod preloadable;

pub use error::{Error, Result};
