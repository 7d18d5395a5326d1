// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The compute-barrier benchmark as a program: what is asked on the command
//! line, and what is told of ranks that met. Two programs are made of it:
//! `sandbag scale bench`, whose ranks are processes with shared memory, and
//! `sandbag-mpi bench`, whose ranks are MPI's.

mod files;
mod numerals;
mod options;
mod prediction;
mod result_file;
mod rows;

pub use files::{Files, OutputStyle};
pub use numerals::{drift_json, said_of_capped, said_of_load, said_of_time};
pub use options::BenchOptions;
pub use prediction::{CommonStart, RankModel, rank_model};
pub use result_file::{ResultFile, remarks, slowdowns};
pub use rows::{PhaseRow, RowsFile, rows_of};
