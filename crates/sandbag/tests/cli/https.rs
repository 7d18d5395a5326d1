// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A profile is read from a server by TLS if its certificate is trusted.
//!
//! `tls/server.pem` is a certificate for `localhost` and its key, signed by
//! `tls/root.pem`; both last until 2126 and were made by `openssl req` and
//! `openssl x509`.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, Stream};

const PEM: &[u8] = include_bytes!("tls/server.pem");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/tls/root.pem");
const ANSWER: &str = r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"cpu":"0","mode":"user","instance":"a"},"values":[[0,"0.5"],[15,"0.5"],[30,"0.25"]]}]}}"#;

/// Answers each connection once with [`ANSWER`]; the port.
fn serve() -> u16 {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(PEM).unwrap()],
            PrivateKeyDer::from_pem_slice(PEM).unwrap(),
        )
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let mut connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = Stream::new(&mut connection, &mut socket);
            // A client that refuses the certificate hangs up.
            if stream.read(&mut [0; 4096]).is_err() {
                continue;
            }
            let length = ANSWER.len();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            stream.write_all((head + ANSWER).as_bytes()).unwrap();
            stream.conn.send_close_notify();
            stream.flush().unwrap();
        }
    });
    port
}

fn show(port: u16) -> assert_cmd::Command {
    let mut command = assert_cmd::Command::cargo_bin("sandbag").unwrap();
    let url =
        format!("prometheus+https://localhost:{port}/?from=0&to=30&step=15&query=rate(x[1m])");
    command.args(["show", &url]).env_remove("SSL_CERT_DIR");
    // The test's own server is asked directly.
    command.env("NO_PROXY", "localhost");
    command
}

#[test]
fn a_server_whose_root_is_named_is_read() {
    let port = serve();
    let mut command = show(port);
    command.env("SSL_CERT_FILE", ROOT).assert().success();
    let certificates = std::path::Path::new(ROOT).parent().unwrap();
    let mut command = show(port);
    command
        .env_remove("SSL_CERT_FILE")
        .env("SSL_CERT_DIR", certificates);
    command
        .assert()
        .success()
        .stdout(contains("mean load 41.7 %"));
}

#[test]
fn a_server_with_an_unknown_root_is_refused() {
    let port = serve();
    let mut command = show(port);
    command
        .env_remove("SSL_CERT_FILE")
        .assert()
        .code(2)
        .stderr(contains("no safe connection to https://localhost").and(contains("SSL_CERT_FILE")));
}
