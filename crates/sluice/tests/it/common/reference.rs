//! A reference server, if the environment names one.

use super::{Client, Dir, free_port, until};
use std::process::{Child, Command};

/// A running server of the reference, killed on drop.
pub struct Reference {
    child: Child,
    pub port: u16,
    pub dir: Dir,
}

impl Reference {
    /// Starts the reference's server; returns `None` if the environment names no reference.
    pub fn start(arguments: &[&str]) -> Option<Reference> {
        let Ok(binary) = std::env::var("SLUICE_PEER_SERVER") else {
            println!("skipped: SLUICE_PEER_SERVER names no reference");
            return None;
        };
        let (dir, port) = (Dir::new(), free_port());
        let child = Command::new(binary)
            .args(["--port", &port.to_string(), "--dir", &dir.join(""), "--save", ""])
            .args(["--enable-debug-command", "yes", "--logfile", "reference.log"])
            .args(arguments)
            .spawn()
            .unwrap();
        until("the reference", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
        Some(Reference { child, port, dir })
    }

    pub fn client(&self) -> Client {
        Client::to("127.0.0.1", self.port)
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("reference.log")).unwrap_or_default()
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            println!("{}", self.log());
        }
    }
}
