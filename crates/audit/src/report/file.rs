// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An audit as a file: JSON, one document.

use crate::model::{Audit, VERSION};
use serde::Deserialize;
use thiserror::Error;

/// A file that is longer is no audit: 4096 CPUs have some 500 MiB.
pub const MOST_BYTES: u64 = 1 << 30;

/// Why a file is no audit that can be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// It is not JSON, or not that of an audit.
    #[error("this is no audit ({0}); `sandbag audit run -o FILE` writes one")]
    NoAudit(#[source] serde_json::Error),
    /// It is of a version that came later.
    #[error(
        "this audit is of version {0} of its format, and this sandbag reads version {VERSION}: \
         take the sandbag that wrote it, or a newer one"
    )]
    Version(u64),
    /// Its parts do not fit each other.
    #[error("this audit is damaged: {0}")]
    Damaged(String),
}

/// As much as must be known before the rest can be.
#[derive(Deserialize)]
struct FileHead {
    version: u64,
}

/// Reads an audit.
pub fn read(text: &[u8]) -> Result<Audit, ReadError> {
    let head: FileHead = serde_json::from_slice(text).map_err(ReadError::NoAudit)?;
    if head.version != u64::from(VERSION) {
        return Err(ReadError::Version(head.version));
    }
    let mut audit: Audit = serde_json::from_slice(text).map_err(ReadError::NoAudit)?;
    check(&audit)?;
    // Earlier files have the end of the search where there is no figure.
    for effect in audit.tests.iter_mut().flat_map(|test| &mut test.effects) {
        let is_known = |pct: &f64| !effect.quantity.is_open(*pct);
        effect.detectable_pct = effect.detectable_pct.filter(is_known);
    }
    Ok(audit)
}

/// As one line of JSON and its end.
pub fn write(audit: &Audit) -> String {
    // Only maps whose keys are no text cannot be written, and there are none.
    let mut text = serde_json::to_string(audit).unwrap_or_default();
    text.push('\n');
    text
}

/// Lengths of figures are those of their test: the rest of this crate relies on it.
fn check(audit: &Audit) -> Result<(), ReadError> {
    for test in &audit.tests {
        let lengths = test.lengths.len();
        let of_samples = test.samples.iter().map(|sample| sample.length);
        let of_effects = test.by_length.iter().map(|effect| effect.length);
        let mut all = of_samples.chain(of_effects);
        if let Some(length) = all.find(|length| *length >= lengths) {
            return Err(ReadError::Damaged(format!(
                "test {} has {lengths} lengths, and figures of number {length} (from 0)",
                test.name.escape_debug()
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Maker, eight};
    use proptest::prelude::*;

    #[test]
    fn an_audit_is_read_as_it_was_written() {
        let audit = eight();
        let text = write(&audit);
        assert_eq!(read(text.as_bytes()).unwrap(), audit);
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn what_is_no_audit_is_told() {
        let said = |text: &str| read(text.as_bytes()).unwrap_err().to_string();
        assert!(said("").contains("no audit"));
        assert!(said("{}").contains("version"));
        assert!(said("[1,2]").contains("no audit"));
        assert!(said(r#"{"version":2}"#).contains("reads version 1"));
        assert!(said(r#"{"version":-1}"#).contains("no audit"));
        assert!(said(&"[".repeat(100_000)).contains("no audit"));
    }

    #[test]
    fn figures_that_are_none_are_refused() {
        let text = write(&eight());
        let with = |from: &str, to: &str| {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from}");
            read(changed.as_bytes())
        };
        assert!(with(r#""confidence":0.99"#, r#""confidence":null"#).is_err());
        assert!(with(r#""confidence":0.99"#, r#""confidence":1e999"#).is_err());
        assert!(with(r#""cpu":0"#, r#""cpu":-1"#).is_err());
        assert!(with(r#""took_ns":"#, r#""took_ns":99999999999999999999"#).is_err());
        let error = with(r#""length":0"#, r#""length":3"#).unwrap_err();
        assert!(error.to_string().contains("damaged"), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn a_file_cut_off_anywhere_is_no_audit(share in 0.0f64..1.0) {
            let text = write(&Maker::eight().rounds(1).make());
            let end = (text.len() as f64 * share) as usize;
            prop_assume!(end < text.trim_end().len());
            prop_assert!(read(&text.as_bytes()[..end]).is_err());
        }

        #[test]
        fn figures_come_back_bit_by_bit(pct in any::<f64>(), p in any::<f64>(), ns in any::<u64>()) {
            prop_assume!(pct.is_finite() && p.is_finite());
            let mut audit = Maker::eight().rounds(1).cpus(1).make();
            audit.tests[0].effects[0].pct = pct;
            audit.tests[0].effects[0].p = p;
            audit.tests[0].samples[0].elapsed_ns = ns;
            prop_assert_eq!(read(write(&audit).as_bytes()).unwrap(), audit);
        }
    }
}
