// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The smallest server that Prometheus can scrape: one path, one answer, then it hangs up.

use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::text::Form;

/// How long a client may take for its whole request, and for the whole of our answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Clients at a time; for one more the oldest that has asked nothing yet is hung up on.
const MOST_CLIENTS: usize = 16;
/// Longest request that is read, bytes.
const LONGEST: u64 = 8192;

/// Until a connection is accepted again after one that could not be.
const AGAIN: Duration = Duration::from_millis(100);

/// What is served, replaced as often as it changes.
pub type Page = Arc<Mutex<String>>;

/// One that is connected.
struct Client {
    stream: TcpStream,
    /// Its whole request came.
    has_asked: AtomicBool,
}

/// Those that are connected, the oldest first.
#[derive(Clone, Default)]
struct Clients(Arc<Mutex<Vec<Arc<Client>>>>);

impl Clients {
    fn all(&self) -> MutexGuard<'_, Vec<Arc<Client>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes another one; `None` if all are being answered.
    fn admit(&self, stream: TcpStream) -> Option<Arc<Client>> {
        let mut all = self.all();
        if all.len() >= MOST_CLIENTS {
            let is_idle = |client: &Arc<Client>| !client.has_asked.load(Ordering::Acquire);
            let oldest = all.iter().position(is_idle)?;
            let idle = all.remove(oldest);
            // Its thread reads the end.
            let _ = idle.stream.shutdown(Shutdown::Both);
        }
        let client = Arc::new(Client {
            stream,
            has_asked: AtomicBool::new(false),
        });
        all.push(client.clone());
        Some(client)
    }

    fn remove(&self, client: &Arc<Client>) {
        self.all().retain(|other| !Arc::ptr_eq(other, client));
    }
}

/// Answers scrapes in threads of its own, for as long as this process lives.
pub fn serve(listener: TcpListener, page: Page) -> io::Result<()> {
    let clients = Clients::default();
    std::thread::Builder::new()
        .name("scrapes".to_owned())
        .spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else {
                    // Where no descriptor is free the next one fails as well, at once.
                    std::thread::sleep(AGAIN);
                    continue;
                };
                let Some(client) = clients.admit(stream) else {
                    continue;
                };
                let (page, all, served) = (page.clone(), clients.clone(), client.clone());
                let one = move || {
                    // A client that hangs or is gone is its own concern.
                    let _ = answer(&served, &page);
                    all.remove(&served);
                };
                if std::thread::Builder::new().spawn(one).is_err() {
                    clients.remove(&client);
                }
            }
        })?;
    Ok(())
}

/// A client that has time until a moment, however many reads or writes that are: one that
/// sends byte by byte would keep its place for hours.
struct TimedClient<'a> {
    client: &'a TcpStream,
    until: Instant,
}

impl<'a> TimedClient<'a> {
    fn new(client: &'a TcpStream) -> Self {
        let until = Instant::now() + PATIENCE;
        Self { client, until }
    }

    fn left(&self) -> io::Result<Duration> {
        match self.until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(left),
        }
    }
}

impl io::Read for TimedClient<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.client.set_read_timeout(Some(self.left()?))?;
        let mut client = self.client;
        client.read(buffer)
    }
}

impl io::Write for TimedClient<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.client.set_write_timeout(Some(self.left()?))?;
        let mut client = self.client;
        client.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut client = self.client;
        client.flush()
    }
}

fn answer(client: &Client, page: &Page) -> io::Result<()> {
    let stream = &client.stream;
    let mut head = Vec::new();
    let mut bytes = BufReader::new(TimedClient::new(stream))
        .take(LONGEST)
        .bytes();
    while !head.ends_with(b"\r\n\r\n") {
        match bytes.next() {
            Some(byte) => head.push(byte?),
            None => return Ok(()),
        }
    }
    client.has_asked.store(true, Ordering::Release);
    let (status, body) = match request(&head) {
        Ok(()) => (
            "200 OK",
            page.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        ),
        Err(status) => (status, format!("{status}: GET /metrics\n")),
    };
    let kind = match status {
        "200 OK" => Form::OpenMetrics.media_type(),
        _ => "text/plain; charset=utf-8",
    };
    let length = body.len();
    write!(
        TimedClient::new(stream),
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
}

/// Whether the metrics are asked for, else why not.
fn request(head: &[u8]) -> Result<(), &'static str> {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    match words[..] {
        [b"GET", path, version] if version.starts_with(b"HTTP/1.") => {
            match path.split(|byte| *byte == b'?').next() {
                Some(b"/metrics") => Ok(()),
                _ => Err("404 Not Found"),
            }
        }
        [_, _, version] if version.starts_with(b"HTTP/1.") => Err("405 Method Not Allowed"),
        _ => Err("400 Bad Request"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(server: std::net::SocketAddr, request: &str) -> String {
        let mut client = TcpStream::connect(server).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_client_that_sends_byte_by_byte_has_no_more_time_than_others() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut slow = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (client, _) = listener.accept().unwrap();
        let mut timed = TimedClient::new(&client);
        let mut byte = [0];
        slow.write_all(b"GE").unwrap();
        assert_eq!(timed.read(&mut byte).unwrap(), 1);
        timed.until = Instant::now();
        let over = timed.read(&mut byte).unwrap_err();
        assert_eq!(over.kind(), io::ErrorKind::TimedOut);
        let over = timed.write(b"HTTP").unwrap_err();
        assert_eq!(over.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn idle_clients_keep_no_scrape_waiting() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let page = Page::default();
        "a 1\n".clone_into(&mut page.lock().unwrap());
        serve(listener, page).unwrap();
        let connect = |_| TcpStream::connect(server).unwrap();
        let mut idle: Vec<TcpStream> = (0..2 * MOST_CLIENTS).map(connect).collect();
        let begin = Instant::now();
        let said = ask(server, "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(said.ends_with("\r\n\r\na 1\n"), "{said}");
        assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
        // The oldest was hung up on, and the youngest has its time.
        assert_eq!(idle[0].read(&mut [0]).unwrap(), 0);
        let youngest = idle.last_mut().unwrap();
        let request = b"GET /metrics HTTP/1.1\r\n\r\n";
        youngest.write_all(request).unwrap();
        let mut said = String::new();
        youngest.read_to_string(&mut said).unwrap();
        assert!(said.ends_with("a 1\n"), "{said}");
    }

    #[test]
    fn a_scrape_gets_the_newest_page_and_others_are_told_what_to_ask() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let page = Page::default();
        serve(listener, page.clone()).unwrap();
        // One that hangs keeps no other one waiting.
        let hangs = TcpStream::connect(server).unwrap();
        for text in ["a 1\n", "a 2\n"] {
            *page.lock().unwrap() = text.to_owned();
            let said = ask(server, "GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n");
            assert!(said.starts_with("HTTP/1.1 200 OK\r\n"), "{said}");
            assert!(said.ends_with(&format!("\r\n\r\n{text}")), "{said}");
        }
        for (asked, status) in [
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("\x16\x03\x01 nonsense\r\n\r\n", "400"),
        ] {
            let said = ask(server, asked);
            assert!(said.starts_with(&format!("HTTP/1.1 {status} ")), "{said}");
        }
        drop(hangs);
    }
}
