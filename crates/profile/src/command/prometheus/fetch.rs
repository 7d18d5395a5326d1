// SPDX-License-Identifier: Apache-2.0 OR MIT
//! HTTP requests to the server, and messages for what fails.

use std::io::{self, Cursor, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::source::MOST_SPOOLED;
use crate::{Fault, InputSource, Result};
use rustls::crypto::ring;
use sandbag_ui::address::public;
use serde::Deserialize;
use ureq::http::{Response, StatusCode, header};
use ureq::tls::TlsConfig;
use ureq::{Agent, Body, Timeout};

use super::TOKEN;
use super::certificates::read_roots;
use super::query::{Query, Request};

const CONNECT: Duration = Duration::from_secs(10);
/// The server itself gives up after two minutes.
const ANSWER: Duration = Duration::from_secs(150);
/// Between two pieces of an answer.
const PIECE: Duration = Duration::from_secs(60);
/// All answers together: pieces that come just within [`PIECE`] would never end.
const WHOLE: Duration = Duration::from_secs(30 * 60);
/// Of one answer.
const MAX_BYTES: u64 = 4 << 30;
/// An answer without series, and any error, is shorter.
const HEAD: u64 = 16 << 10;
/// How many machines are named.
const LISTED: usize = 10;

/// All answers one after the other.
///
/// # Errors
/// [`Fault::Server`], or what goes wrong while they are written to disk.
pub fn fetch(asked: &Query, token: Option<&str>, name: &Arc<str>) -> Result<InputSource> {
    fetch_within(WHOLE, MOST_SPOOLED, asked, token, name)
}

fn fetch_within(
    limit: Duration,
    most: u64,
    asked: &Query,
    token: Option<&str>,
    name: &Arc<str>,
) -> Result<InputSource> {
    let server = Server::new(asked, token, limit);
    let mut answers = Answers {
        server: &server,
        requests: asked.requests(),
        now: None,
        found: false,
        failed: None,
    };
    let spooled = InputSource::spool_within(most, &mut answers, Arc::clone(name));
    let fault = |message| Fault::Server(message).at(name, None);
    if let Some(message) = answers.failed {
        return Err(fault(message));
    }
    // Nothing was asked if there is no room for answers.
    let spooled = spooled.map_err(|error| match *error.fault {
        Fault::PipeTooLong(most) => fault(format!(
            "the answers are longer than {most} bytes, the most that is kept (in TMPDIR); take a \
             shorter time or a longer step"
        )),
        _ => error,
    })?;
    if answers.found {
        Ok(spooled)
    } else {
        Err(fault(server.nothing()))
    }
}

/// An answer with an error.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ErrorAnswer {
    error_type: String,
    error: String,
}

#[derive(Debug, Deserialize)]
struct Names {
    data: Vec<String>,
}

/// Whether there is a series in it.
#[derive(Deserialize)]
struct Results {
    data: ServerAnswer,
}

#[derive(Deserialize)]
struct ServerAnswer {
    result: Vec<serde::de::IgnoredAny>,
}

struct Server<'a> {
    asked: &'a Query,
    agent: Agent,
    authorization: Option<String>,
    /// For everything that is asked of it.
    limit: Duration,
    began: Instant,
}

