// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Addresses of servers on a command line, shown without what is secret in
//! them.

/// What distinguishes such a name from that of a file.
pub const SCHEMES: [&str; 2] = ["prometheus+http://", "prometheus+https://"];
/// The names of parameters.
pub const KNOWN: [&str; 6] = ["instance", "job", "query", "from", "to", "step"];

/// A word of a command line as it may be shown: a URL, also one that is the value in
/// `--OPTION=URL`, without its user and password. Where it is not clear what belongs to
/// those, only its scheme. Other words that begin nearly like such a URL hide what stands
/// before their last @.
pub fn public(word: &str) -> String {
    let (option, url) = match word.find('=') {
        Some(at) if word.starts_with("--") => word.split_at(at + 1),
        _ => ("", word),
    };
    let Some((name, after)) = url.split_once(':') else {
        return word.to_owned();
    };
    let rest = after.trim_start_matches('/');
    let scheme = &url[..url.len() - rest.len()];
    let shown = if SCHEMES.contains(&scheme) {
        without_user(rest)
    } else if is_nearly_a_scheme(name) {
        rest.rsplit('@').next()
    } else {
        return word.to_owned();
    };
    format!("{option}{scheme}{}", shown.unwrap_or("..."))
}

fn is_nearly_a_scheme(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["prom", "http"].iter().any(|start| name.starts_with(start))
}

/// What follows the scheme, from the host on. `None` where a password may
/// reach beyond a `?`, or stand in the place of a port.
pub fn without_user(rest: &str) -> Option<&str> {
    let (server, query) = rest.split_once('?').unwrap_or((rest, ""));
    let host = server.rfind('@').map_or(0, |at| at + 1);
    let authority = server[host..].split('/').next().unwrap_or_default();
    let is_whole = authority.len() < server.len() - host || !query.contains('@');
    (is_host(authority) && is_whole && at_is_in_place(query)).then(|| &rest[host..])
}

/// `HOST`, `HOST:PORT` or `[ADDRESS]:PORT`.
fn is_host(text: &str) -> bool {
    let (host, port) = match text.rfind(']') {
        Some(end) if text.starts_with('[') => text.split_at(end + 1),
        _ => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let number = port.strip_prefix(':').unwrap_or(port);
    !host.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// An @ may stand in an expression or a name, but not before them.
fn at_is_in_place(query: &str) -> bool {
    let mut known = true;
    query.split('&').all(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        known &= KNOWN.contains(&key);
        let named = known && matches!(key, "instance" | "job" | "query");
        !key.contains('@') && (named || !value.contains('@'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_not_shown() {
        for (word, shown) in [
            (
                "prometheus+http://u:p@h:9090/?from=0&query=b@c",
                "prometheus+http://h:9090/?from=0&query=b@c",
            ),
            ("prometheus+http://u:p/@w@h/?a", "prometheus+http://h/?a"),
            (
                "prometheus+http://h/?query=x@1",
                "prometheus+http://h/?query=x@1",
            ),
            (
                "prometheus+http://u:p@[::1]:9090/?instance=a@b",
                "prometheus+http://[::1]:9090/?instance=a@b",
            ),
            ("u:p@h", "u:p@h"),
            (
                "--add=prometheus+http://u:p@h/?instance=a",
                "--add=prometheus+http://h/?instance=a",
            ),
            (
                "--append=prometheus+https://u:p@h:pw/",
                "--append=prometheus+https://...",
            ),
            ("--cpus=0=u:p@h", "--cpus=0=u:p@h"),
            ("prometheus+http://u:p/w@h/", "prometheus+http://h/"),
            ("prometheus+http://u:1#w@h", "prometheus+http://h"),
            ("prometheus+http://u:1?query=w@h/", "prometheus+http://..."),
            ("prometheus+HTTP://u:p@h/", "prometheus+HTTP://h/"),
            ("prometheus+http:/u:p@h/", "prometheus+http:/h/"),
            ("--add=https://u:p/w@h/?x", "--add=https://h/?x"),
            ("prometheus:u?p@h", "prometheus:h"),
            ("http://h/x", "http://h/x"),
        ] {
            assert_eq!(public(word), shown);
        }
    }
}
