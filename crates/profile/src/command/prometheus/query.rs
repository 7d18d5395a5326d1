// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From a URL to the requests it stands for.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::percent_decode_str;
use ureq::http::Uri;

use super::direction::{Direction, direction};
use sandbag_ui::units;

const METRIC: &str = "node_cpu_seconds_total";
/// The server gives out no more points of a series at once.
const MAX_POINTS: i64 = 11_000;
/// Scrapes themselves are asked for in pieces of so much time: 4 million values
/// of 64 CPUs at one a second. The server refuses 50 million at once.
const PIECE_MS: i64 = 2 * 3600 * 1000;
/// More is a slip of the pen.
const MAX_REQUESTS: i64 = 5000;

/// What is wanted of which server.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// `http://HOST:PORT`, and the path before `/api`.
    pub server: String,
    /// The value of an `Authorization` header.
    pub authorization: Option<String>,
    /// An expression; without a step a selector, whose range is added.
    pub expression: String,
    /// The user wrote the expression.
    pub own: bool,
    step_ms: Option<i64>,
    from_ms: i64,
    to_ms: i64,
}

/// A path below the server's and what is asked there.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Begins with `/api`.
    pub path: &'static str,
    /// Names and values, not yet encoded.
    pub query: Vec<(&'static str, String)>,
}

impl Query {
    /// Reads a URL of a scheme `prometheus+http` or `prometheus+https`; `now`
    /// is the end where it names none.
    pub fn parse(url: &str, now: jiff::Timestamp) -> Result<Self, String> {
        let url = url.strip_prefix("prometheus+").unwrap_or(url);
        let (server, query) = url.split_once('?').unwrap_or((url, ""));
        let (server, authorization) = server_of(server)?;
        let mut given = Parameters::parse(query)?;
        let from_ms = match given.from.take() {
            Some(text) => time(&text)?,
            None => return Err("it does not say from when: add from=2026-11-21T01:00:00Z".into()),
        };
        let to_ms = match given.to.take() {
            Some(text) => time(&text)?,
            None => now.as_millisecond(),
        };
        if from_ms >= to_ms {
            return Err("its time ends (to) before it begins (from)".into());
        }
        let own = given.query.is_some();
        let expression = match given.query.take() {
            Some(_) if given.instance.is_some() || given.job.is_some() => {
                return Err(
                    "it has a query and an instance or job: write those into the query, as in \
                     rate(node_cpu_seconds_total{instance=\"X\"}[1m])"
                        .into(),
                );
            }
            Some(query) => match direction(&query) {
                Direction::Kept => query,
                Direction::Reversed => {
                    return Err(
                        "its query subtracts from a number, as 1 - rate(...) does: the result \
                         keeps the label mode, so that the usage would be read as idle time; ask \
                         for rate() itself, of all modes"
                            .into(),
                    );
                }
                Direction::Unclear => {
                    return Err(
                        "what its query does to the time in a mode cannot be followed here: it \
                         may turn idle time into a usage; ask for rate() itself, of all modes, or \
                         state what the result is by label_replace(QUERY, \"mode\", \"user\", \
                         \"\", \"\")"
                            .into(),
                    );
                }
            },
            None => selector(given.instance.as_deref(), given.job.as_deref()),
        };
        let step_ms = given.step.as_deref().map(step).transpose()?;
        let this = Self {
            server,
            authorization,
            expression,
            own,
            step_ms,
            from_ms,
            to_ms,
        };
        if this.count() > MAX_REQUESTS {
            return Err(format!(
                "that would take {} requests, and no more than {MAX_REQUESTS} are made: take a \
                 longer step or a shorter time",
                this.count()
            ));
        }
        Ok(this)
    }

    /// Whether it is the scrapes themselves that are asked for.
    pub fn is_raw(&self) -> bool {
        self.step_ms.is_none()
    }

