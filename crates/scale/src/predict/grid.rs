// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cells of noise on a logarithmic scale.

/// Decades from 1 ns on; longer noise is in the last cell.
const DECADES: f64 = 12.0;

#[derive(Debug, Clone)]
pub struct Grid {
    per_decade: f64,
    /// Begin of each cell, and the end of the last; the first cell is that of no noise.
    edges: Vec<f64>,
}

impl Grid {
    pub fn new(per_decade: f64) -> Self {
        let cells = (per_decade * DECADES) as usize;
        let edge = |i: usize| 10f64.powf(i as f64 / per_decade);
        Self {
            per_decade,
            edges: std::iter::once(0.0).chain((0..=cells).map(edge)).collect(),
        }
    }

    /// Number of cells.
    pub fn cells(&self) -> usize {
        self.edges.len() - 1
    }

    /// The cell of a noise.
    pub fn cell(&self, noise_ns: f64) -> usize {
        if noise_ns < 1.0 {
            return 0;
        }
        let cell = 1 + (noise_ns.log10() * self.per_decade) as usize;
        cell.min(self.cells() - 1)
    }

    pub fn edges(&self) -> &[f64] {
        &self.edges
    }
}
