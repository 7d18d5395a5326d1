// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What atop writes for programs: `-P cpu` as text, `-J cpu` as JSON.
//!
//! Both hold, for every CPU, the ticks that it spent in each state *during*
//! the interval. A stamp is the end of its interval. Whenever atop starts, its
//! first sample holds all the time since boot and says nothing of the interval
//! before it; such samples are left out.

mod json;
mod recording;
mod text;

pub(super) use json::READER as JSON;
pub(super) use text::READER as TEXT;