    /// How much time one request covers.
    fn piece_ms(&self) -> i64 {
        match self.step_ms {
            Some(step_ms) => step_ms.saturating_mul(MAX_POINTS),
            None => PIECE_MS,
        }
    }

    fn count(&self) -> i64 {
        (self.to_ms - self.from_ms) / self.piece_ms() + 1
    }

    /// The requests in the order of their times. No point is in two of them,
    /// except that a server before 3.0 counts both ends of a range.
    pub fn requests(&self) -> impl Iterator<Item = Request> {
        let piece_ms = self.piece_ms();
        (0..self.count()).filter_map(move |i| {
            let from_ms = self.from_ms + i * piece_ms;
            match self.step_ms {
                Some(step_ms) => {
                    let last_ms = (from_ms + piece_ms - step_ms).min(self.to_ms);
                    Some(Request {
                        path: "/api/v1/query_range",
                        query: vec![
                            ("query", self.expression.clone()),
                            ("start", seconds(from_ms)),
                            ("end", seconds(last_ms)),
                            ("step", seconds(step_ms)),
                        ],
                    })
                }
                None => {
                    let to_ms = (from_ms + piece_ms).min(self.to_ms);
                    // Since 3.0 what lies at the beginning is not in a range.
                    let length_ms = to_ms - from_ms + i64::from(i == 0);
                    (length_ms > 0).then(|| Request {
                        path: "/api/v1/query",
                        query: vec![
                            ("query", format!("{}[{length_ms}ms]", self.expression)),
                            ("time", seconds(to_ms)),
                        ],
                    })
                }
            }
        })
    }

    /// Which machines there are.
    pub fn instances(&self) -> Request {
        Request {
            path: "/api/v1/label/instance/values",
            query: vec![
                ("match[]", METRIC.to_owned()),
                ("start", seconds(self.from_ms)),
                ("end", seconds(self.to_ms)),
            ],
        }
    }
}

/// The part before the query, and what it says of credentials.
fn server_of(text: &str) -> Result<(String, Option<String>), String> {
    let wrong = || "expected prometheus+http://HOST:9090/?instance=...&from=...&to=...".to_owned();
    let uri: Uri = text.parse().map_err(|_| wrong())?;
    let authority = uri.authority().ok_or_else(wrong)?;
    let scheme = uri.scheme_str().ok_or_else(wrong)?;
    let (user, host) = match authority.as_str().rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority.as_str()),
    };
    if host.is_empty() || host.starts_with(':') {
        return Err(wrong());
    }
    let authorization = user.map(|user| {
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        let mut both: Vec<u8> = percent_decode_str(name).collect();
        both.push(b':');
        both.extend(percent_decode_str(password));
        format!("Basic {}", BASE64_STANDARD.encode(both))
    });
    let path = uri.path().trim_end_matches('/');
    Ok((format!("{scheme}://{host}{path}"), authorization))
}

/// What stands behind the `?`.
#[derive(Default)]
struct Parameters {
    instance: Option<String>,
    job: Option<String>,
    query: Option<String>,
    from: Option<String>,
    to: Option<String>,
    step: Option<String>,
}

impl Parameters {
    /// Values are as they stand but for `%XX`; a `+` is one, because it
    /// belongs to times and expressions.
    fn parse(text: &str) -> Result<Self, String> {
        let mut this = Self::default();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let slot = match key {
                "instance" => &mut this.instance,
                "job" => &mut this.job,
                "query" => &mut this.query,
                "from" => &mut this.from,
                "to" => &mut this.to,
                "step" => &mut this.step,
                _ => {
                    return Err(format!(
                        "`{key}` is not known: expected instance, job, query, from, to or step \
                         (write & within a query as %26)"
                    ));
                }
            };
            let value = percent_decode_str(value)
                .decode_utf8()
                .map_err(|_| format!("{key} is not UTF-8"))?;
            if value.is_empty() {
                return Err(format!("{key} is empty"));
            }
            if slot.replace(value.into_owned()).is_some() {
                return Err(format!("{key} stands twice"));
            }
        }
        Ok(this)
    }
}