impl<'a> Server<'a> {
    fn new(asked: &'a Query, token: Option<&str>, limit: Duration) -> Self {
        // Certificates are those of this machine: such servers are often
        // signed by their owners.
        let tls = TlsConfig::builder()
            .root_certs(read_roots())
            .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()));
        let agent = Agent::config_builder()
            .tls_config(tls.build())
            .timeout_connect(Some(CONNECT))
            .timeout_recv_response(Some(ANSWER))
            .timeout_per_read(Some(PIECE))
            .http_status_as_error(false)
            // Credentials are for this server; where it sends us is the
            // user's to see.
            .max_redirects(0)
            .user_agent(concat!("sandbag/", env!("CARGO_PKG_VERSION")))
            .build();
        let bearer = || token.map(|token| format!("Bearer {token}"));
        Self {
            asked,
            agent: agent.into(),
            authorization: asked.authorization.clone().or_else(bearer),
            limit,
            began: Instant::now(),
        }
    }

    /// The body of an answer that is one.
    fn ask(&self, request: &Request) -> Result<Box<dyn Read>, String> {
        let url = format!("{}{}", self.asked.server, request.path);
        let query = request.query.iter().map(|(key, value)| (*key, &**value));
        let mut get = self.agent.get(&url).query_pairs(query);
        if let Some(value) = &self.authorization {
            get = get.header(header::AUTHORIZATION, value);
        }
        let left = self.limit.saturating_sub(self.began.elapsed());
        if left.is_zero() {
            return Err(self.too_slow());
        }
        let get = get.config().timeout_global(Some(left)).build();
        let response = get.call().map_err(|e| self.connect_error_text(&e))?;
        if response.status() != StatusCode::OK {
            return Err(self.refused(response));
        }
        let mut body = response
            .into_body()
            .into_with_config()
            .limit(MAX_BYTES)
            .reader();
        let mut head = Vec::new();
        let read = body.by_ref().take(HEAD).read_to_end(&mut head);
        read.map_err(|e| self.io_error_text(&e))?;
        if !head.trim_ascii_start().starts_with(b"{") {
            return Err(format!(
                "{} does not answer as a Prometheus does, but with {}",
                self.asked.server,
                start_of(&head)
            ));
        }
        Ok(Box::new(Cursor::new(head).chain(body)))
    }

    fn io_error_text(&self, e: &io::Error) -> String {
        if self.is_too_slow() {
            self.too_slow()
        } else {
            format!("the answer of {} broke off: {e}", self.asked.server)
        }
    }

    fn is_too_slow(&self) -> bool {
        self.began.elapsed() >= self.limit
    }

    fn too_slow(&self) -> String {
        format!(
            "the answers of {} were not complete after {} s; take a shorter time or a longer step",
            self.asked.server,
            self.limit.as_secs()
        )
    }

    fn connect_error_text(&self, e: &ureq::Error) -> String {
        let server = &self.asked.server;
        match e {
            ureq::Error::HostNotFound => format!("no address is known of the host of {server}"),
            ureq::Error::Timeout(Timeout::Connect) => format!(
                "{server} did not take the connection within {} s",
                CONNECT.as_secs()
            ),
            ureq::Error::Timeout(_) if self.is_too_slow() => self.too_slow(),
            ureq::Error::Timeout(_) => format!(
                "{server} did not answer within {} s; take a shorter time or a longer step",
                ANSWER.as_secs()
            ),
            ureq::Error::Io(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
                format!("nothing listens at {server}: is that the port of Prometheus?")
            }
            ureq::Error::Rustls(e) => self.unsafe_text(e),
            ureq::Error::Io(e) if e.get_ref().is_some_and(|e| e.is::<rustls::Error>()) => {
                self.unsafe_text(e)
            }
            e => format!("{server} cannot be asked: {e}"),
        }
    }

    fn unsafe_text(&self, e: &dyn std::error::Error) -> String {
        format!(
            "no safe connection to {}: {e} (roots are the certificates of this machine, or those \
             that SSL_CERT_FILE or SSL_CERT_DIR name)",
            self.asked.server
        )
    }

    fn refused(&self, response: Response<Body>) -> String {
        let status = response.status();
        let server = &self.asked.server;
        let location = response.headers().get(header::LOCATION);
        let location = location.and_then(|l| l.to_str().ok()).map(str::to_owned);
        let mut body = Vec::new();
        let reader = &mut response.into_body().into_reader();
        // What came of it before an error is still worth showing.
        let _ = reader.take(HEAD).read_to_end(&mut body);
        if status.is_redirection() {
            let to = location.unwrap_or_else(|| "another place".to_owned());
            let to = public(to.split("/api/").next().unwrap_or_default());
            return format!(
                "{server} sends us on to {to}; write that server, and a path before /api if it \
                 has one, into the URL as prometheus+http:// or prometheus+https://"
            );
        }
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            let remedy = match self.authorization {
                Some(_) => "does not take these credentials",
                None => "wants to know who asks",
            };
            return format!(
                "{server} {remedy} ({status}): write them into the URL, USER:PASSWORD@HOST, or \
                 put a token into {TOKEN}"
            );
        }
        match serde_json::from_slice::<ErrorAnswer>(&body) {
            Ok(said) if !said.error.is_empty() => {
                let mut text = format!(
                    "Prometheus: {}: {}",
                    one_line(&said.error_type),
                    one_line(&said.error)
                );
                if self.asked.own && self.asked.is_raw() && status == StatusCode::BAD_REQUEST {
                    text += "; without a step only a selector can be asked for, such as \
                             node_cpu_seconds_total{instance=\"X\"}: for any other query add \
                             step=15s";
                }
                if said.error.contains("too many samples") {
                    text += "; add a step, or name one instance";
                }
                text
            }
            _ if status == StatusCode::NOT_FOUND => {
                format!("there is no Prometheus at {server} ({status}): has it a path before /api?")
            }
            _ => format!("{server} answers {status}: {}", start_of(&body)),
        }
    }

    /// Message for an answer without series; it names the instances that the server has.
    fn nothing(&self) -> String {
        let none = format!("nothing in that time is {}", self.asked.expression);
        let listed = self.ask(&self.asked.instances()).ok().and_then(|body| {
            let names = serde_json::from_reader::<_, Names>(body.take(64 << 20));
            Some(names.ok()?.data)
        });
        match listed {
            None => none,
            Some(names) if names.is_empty() => {
                format!("{none}; no machine has node_cpu_seconds_total then")
            }
            Some(names) => {
                let more = if names.len() > LISTED { ", ..." } else { "" };
                let named = names.iter().take(LISTED).map(|name| one_line(name));
                let first = named.collect::<Vec<_>>().join(", ");
                format!("{none}; instances that have node_cpu_seconds_total then: {first}{more}")
            }
        }
    }
}

