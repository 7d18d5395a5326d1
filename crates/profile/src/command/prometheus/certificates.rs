// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The root certificates of this machine, as OpenSSL finds them.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use ureq::tls::{Certificate, PemItem, RootCerts, parse_pem};

/// One file instead of the machine's; OpenSSL's name.
const FILE: &str = "SSL_CERT_FILE";
/// Directories of certificate files, separated by `:`; OpenSSL's name.
const DIRECTORIES: &str = "SSL_CERT_DIR";
/// The bundles of Debian and Arch Linux, Fedora, Alpine and SUSE.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
];

/// What a server's certificate must be signed by. Empty, so that every server
/// is refused, where nothing can be read.
pub fn read_roots() -> RootCerts {
    let mut files: Vec<PathBuf> = env::var_os(FILE).map(PathBuf::from).into_iter().collect();
    files.extend(env::var_os(DIRECTORIES).iter().flat_map(files_of));
    if files.is_empty() {
        let bundle = BUNDLES.map(Path::new).into_iter().find(|b| b.exists());
        files.extend(bundle.map(Path::to_owned));
    }
    let certificates: Vec<_> = files
        .iter()
        .flat_map(|file| certificates_of(file))
        .collect();
    RootCerts::new_with_certs(&certificates)
}

fn files_of(directories: &OsString) -> Vec<PathBuf> {
    env::split_paths(directories)
        .filter_map(|directory| fs::read_dir(directory).ok())
        .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
        .collect()
}

/// Of a file in PEM; anything else in it is passed over.
fn certificates_of(file: &Path) -> Vec<Certificate<'static>> {
    let text = fs::read(file).unwrap_or_default();
    let items = parse_pem(&text).filter_map(Result::ok);
    items
        .filter_map(|item| match item {
            PemItem::Certificate(certificate) => Some(certificate),
            _ => None,
        })
        .collect()
}
