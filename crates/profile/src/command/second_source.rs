// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A profile that is named beside the first one, to append or to add.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::command::prometheus;
use crate::{InputSource, Result};

/// A file or a server, opened and asked once however often it is read: another file may get its
/// name meanwhile, and the last minutes of a profile that ends now would be others each time.
pub fn source_once(path: &Path) -> Result<Arc<InputSource>> {
    static OPENED: Mutex<BTreeMap<PathBuf, Arc<InputSource>>> = Mutex::new(BTreeMap::new());
    let mut opened = OPENED.lock().unwrap_or_else(|poison| poison.into_inner());
    if let Some(known) = opened.get(path) {
        return Ok(Arc::clone(known));
    }
    let new = Arc::new(match prometheus::url(path) {
        Some(url) => prometheus::source(url)?,
        None => InputSource::new(path)?,
    });
    opened.insert(path.to_owned(), Arc::clone(&new));
    Ok(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_same_name_is_not_opened_later() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("p.csv");
        std::fs::write(&path, "time,cpu0\n0,50\n1,end\n").unwrap();
        let first = source_once(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(Arc::ptr_eq(&first, &source_once(&path).unwrap()));
    }
}