fn selector(instance: Option<&str>, job: Option<&str>) -> String {
    let labels: Vec<String> = [("instance", instance), ("job", job)]
        .into_iter()
        .filter_map(|(key, value)| {
            let value = value?.replace('\\', "\\\\").replace('"', "\\\"");
            Some(format!("{key}=\"{}\"", value.replace('\n', "\\n")))
        })
        .collect();
    if labels.is_empty() {
        METRIC.to_owned()
    } else {
        format!("{METRIC}{{{}}}", labels.join(","))
    }
}

/// Milliseconds since 1970: RFC 3339, or seconds.
fn time(text: &str) -> Result<i64, String> {
    if let Ok(seconds) = text.parse::<f64>()
        && (0.0..1e11).contains(&seconds)
    {
        return Ok((seconds * 1e3).round() as i64);
    }
    let stamp: jiff::Timestamp = text.parse().map_err(|_| {
        format!(
            "`{text}` is no time: expected one with its zone, such as 2026-11-21T01:10:52Z or \
             2026-11-21T02:10:52+01:00, or seconds since 1970"
        )
    })?;
    Ok(stamp.as_millisecond())
}

fn step(text: &str) -> Result<i64, String> {
    let step = units::positive_duration(text).map_err(|e| format!("step: {e}"))?;
    i64::try_from(step.as_millis())
        .ok()
        .filter(|ms| (1..=i64::MAX / MAX_POINTS).contains(ms))
        .ok_or_else(|| "step: must be 1ms or longer".to_owned())
}

