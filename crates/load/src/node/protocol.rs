// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The protocol of the socket of a node, and of a load, which knows `load` only: one
//! request, one reply, each a JSON object on a line; then the server hangs up.
//!
//! ```text
//! {"version":1,"request":"status"}
//! {"version":1,"reply":"status","name":"small","pid":4711,"cpus":"0-1", ...}
//! {"version":1,"request":"set","speeds":"0.3"}
//! {"version":1,"reply":"set","speeds":"0-1=0.3"}
//! {"version":1,"request":"load","loads":"0=40"}
//! {"version":1,"reply":"load","loads":"0=40 %"}
//! {"version":1,"request":"admit","pid":4712}
//! {"version":1,"reply":"admitted","environment":{"SANDBAG_NODE":"small", ...}}
//! {"version":1,"request":"stop"}
//! {"version":1,"reply":"stopping"}
//! {"version":1,"reply":"error","message":"..."}
//! ```
//!
//! A version grows when a reader of the one before would misunderstand; a
//! field that is merely added does not change it, and unknown fields are
//! passed over.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version that is written, and the newest that is understood.
pub const VERSION: u64 = 1;

/// Longest request, bytes with its line end.
pub const LONGEST_REQUEST: usize = 4096;
/// Longest reply, bytes with its line end: a status with a hundred thousand
/// members.
pub const LONGEST_REPLY: usize = 1 << 20;

/// What a node is asked or told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub enum Request {
    Status,
    /// Other speeds from now on, written as [`Speeds`](crate::node::Speeds) are.
    Set {
        speeds: String,
    },
    /// Of a load: other loads from now on, written as on the command line of `load`.
    Load {
        loads: String,
    },
    /// A process that waits at its gate is to be moved into the node; it
    /// becomes its command once that is answered. The node checks that it is
    /// the asking user's own.
    Admit {
        pid: u32,
    },
    Stop,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Reply {
    Status(Status),
    /// To [`Request::Set`]: the speeds that are asked now, as ratios.
    Set {
        speeds: String,
    },
    /// To [`Request::Load`]: what is asked now.
    Load {
        loads: String,
    },
    Admitted {
        /// Variables to set before the process becomes its command.
        environment: BTreeMap<String, String>,
    },
    Stopping,
    /// To any request: why it was not done, and what to do.
    Error {
        message: String,
    },
}

/// A running node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub name: String,
    /// Its supervisor.
    pub pid: u32,
    pub cpus: String,
    pub speeds: Vec<CpuSpeed>,
    pub method: String,
    pub members: Vec<u32>,
}

/// One CPU of a node.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CpuSpeed {
    pub cpu: u32,
    /// Its share of the full speed as asked now, above 0 and at most 1.
    pub asked: f64,
    /// As measured over the last window; `None` before the first.
    pub got: Option<f64>,
}

#[derive(Serialize)]
struct LineBuffer<'a, T> {
    version: u64,
    #[serde(flatten)]
    said: &'a T,
}

pub fn line<T: Serialize>(said: &T) -> Vec<u8> {
    let version = VERSION;
    // Maps with text keys and numbers always have a JSON form.
    let mut line = serde_json::to_vec(&LineBuffer { version, said }).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Why a line is no request or no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotUnderstood {
    #[error(
        "expected one JSON object per line, such as {{\"version\":1,\"request\":\"status\"}}: {0}"
    )]
    Json(String),
    #[error(
        "version {found} is not understood; this sandbag speaks version {VERSION}: use the same sandbag on both sides"
    )]
    Version { found: String },
    #[error("unknown request {0}; known are status, set, load, admit and stop")]
    Request(String),
}

pub fn request(line: &[u8]) -> Result<Request, NotUnderstood> {
    let value = object(line)?;
    let known = ["status", "set", "load", "admit", "stop"];
    match value.get("request") {
        Some(Value::String(name)) if known.contains(&name.as_str()) => {
            serde_json::from_value(value).map_err(|e| NotUnderstood::Json(e.to_string()))
        }
        Some(other) => Err(NotUnderstood::Request(value_text(other))),
        None => Err(NotUnderstood::Json("there is no `request`".to_owned())),
    }
}

