// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A profile asked of a Prometheus server.
//!
//! ```text
//! prometheus+http://HOST:9090/?instance=X&from=RFC3339&to=RFC3339&step=15s
//! ```
//!
//! What is asked ([`query`]) needs no network; the answers ([`fetch`]) are put
//! one after the other into an unnamed temporary file, which the importer reads
//! as it reads any other.

mod certificates;
mod direction;
mod fetch;
mod query;

use std::path::Path;
use std::sync::Arc;

use crate::{Fault, InputSource, Result};

use query::Query;
use sandbag_ui::address::{SCHEMES, public, without_user};

/// Sent as a bearer token where the URL has no user.
pub const TOKEN: &str = "SANDBAG_PROMETHEUS_TOKEN";

/// A URL where a file's name is expected.
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
pub fn source(url: &str) -> Result<InputSource> {
    let name: Arc<str> = public(url).into();
    let server = |message: String| Fault::Server(message).at(&name, None);
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let shown = without_user(rest);
    // Where the user and password end is not what a URL says, and what would be asked is no
    // host that was meant.
    let user = rest.strip_suffix(shown.unwrap_or(rest)).unwrap_or_default();
    if shown.is_none() || user.contains(['/', '#', '\\']) {
        // Of what is wrong with it no part may be shown either.
        let text = "expected prometheus+http://HOST:9090/?instance=...&from=...&to=...; write the \
                    special characters of a user and a password as %XX, as %3F for ? and %2F for /";
        return Err(server(text.to_owned()));
    }
    let asked = Query::parse(url, jiff::Timestamp::now()).map_err(server)?;
    let token = std::env::var(TOKEN).ok().filter(|token| !token.is_empty());
    fetch::fetch(&asked, token.as_deref(), &name)
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
    fn what_may_be_a_password_is_not_shown() {
        for rest in [
            "u:secret?x@h/?from=0",
            "u:secret?from=secret@h/?from=0",
            "u:1?secret@h/?from=0",
            "u:1?secret&query=x@h/?from=0",
            "u:1?from=secret@h/?from=0",
            "u:p@secret?x@h/?from=0",
            "u:secret",
            "u:secret/?from=0",
            "?secret@h",
            "u:1?query=secret@h/?from=0",
            "u:p@secret?query=x@h/?from=0",
        ] {
            let word = format!("prometheus+https://{rest}");
            assert_eq!(public(&word), "prometheus+https://...");
            let message = source(&word).unwrap_err().to_string();
            assert!(!message.contains("secret"), "{message}");
            assert!(message.contains("%3F"), "{message}");
        }
    }

    #[test]
    fn a_password_with_special_characters_is_refused_and_not_shown() {
        for rest in [
            "u:s/ecret@h/?from=0",
            "u:1#secret@h/?from=0",
            "u:1/secret@h/?from=0",
            "u:secret/@h:9090?from=0",
            "u:x\\secret@h/?from=0",
        ] {
            let word = format!("prometheus+https://{rest}");
            let message = source(&word).unwrap_err().to_string();
            assert!(!(public(&word) + &message).contains("ecret"), "{message}");
            assert!(message.contains("%2F"), "{message}");
        }
    }
}
