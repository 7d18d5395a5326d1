// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The published parameters. Gamma distributions are of shape `a`, scale `b`.

/// Of one kind of jobs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameters {
    /// Probability of a job on one CPU.
    pub serial: f64,
    /// Probability of a power of two above 1.
    pub pow2: f64,
    /// Logarithm (base 2) of the size: least, end of the first stage, greatest,
    /// and probability of the first stage.
    pub ulow: f64,
    pub umed: f64,
    pub uhi: f64,
    pub uprob: f64,
    /// Logarithm (natural) of the run time: two gammas.
    pub a1: f64,
    pub b1: f64,
    pub a2: f64,
    pub b2: f64,
    /// Probability of the first as pa * size + pb.
    pub pa: f64,
    pub pb: f64,
    /// Logarithm of the interval between arrivals at the mean rate; the factor
    /// of its shape that ties it to the mean.
    pub aarr: f64,
    pub barr: f64,
    pub arar: f64,
    /// Daily cycle: a gamma over half hours.
    pub anum: f64,
    pub bnum: f64,
}

/// Batch jobs.
pub const BATCH: Parameters = Parameters {
    serial: 0.2927,
    pow2: 0.6686,
    ulow: 1.2,
    umed: 5.0,
    uhi: 7.0,
    uprob: 0.875,
    a1: 6.57,
    b1: 0.823,
    a2: 639.1,
    b2: 0.0156,
    pa: -0.003,
    pb: 0.6986,
    aarr: 6.0415,
    barr: 0.8531,
    arar: 1.0519,
    anum: 6.1271,
    bnum: 5.2740,
};

/// Interactive jobs.
pub const INTERACTIVE: Parameters = Parameters {
    serial: 0.1541,
    pow2: 0.625,
    ulow: 1.0,
    umed: 3.0,
    uhi: 5.5,
    uprob: 0.705,
    a1: 3.8351,
    b1: 0.6605,
    a2: 7.073,
    b2: 0.6856,
    pa: -0.0118,
    pb: 0.9156,
    aarr: 6.5510,
    barr: 0.6621,
    arar: 0.9797,
    anum: 8.9186,
    bnum: 3.6680,
};

/// All jobs as one kind.
pub const ALL: Parameters = Parameters {
    serial: 0.244,
    pow2: 0.576,
    ulow: 0.8,
    umed: 4.5,
    uhi: 7.0,
    uprob: 0.86,
    a1: 4.2,
    b1: 0.94,
    a2: 312.0,
    b2: 0.03,
    pa: -0.0054,
    pb: 0.78,
    aarr: 10.2303,
    barr: 0.4871,
    arar: 1.0225,
    anum: 8.1737,
    bnum: 3.9631,
};

/// Distance of `umed` from `uhi` that the authors advise.
const MIDDLE: f64 = 2.5;

impl Parameters {
    /// For a machine of another size: the greatest job is as large as the
    /// machine, the middle as far below as the authors advise, as far as there
    /// is room.
    pub fn for_machine(self, cpus: u32) -> Self {
        let uhi = libm::log2(f64::from(cpus.max(1)));
        let ulow = self.ulow.min(uhi);
        Self {
            uhi,
            ulow,
            umed: (uhi - MIDDLE).max(ulow),
            // A machine of one CPU has serial jobs only.
            serial: if cpus <= 1 { 1.0 } else { self.serial },
            ..self
        }
    }
}
