//! The reference server, started for a test.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

/// A server of the reference, with a connection. The server is ended when the value is dropped.
pub(crate) struct Peer {
    server: Child,
    folder: PathBuf,
    stream: BufReader<UnixStream>,
}

/// Name of the reference's log file, which is in `folder`.
const LOG: &str = "log";
/// Number of lines that are shown from the log of a reference that has ended.
const LOG_SHOWN: usize = 60;

/// Longest wait for a reply.
const REPLY: Duration = Duration::from_secs(20);

impl Peer {
    /// Starts the reference. `None`, with a message, if its binary is not configured.
    pub(crate) fn start() -> Option<Peer> {
        let Ok(binary) = std::env::var("SLUICE_PEER_SERVER") else {
            println!("skipped: SLUICE_PEER_SERVER names no reference");
            return None;
        };
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("sluice-lua-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the reference");
        let socket = folder.join("socket");
        let server = Command::new(binary)
            .args(["--port", "0", "--save", "", "--busy-reply-threshold", "60000", "--unixsocket"])
            .arg(&socket)
            .arg("--dir")
            .arg(&folder)
            .stdout(std::fs::File::create(folder.join(LOG)).expect("a log for the reference"))
            .spawn()
            .expect("the reference starts");
        let connect = || UnixStream::connect(&socket).ok();
        let stream = (0..400).find_map(|_| connect().or_else(pause)).expect("the reference listens");
        stream.set_read_timeout(Some(REPLY)).expect("a timeout");
        stream.set_write_timeout(Some(REPLY)).expect("a timeout");
        Some(Peer { server, folder, stream: BufReader::new(stream) })
    }

    pub(crate) fn eval(&mut self, source: &[u8]) -> Vec<u8> {
        let reply = self.send(source).and_then(|()| self.reply_in_time());
        reply.unwrap_or_else(|error| panic!("{}: {error}{}", source.escape_ascii(), self.ending()))
    }

    pub(crate) fn send(&mut self, source: &[u8]) -> std::io::Result<()> {
        let mut request = format!("*3\r\n$4\r\nEVAL\r\n${}\r\n", source.len()).into_bytes();
        request.extend_from_slice(source);
        request.extend_from_slice(b"\r\n$1\r\n0\r\n");
        self.stream.get_mut().write_all(&request)
    }

    /// The exit status of the reference and the last lines of its log; empty if it is still running. Waits
    /// up to two seconds, because a crash report takes time.
    pub(crate) fn ending(&mut self) -> String {
        let ended = (0..400).find_map(|_| self.server.try_wait().ok().flatten().or_else(pause));
        let Some(status) = ended else { return String::new() };
        let log = std::fs::read_to_string(self.folder.join(LOG)).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let shown = lines[lines.len().saturating_sub(LOG_SHOWN)..].join("\n");
        format!("\nthe reference has ended: {status}\n{shown}")
    }

    /// Reads a reply: the text of a bulk string, `nil:0` for a null one, and the first line of any other
    /// reply. Errors: the reference does not answer in time, or has closed the connection.
    pub(crate) fn reply_in_time(&mut self) -> std::io::Result<Vec<u8>> {
        let mut line = Vec::new();
        if self.stream.read_until(b'\n', &mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        line.truncate(line.len().saturating_sub(2));
        match line.first() {
            Some(b'$') if line != b"$-1" => {
                let len: usize =
                    std::str::from_utf8(&line[1..]).ok().and_then(|len| len.parse().ok()).expect("a length");
                let mut text = vec![0; len + 2];
                self.stream.read_exact(&mut text)?;
                text.truncate(len);
                Ok(text)
            }
            Some(b'$') => Ok(b"nil:0".to_vec()),
            _ => Ok(line),
        }
    }
}

/// Waits 5 ms, and returns `None` so that the caller tries again.
fn pause<T>() -> Option<T> {
    std::thread::sleep(Duration::from_millis(5));
    None
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
