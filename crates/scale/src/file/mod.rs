// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options and output of the compute-barrier benchmark, shared by two programs:
//! `sandbag scale bench`, whose ranks are processes with shared memory, and `sandbag-mpi
//! bench`, whose ranks are MPI's.

mod files;
mod options;
mod prediction;
mod result_file;

pub use files::Files;
pub use options::BenchOptions;
pub use prediction::{RankModel, rank_model};
pub use result_file::{BenchReport, ResultFile};
