// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an audit found, as people and other programs read it: the table on the
//! terminal, the page with its charts, JSON, CSV, JUnit; and the same of two
//! audits compared. All of it is made of [`crate::model`] alone, so an
//! audit that was written can be shown again anywhere.

mod charts;
pub mod csv;
pub mod file;
pub mod junit;
pub mod page;
pub mod terminal;
mod words;
