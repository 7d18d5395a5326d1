// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reading what others wrote, and writing files whole: decompression, new files.

pub mod new_file;
pub mod unpack;

pub use new_file::{Existing, NewFile, Taken, open_new, refuse_taken};