/// The words of a server, which may be spread over lines.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

/// The beginning of what is no JSON.
fn start_of(body: &[u8]) -> String {
    let text = one_line(&String::from_utf8_lossy(body));
    let text: String = text.chars().take(60).collect();
    if text.is_empty() {
        "nothing".to_owned()
    } else {
        format!("{text:?}")
    }
}

/// Reads answer after answer.
struct Answers<'a, I> {
    server: &'a Server<'a>,
    requests: I,
    now: Option<Box<dyn Read>>,
    /// Whether there was a series in any.
    found: bool,
    failed: Option<String>,
}

impl<I: Iterator<Item = Request>> Answers<'_, I> {
    /// Begins the next answer; false after the last.
    fn next(&mut self) -> Result<bool, String> {
        let Some(request) = self.requests.next() else {
            return Ok(false);
        };
        let mut body = self.server.ask(&request)?;
        if !self.found {
            let mut head = Vec::new();
            let read = body.by_ref().take(HEAD).read_to_end(&mut head);
            read.map_err(|e| self.server.io_error_text(&e))?;
            // What is longer than that is cut off here, and holds something.
            let empty = serde_json::from_slice::<Results>(&head)
                .is_ok_and(|answer| answer.data.result.is_empty());
            self.found = !empty;
            body = Box::new(Cursor::new(head).chain(body));
        }
        self.now = Some(body);
        Ok(true)
    }
}

