// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `shares`: the formula of KRASH and Fracas as published (the layout of the
//! groups is ours). It is wrong on current kernels, and here to show by how much.
//!
//! A spinning burner in a group of its own has weight w = base * L/(1-L),
//! where base is the weight of the group that holds the program (Perarnau &
//! Huard 2010, section IV; Buchert et al. 2011, section III for Fracas). KRASH
//! keeps all tasks of the machine in the base group; sandbag moves no foreign
//! tasks, so base is the wrapped command's group.

use super::{DemandRule, Method, MethodOptions};

pub(super) fn method(options: &MethodOptions) -> Result<Method, String> {
    options.no_period("shares has no period")?;
    Ok(Method {
        about: "the published weight formula (KRASH, Fracas), for comparison; too high on current kernels",
        demand: DemandRule::Shares,
        // KRASH silently makes 99 of 100.
        most: 0.99,
        settles: false,
        grouped: true,
        parameters: vec![("base_weight", "1".to_owned())],
        ..Method::named("shares")
    })
}
