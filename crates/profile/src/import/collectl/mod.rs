// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of collectl: the raw ones and what `-P` makes of them.
//!
//! Both begin with the same block of comments, repeated wherever collectl
//! began anew:
//!
//! ```text
//! ################################################################################
//! # Collectl:   V4.3.1-1  HiRes: 1  Options: -sC -i1 -P
//! # Host:       vm  DaemonOpts:
//! # Date:       20261121-175853  Secs: 1795283933 TZ: +0000
//! # SubSys:     C Options: m Interval: 1 NumCPUs: 2  NumBud: 0 Flags: i
//! # HZ:         100  Arch: x86_64-linux-gnu PageSize: 4096
//! ################################################################################
//! ```

mod block;
mod plot;
mod raw;

pub(super) use plot::READER as PLOT;
pub(super) use raw::READER as RAW;