pub fn reply(line: &[u8]) -> Result<Reply, NotUnderstood> {
    serde_json::from_value(object(line)?).map_err(|e| NotUnderstood::Json(e.to_string()))
}

fn object(line: &[u8]) -> Result<Value, NotUnderstood> {
    let value: Value =
        serde_json::from_slice(line).map_err(|e| NotUnderstood::Json(e.to_string()))?;
    match value.get("version") {
        Some(version) if version.as_u64() == Some(VERSION) => Ok(value),
        None if !value.is_object() => Err(NotUnderstood::Json("it is no object".to_owned())),
        None => Err(NotUnderstood::Version {
            found: "none".to_owned(),
        }),
        Some(other) => Err(NotUnderstood::Version {
            found: value_text(other),
        }),
    }
}

/// A foreign value in a message: short and printable.
fn value_text(value: &Value) -> String {
    let text = value.to_string();
    let mut shown: String = text.escape_debug().take(60).collect();
    if text.len() > 60 {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refusal(line: &str) -> String {
        request(line.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn requests_have_the_documented_form() {
        for (said, text) in [
            (Request::Status, r#"{"version":1,"request":"status"}"#),
            (
                Request::Set {
                    speeds: "0.3".into(),
                },
                r#"{"version":1,"request":"set","speeds":"0.3"}"#,
            ),
            (
                Request::Admit { pid: 7 },
                r#"{"version":1,"request":"admit","pid":7}"#,
            ),
            (
                Request::Load {
                    loads: "0=40".into(),
                },
                r#"{"version":1,"request":"load","loads":"0=40"}"#,
            ),
            (Request::Stop, r#"{"version":1,"request":"stop"}"#),
        ] {
            assert_eq!(line(&said), format!("{text}\n").as_bytes());
            assert_eq!(request(text.as_bytes()), Ok(said));
        }
        let later = r#"{"version":1,"request":"stop","gently":true}"#;
        assert_eq!(request(later.as_bytes()), Ok(Request::Stop));
    }

    #[test]
    fn replies_are_read_as_they_are_written() {
        let status = Status {
            name: "small".into(),
            pid: 4711,
            cpus: "0-1".into(),
            speeds: vec![CpuSpeed {
                cpu: 0,
                asked: 0.5,
                got: None,
            }],
            method: "hogs".into(),
            members: vec![1, 2],
        };
        for said in [
            Reply::Status(status),
            Reply::Set {
                speeds: "0=1".into(),
            },
            Reply::Admitted {
                environment: BTreeMap::from([("A".to_owned(), "b\n".to_owned())]),
            },
            Reply::Stopping,
            Reply::Error {
                message: "no".into(),
            },
        ] {
            let text = line(&said);
            assert_eq!(text.iter().filter(|b| **b == b'\n').count(), 1);
            assert_eq!(reply(&text), Ok(said));
        }
    }

    #[test]
    fn what_is_not_understood_is_said() {
        for (line, part) in [
            ("", "one JSON object per line"),
            ("{", "one JSON object per line"),
            ("[1]", "no object"),
            ("7", "no object"),
            (r#"{"request":"status"}"#, "version none"),
            (
                r#"{"version":2,"request":"status"}"#,
                "version 2 is not understood",
            ),
            (
                r#"{"version":"1","request":"status"}"#,
                "version \\\"1\\\" is not",
            ),
            (r#"{"version":1}"#, "no `request`"),
            (r#"{"version":1,"request":"reboot"}"#, "unknown request"),
            (r#"{"version":1,"request":5}"#, "unknown request 5"),
            (r#"{"version":1,"request":"set"}"#, "missing field `speeds`"),
            (r#"{"version":1,"request":"admit","pid":-1}"#, "u32"),
        ] {
            let error = refusal(line);
            assert!(error.contains(part), "{line}\n{error}");
        }
        let long = format!(r#"{{"version":1,"request":"{}"}}"#, "x".repeat(3000));
        assert!(refusal(&long).len() < 200);
        let deep = format!(r#"{{"version":1,"request":{}}}"#, "[".repeat(3000));
        assert!(refusal(&deep).contains("recursion"));
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_refused(text in "\\PC{0,60}|[\\[\\]{}\":,a-z0-9]{0,60}") {
            let _ = request(text.as_bytes());
            let _ = reply(text.as_bytes());
        }
    }
}
