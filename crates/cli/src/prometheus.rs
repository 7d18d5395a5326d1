// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A profile asked of a Prometheus server.
//!
//! ```text
//! prometheus+http://HOST:9090/?instance=X&from=RFC3339&to=RFC3339&step=15s
//! ```
//!
//! What is asked ([`asked`]) needs no network; the answers ([`fetch`]) are put
//! one after the other into an unnamed temporary file, which the importer reads
//! as it reads any other.

mod asked;
mod fetch;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use sandbag_profile::{Fault, Result, Source};

use asked::Asked;

/// What distinguishes such a name from that of a file.
const SCHEMES: [&str; 2] = ["prometheus+http://", "prometheus+https://"];
/// Sent as a bearer token where the URL has no user.
pub const TOKEN: &str = "SANDBAG_PROMETHEUS_TOKEN";

/// A URL where a file's name is expected.
#[must_use]
pub fn url(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    SCHEMES
        .iter()
        .any(|scheme| text.starts_with(scheme))
        .then_some(text)
}

/// Asks the server and keeps what it answers.
///
/// # Errors
/// The URL cannot be understood, the server not be reached, it refuses, or it
/// has no such series.
pub fn source(url: &str) -> Result<Source> {
    let name: Arc<str> = public(url).into();
    let server = |message: String| Fault::Server(message).at(&name, None);
    let asked = Asked::parse(url, jiff::Timestamp::now()).map_err(server)?;
    let token = std::env::var(TOKEN).ok().filter(|token| !token.is_empty());
    fetch::fetch(&asked, token.as_deref(), &name)
}

/// The same, asked once however often it is read: the last minutes of a
/// profile that ends now would be others each time.
///
/// # Errors
/// Those of [`source`].
pub fn source_once(url: &str) -> Result<Arc<Source>> {
    static FETCHED: Mutex<BTreeMap<String, Arc<Source>>> = Mutex::new(BTreeMap::new());
    let mut fetched = FETCHED.lock().unwrap_or_else(|poison| poison.into_inner());
    if let Some(known) = fetched.get(url) {
        return Ok(Arc::clone(known));
    }
    let new = Arc::new(source(url)?);
    fetched.insert(url.to_owned(), Arc::clone(&new));
    Ok(new)
}

/// A word of a command line as it may be shown: a URL without its user and
/// password.
#[must_use]
pub fn public(word: &str) -> String {
    let Some(scheme) = SCHEMES.iter().find(|scheme| word.starts_with(*scheme)) else {
        return word.to_owned();
    };
    let rest = &word[scheme.len()..];
    // An @ may stand in an expression, but not before it.
    let server = rest.split('?').next().unwrap_or_default();
    match server.rfind('@') {
        Some(at) => format!("{scheme}{}", &rest[at + 1..]),
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_no_file() {
        assert!(url(Path::new("prometheus+https://h/?from=1")).is_some());
        for file in ["http://h/", "prometheus", "prometheus+ftp://h", "-"] {
            assert!(url(Path::new(file)).is_none(), "{file}");
        }
    }

    #[test]
    fn credentials_are_not_shown() {
        for (word, shown) in [
            (
                "prometheus+http://u:p@h:9090/?a=b@c",
                "prometheus+http://h:9090/?a=b@c",
            ),
            ("prometheus+http://u:p/@w@h/?a", "prometheus+http://h/?a"),
            (
                "prometheus+http://h/?query=x@1",
                "prometheus+http://h/?query=x@1",
            ),
            ("u:p@h", "u:p@h"),
        ] {
            assert_eq!(public(word), shown);
        }
    }
}