impl<I: Iterator<Item = Request>> Read for Answers<'_, I> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let message = match &mut self.now {
                None => match self.next() {
                    Ok(true) => continue,
                    Ok(false) => return Ok(0),
                    Err(message) => message,
                },
                Some(body) => match body.read(into) {
                    Ok(0) => {
                        self.now = None;
                        continue;
                    }
                    Ok(n) => return Ok(n),
                    Err(e) => self.server.io_error_text(&e),
                },
            };
            self.failed = Some(message.clone());
            return Err(io::Error::other(message));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::thread::JoinHandle;

    use crate::{Profile, ReadOptions};

    use super::*;

    /// A server that gives these answers, status line and the rest, and
    /// returns what it was asked.
    fn server(answers: Vec<String>) -> (String, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serving = std::thread::spawn(move || {
            let mut asked = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut head = String::new();
                let mut lines = BufReader::new(stream.try_clone().unwrap());
                while lines.read_line(&mut head).unwrap() > 2 {}
                asked.push(head);
                stream.write_all(answer.as_bytes()).unwrap();
            }
            asked
        });
        (address, serving)
    }

    fn answer(status: &str, more: &str, body: &str) -> String {
        format!(
            "HTTP/1.1 {status}\r\n{more}Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    fn matrix(points: &str) -> String {
        let series: Vec<String> = match points {
            "" => Vec::new(),
            points => ["user", "system", "idle"]
                .iter()
                .map(|mode| {
                    format!(
                        "{{\"metric\":{{\"cpu\":\"0\",\"mode\":\"{mode}\"}},\"values\":[{points}]}}"
                    )
                })
                .collect(),
        };
        let all = series.join(",");
        let body = format!(
            "{{\"status\":\"success\",\"data\":{{\"resultType\":\"matrix\",\"result\":[{all}]}}}}"
        );
        answer("200 OK", "Content-Type: application/json\r\n", &body)
    }

    fn asked(url: &str) -> Query {
        let url = format!("prometheus+http://{url}");
        Query::parse(&url, jiff::Timestamp::UNIX_EPOCH).unwrap()
    }

    fn get(
        query: &str,
        token: Option<&str>,
        answers: Vec<String>,
    ) -> (Result<InputSource>, Vec<String>) {
        let (address, serving) = server(answers);
        let asked = asked(&query.replace("HOST", &address));
        let got = fetch(&asked, token, &"in".into());
        (got, serving.join().unwrap())
    }

    /// The message of a failure, without the port of the server.
    fn message(query: &str, answers: Vec<String>) -> String {
        let text = get(query, None, answers).0.unwrap_err().to_string();
        let parts = text.split("127.0.0.1:").enumerate();
        let parts = parts.map(|(i, part)| match i {
            0 => part,
            _ => part.trim_start_matches(|c: char| c.is_ascii_digit()),
        });
        parts.collect::<Vec<_>>().join("HOST")
    }

    #[test]
    fn answers_are_joined() {
        let (got, asked) = get(
            "HOST/p/?from=0&to=20000&step=1&query=node_cpu",
            Some("secret"),
            vec![
                matrix("[10998,\"5\"],[10999,\"10\"]"),
                matrix("[11000,\"15\"]"),
            ],
        );
        let steps = got.unwrap().open(None, &ReadOptions::default()).unwrap();
        let p = Profile::collect(steps).unwrap();
        assert_eq!(p.end_ns(), 2_000_000_000);
        assert!(
            asked[0].starts_with("GET /p/api/v1/query_range?query=node_cpu&start=0.000&"),
            "{}",
            asked[0]
        );
        for head in asked {
            let head = head.to_lowercase();
            assert!(head.contains("authorization: bearer secret"), "{head}");
            assert!(head.contains("user-agent: sandbag/"), "{head}");
        }
    }

    #[test]
    fn expressions_are_encoded_and_the_url_s_user_goes_first() {
        let (got, asked) = get(
            "u:p@HOST/?from=0&to=5&query=a{b=\"c d\"}[1m]%26",
            Some("secret"),
            vec![matrix("[1,\"1\"]")],
        );
        got.unwrap();
        let head = asked[0].to_lowercase();
        assert!(head.contains("authorization: basic dtpw"), "{head}");
        let line = head.lines().next().unwrap();
        for forbidden in [' ', '"', '{', '&'] {
            let query = line.split("query=").nth(1).unwrap();
            let query = query.split("&time").next().unwrap();
            assert!(!query.contains(forbidden), "{line}");
        }
    }

    #[test]
    fn answers_without_data_become_messages() {
        let error = |text: &str| {
            format!("{{\"status\":\"error\",\"errorType\":\"bad\\ndata\",\"error\":\"{text}\"}}")
        };
        let bad = |text: &str| vec![answer("400 Bad Request", "", text)];
        let names = |data: &str| {
            let body = format!("{{\"status\":\"success\",\"data\":[{data}]}}");
            vec![matrix(""), answer("200 OK", "", &body)]
        };
        let location = "Location: https://h/api/v1/query?x\r\n";
        let cut = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 99\r\n\r\n{";
        let plain = "HOST/?from=0&to=5&step=1";
        let one = "HOST/?from=0&to=5&step=1&instance=x";
        let mut messages = String::new();
        for (query, answers) in [
            (plain, bad(&error("parse error"))),
            // Lines of a server do not break the message.
            (plain, bad(&error("a\\r\\nb\\n"))),
            (
                "HOST/?from=0&to=5&query=rate(x[1m])",
                bad(&error("parse error")),
            ),
            (plain, bad(&error("query would load too many samples"))),
            (
                plain,
                vec![answer("404 Not Found", "", "404 page not found")],
            ),
            (
                plain,
                vec![answer(
                    "503 Service Unavailable",
                    "",
                    "Service\nUnavailable",
                )],
            ),
            (plain, vec![answer("401 Unauthorized", "", "")]),
            (
                "u:p@HOST/?from=0&to=5&step=1",
                vec![answer("403 Forbidden", "", "")],
            ),
            (plain, vec![answer("302 Found", location, "")]),
            (plain, vec![answer("200 OK", "", "<html>Log in")]),
            (plain, vec![cut.to_owned()]),
            // Without series the machines are named.
            (one, names("\"a:9100\",\"b:9100\"")),
            (one, names("")),
            (one, vec![matrix(""), answer("500 x", "", "")]),
        ] {
            messages += &(message(query, answers) + "\n");
        }
        insta::assert_snapshot!("messages", messages);
    }

    #[test]
    fn answers_that_are_too_long_have_a_remedy() {
        let (address, serving) = server(vec![matrix("[1,\"1\"]")]);
        let asked = asked(&format!("{address}/?from=0&to=5&step=1"));
        let got = fetch_within(WHOLE, 20, &asked, None, &"in".into());
        let got = got.unwrap_err().to_string();
        assert!(got.contains("(in TMPDIR); take a shorter time"), "{got}");
        serving.join().unwrap();
    }

    #[test]
    fn a_server_that_sends_a_byte_now_and_then_is_given_up() {
        const LIMIT: Duration = Duration::from_secs(1);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = asked(&format!("{address}/?from=0&to=5&step=1"));
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // Until the other side closes, perhaps before the first byte.
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{";
            let mut open = stream.write_all(head.as_bytes()).is_ok();
            while open {
                std::thread::sleep(Duration::from_millis(20));
                open = stream.write_all(b" ").is_ok();
            }
        });
        let got = fetch_within(LIMIT, MOST_SPOOLED, &asked, None, &"in".into());
        let got = got.unwrap_err().to_string();
        assert!(got.contains("were not complete after 1 s"), "{got}");
        // The time may have been over before a connection was made.
        drop(TcpStream::connect(address));
        serving.join().unwrap();
    }

    #[test]
    fn a_server_that_is_not_there() {
        // Bound and dropped, so that the port is closed.
        let free = TcpListener::bind("127.0.0.1:0").and_then(|bound| bound.local_addr());
        let free = free.unwrap().to_string();
        for (host, said) in [
            (free, "nothing listens at http://127.0.0.1:"),
            ("no-such-host.invalid".to_owned(), "http://no-such-host"),
        ] {
            let asked = asked(&format!("{host}/?from=0&to=5"));
            let got = fetch(&asked, None, &"in".into()).unwrap_err().to_string();
            assert!(got.contains(said), "{got}");
        }
    }
}
