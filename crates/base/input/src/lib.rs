// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reading what others wrote, and writing files whole: decompression,
//! lines with their places, faults at them, numbers, new files.

pub mod head;
mod input_file;
mod lines;
mod located;
pub mod new_file;
pub mod number;
pub mod unpack;

pub use head::Head;
pub use input_file::open_input;
pub use lines::{LineError, LineFault, Lines, MAX_LINE, Place};
pub use located::{FileFault, Located};
pub use new_file::{
    Existing, NameTaken, NewFile, first_free, is_full, open_descriptor, open_new, refuse_taken,
    sync,
};
