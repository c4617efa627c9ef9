//! Starts nodes of the reference in cluster mode, if `SLUICE_PEER_SERVER` names its binary.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Number of nodes that this process has started, for the names of their folders.
static STARTED: AtomicUsize = AtomicUsize::new(0);
/// Number of ports that this process has tried. Its first port is below those that Linux gives to outgoing
/// connections.
static NEXT_PORT: AtomicU16 = AtomicU16::new(0);

/// A port of 127.0.0.1 without a listener.
pub(crate) fn free_port() -> u16 {
    let first = 21_000 + (std::process::id() % 1_000) as u16 * 11;
    loop {
        let port = first + NEXT_PORT.fetch_add(1, Relaxed) % 800;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A stock node; on drop, its process is killed and its folder is deleted.
pub(crate) struct StockNode {
    child: Child,
    pub(crate) port: u16,
    pub(crate) bus_port: u16,
    folder: PathBuf,
    stream: Option<BufReader<TcpStream>>,
}

impl Drop for StockNode {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl StockNode {
    /// Starts a node, from `file` if there is one. `None`, after a line on standard output, if there
    /// is no reference.
    pub(crate) fn start(file: Option<&[u8]>, arguments: &[&str]) -> Option<StockNode> {
        let Ok(binary) = std::env::var("SLUICE_PEER_SERVER") else {
            println!("skipped: SLUICE_PEER_SERVER names no reference");
            return None;
        };
        let number = STARTED.fetch_add(1, Relaxed);
        let folder = std::env::temp_dir().join(format!("sluice-cluster-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        if let Some(file) = file {
            std::fs::write(folder.join("nodes.conf"), file).unwrap();
        }
        let (port, bus_port) = (free_port(), free_port());
        let child = Command::new(binary)
            .args(["--port", &port.to_string(), "--cluster-port", &bus_port.to_string()])
            .args(["--cluster-enabled", "yes", "--save", "", "--bind", "127.0.0.1"])
            .args(["--logfile", "log"])
            .args(arguments)
            .current_dir(&folder)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut node = StockNode { child, port, bus_port, folder, stream: None };
        for _ in 0..1_000 {
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
                stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                node.stream = Some(BufReader::new(stream));
                return Some(node);
            }
            if node.child.try_wait().unwrap().is_some() {
                panic!("the reference ended: {}", node.log());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the reference does not answer");
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// The reply to a command: the contents of a bulk string, the elements of an array, one per line, and any
    /// other reply as it came, as in `+OK`.
    pub(crate) fn call(&mut self, words: &[&str]) -> String {
        let mut request = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| request += &format!("${}\r\n{word}\r\n", word.len()));
        let stream = self.stream.as_mut().unwrap();
        stream.get_mut().write_all(request.as_bytes()).unwrap();
        reply(stream)
    }
}

fn reply(stream: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    let line = line.trim_end();
    let count = || line[1..].parse::<i64>().unwrap();
    match line.as_bytes().first() {
        Some(b'$') if count() >= 0 => {
            let mut text = vec![0; count() as usize + 2];
            stream.read_exact(&mut text).unwrap();
            text.truncate(text.len() - 2);
            String::from_utf8_lossy(&text).into_owned()
        }
        Some(b'*') => (0..count()).map(|_| reply(stream) + "\n").collect(),
        _ => line.to_owned(),
    }
}
