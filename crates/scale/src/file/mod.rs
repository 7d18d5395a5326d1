// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The compute-barrier benchmark as a program: what is asked on the command
//! line, and what is told of ranks that met. Two programs are made of it:
//! `sandbag scale bench`, whose ranks are processes with shared memory, and
//! `sandbag-mpi bench`, whose ranks are MPI's.

mod files;
mod options;
mod predicted;
mod rows;
mod said;
mod told;

pub use files::{Files, Out};
pub use options::BenchOptions;
pub use predicted::{Predicted, Together, predicted};
pub use rows::{Row, RowsFile, rows_of};
pub use said::{drift_json, said_of_capped, said_of_load, said_of_time};
pub use told::{Told, remarks, slowdowns};