fn seconds(ms: i64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: jiff::Timestamp = jiff::Timestamp::UNIX_EPOCH;

    fn query(text: &str) -> Query {
        Query::parse(text, NOW).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    fn request_text(request: &Request) -> String {
        let pairs: Vec<String> = request
            .query
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        format!("{}?{}", request.path, pairs.join("&"))
    }

    fn queries(text: &str) -> Vec<String> {
        query(text)
            .requests()
            .map(|request| request_text(&request))
            .collect()
    }

    #[test]
    fn a_step_asks_for_what_was_held_at_it() {
        assert_eq!(
            queries(
                "prometheus+http://h:9090/?instance=vm:9100&from=2023-10-30T14:00:00Z\
                 &to=2023-10-30T15:01:00%2B01:00&step=15s"
            ),
            [
                "/api/v1/query_range?query=node_cpu_seconds_total{instance=\"vm:9100\"}\
                 &start=1698674400.000&end=1698674460.000&step=15.000"
            ]
        );
    }

    #[test]
    fn without_a_step_the_scrapes_themselves_are_asked_for() {
        assert_eq!(
            queries(
                "prometheus+http://h/?job=a%22b&from=1698674400.5&to=2023-10-30T15:01:00+01:00"
            ),
            [
                "/api/v1/query?query=node_cpu_seconds_total{job=\"a\\\"b\"}[59501ms]\
                 &time=1698674460.000"
            ]
        );
        let own = "prometheus+http://h/?query=node_cpu{x=\"1+1\"}&from=0&to=18000";
        assert_eq!(
            queries(own),
            [
                "/api/v1/query?query=node_cpu{x=\"1+1\"}[7200001ms]&time=7200.000",
                "/api/v1/query?query=node_cpu{x=\"1+1\"}[7200000ms]&time=14400.000",
                "/api/v1/query?query=node_cpu{x=\"1+1\"}[3600000ms]&time=18000.000",
            ]
        );
        assert!(query(own).own && query(own).is_raw());
        // Nothing is asked for where nothing is left.
        let even = "prometheus+http://h/?from=0&to=14400";
        assert_eq!(queries(even).len(), 2);
    }

    #[test]
    fn no_request_is_for_more_points_than_the_server_gives_out() {
        let all = query("prometheus+https://h/?from=0&to=30000&step=1&query=rate(x[1m])");
        let parts: Vec<(f64, f64)> = all
            .requests()
            .map(|request| {
                let number = |i: usize| request.query[i].1.parse().unwrap();
                (number(1), number(2))
            })
            .collect();
        assert_eq!(
            parts,
            [(0.0, 10_999.0), (11_000.0, 21_999.0), (22_000.0, 30_000.0)]
        );
    }

    #[test]
    fn server_and_credentials() {
        let server = |text: &str| {
            let asked = query(&format!("prometheus+{text}?from=0&to=1"));
            (asked.server, asked.authorization)
        };
        let plain = |server: &str| (server.to_owned(), None);
        assert_eq!(server("http://h:9090"), plain("http://h:9090"));
        assert_eq!(server("https://h/prom/"), plain("https://h/prom"));
        assert_eq!(server("http://[::1]:9090/"), plain("http://[::1]:9090"));
        // user:p@ss in base 64.
        let basic = Some("Basic dXNlcjpwQHNz".to_owned());
        assert_eq!(server("http://user:p%40ss@h/"), ("http://h".into(), basic));
    }

    #[test]
    fn a_series_is_not_subtracted_from_a_number() {
        for wrong in [
            "1-rate(node_cpu_seconds_total{mode=\"idle\"}[1m])",
            "100 - 100 * rate(node_cpu_seconds_total{mode=\"idle\"}[1m])",
            "100 * (1 - rate(x[1m]))",
            "100 - (avg by (instance, cpu, mode) (irate(x[1m])) * 100)",
            "clamp_min(1.0 - instance:cpu:rate1m, 0)",
        ] {
            let url = format!("prometheus+http://h/?from=0&to=9&step=1&query={wrong}");
            let e = Query::parse(&url, NOW).unwrap_err();
            assert!(e.contains("subtracts from a number"), "{wrong}: {e}");
        }
        for right in [
            "rate(node_cpu_seconds_total[1m])",
            "100 * rate(x{instance=\"(1-a):9100\"}[1m] offset 1d)",
            "(100 - 1e1) * rate(x[1m])",
            "rate(x[1m]) - 0.01",
            "rate(x[1m]) - on (cpu) rate(y[1m])",
            "label_replace(1 - rate(x[1m]), \"mode\", \"user\", \"mode\", \"idle\")",
        ] {
            query(&format!(
                "prometheus+http://h/?from=0&to=9&step=1&query={right}"
            ));
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (query, said) in [
            ("h/", "from when"),
            ("h/?from=yesterday", "`yesterday` is no time"),
            ("h/?from=2026-11-21T01:10:52", "with its zone"),
            ("h/?from=5&to=5", "ends (to) before"),
            ("h/?from=5", "ends (to) before"),
            ("h/?from=0&to=9&step=0", "longer than 0"),
            ("h/?from=0&to=9&step=x", "step: expected a duration"),
            ("h/?from=0&to=9&step=1us", "1ms or longer"),
            ("h/?from=0&to=9&end=9", "`end` is not known"),
            ("h/?from=0&from=0&to=9", "from stands twice"),
            ("h/?from=0&to=9&job=", "job is empty"),
            ("h/?from=0&to=9&job=%ff", "job is not UTF-8"),
            ("h/?from=0&to=9&query=x&job=y", "write those into the query"),
            ("h/?from=0&to=1e9&step=1ms", "requests, and no more"),
            ("/?from=0&to=9", "expected prometheus+http://HOST"),
            (":9090/?from=0&to=9", "expected prometheus+http://HOST"),
        ] {
            let e = Query::parse(&format!("prometheus+http://{query}"), NOW).unwrap_err();
            assert!(e.contains(said), "{query}: {e}");
        }
    }

    #[test]
    fn the_machines_of_that_time() {
        assert_eq!(
            request_text(&query("prometheus+http://h/?from=0&to=9").instances()),
            "/api/v1/label/instance/values?match[]=node_cpu_seconds_total&start=0.000&end=9.000"
        );
    }
}
