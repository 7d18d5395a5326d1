// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One trial of an experiment: the row it makes.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A row: what one trial of a cell came to.
pub trait Trial: Clone + Serialize + DeserializeOwned {
    /// The cell it belongs to (its key).
    fn cell(&self) -> &str;

    /// Round, from 0.
    fn round(&self) -> u32;

    /// Whether it is measured again when an experiment goes on.
    fn is_measured_again(&self) -> bool {
        false
    }

    /// What its figures are, for who waits for the next one.
    fn line(&self) -> String;
}
