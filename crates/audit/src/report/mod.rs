// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An audit, and two compared, in every form: tables on the terminal, the page with
//! its charts, JSON, CSV, JUnit. All of it is made of [`crate::model`] alone, so an
//! audit that was written can be shown again anywhere.

mod charts;
pub mod csv;
mod figures;
pub mod file;
pub mod junit;
pub mod page;
pub mod terminal;
pub(crate) mod words;
