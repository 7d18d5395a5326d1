// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a run leaves behind: `run.json`, `achieved.csv`, `report.html`, and
//! the tables on the terminal.

pub mod run;
