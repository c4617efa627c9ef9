//! A server process for a task, on a free port and in a folder of its own. The process is ended on drop.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::error::Result;
use crate::shell;
use crate::wire::Connection;

/// A running server process, which is ended when the value is dropped.
pub(crate) struct Server {
    /// Words of a program that executes the server, such as `taskset -c 0`; usually none.
    launcher: Vec<String>,
    binary: PathBuf,
    extra: Vec<String>,
    folder: PathBuf,
    child: Child,
    /// The TCP port on which the server listens.
    pub(crate) port: u16,
}

impl Server {
    /// Starts `binary` with `extra` options and waits until it answers.
    pub(crate) fn start(binary: &Path, extra: &[String]) -> Result<Server> {
        Server::start_by(&[], binary, extra)
    }

    /// Starts a server through a launcher, which executes the server in its own process, so that the process
    /// id stays the same.
    pub(crate) fn start_by(launcher: &[String], binary: &Path, extra: &[String]) -> Result<Server> {
        Server::start_in(launcher, binary, extra, &|_| Ok(()))
    }

    /// Starts `binary` with `extra` options in a folder that `prepare` fills, and waits until it answers.
    pub(crate) fn start_prepared(
        binary: &Path,
        extra: &[String],
        prepare: &dyn Fn(&Path) -> Result<()>,
    ) -> Result<Server> {
        Server::start_in(&[], binary, extra, prepare)
    }

    /// Starts another server with the same program and options, after `prepare` has filled its folder.
    pub(crate) fn another(&self, prepare: &dyn Fn(&Path) -> Result<()>) -> Result<Server> {
        Server::start_in(&self.launcher, &self.binary, &self.extra, prepare)
    }

    fn start_in(
        launcher: &[String],
        binary: &Path,
        extra: &[String],
        prepare: &dyn Fn(&Path) -> Result<()>,
    ) -> Result<Server> {
        let mut server = Server::begin_by(launcher, binary, extra, prepare)?;
        server.wait_until_ready()?;
        Ok(server)
    }

    /// Starts `binary` with `extra` options, after `prepare` has filled its folder; does not
    /// wait for an answer.
    pub(crate) fn begin(
        binary: &Path,
        extra: &[String],
        prepare: &dyn Fn(&Path) -> Result<()>,
    ) -> Result<Server> {
        Server::begin_by(&[], binary, extra, prepare)
    }

    fn begin_by(
        launcher: &[String],
        binary: &Path,
        extra: &[String],
        prepare: &dyn Fn(&Path) -> Result<()>,
    ) -> Result<Server> {
        let port = free_port()?;
        let folder = std::env::temp_dir().join(format!("sluice-xtask-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        prepare(&folder)?;
        File::create(folder.join("log"))?;
        let child = spawn(launcher, binary, extra, &folder, port)?;
        let launcher = launcher.to_vec();
        let (binary, extra) = (binary.to_path_buf(), extra.to_vec());
        Ok(Server { launcher, binary, extra, folder, child, port })
    }

    /// Starts a program with the options, port and folder of this server, whose process has ended; does
    /// not wait for an answer.
    pub(crate) fn begin_again(&mut self, binary: &Path) -> Result<()> {
        self.binary = binary.to_path_buf();
        self.child = spawn(&self.launcher, binary, &self.extra, &self.folder, self.port)?;
        Ok(())
    }

    /// Sends a signal, such as `-TERM`.
    pub(crate) fn signal(&self, signal: &str) -> Result<()> {
        shell::run(Command::new("kill").args([signal, &self.pid().to_string()]))
    }

    /// Waits for the end of the process; an error if this takes longer than `patience`.
    pub(crate) fn wait_for_end(&mut self, patience: Duration) -> Result<()> {
        let began = shell::now();
        while self.is_alive() {
            if began.elapsed() > patience {
                return Err(format!("{} does not end:\n{}", self.binary.display(), self.log_tail()).into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Waits at most ten seconds for the first PONG. Errors: no PONG has arrived, or the process has ended.
    fn wait_until_ready(&mut self) -> Result<()> {
        let began = shell::now();
        while began.elapsed() < Duration::from_secs(10) {
            let answer = Connection::open(self.port).and_then(|mut connection| connection.ask(&[b"PING"]));
            if answer.is_ok_and(|reply| reply.text == b"PONG") {
                return Ok(());
            }
            if !self.is_alive() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(format!("{} did not start:\n{}", self.binary.display(), self.log_tail()).into())
    }

    /// Whether the process still runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The server's working directory.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The id of the process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Starts a server with the same options, but with another port and an empty folder, and ends this one.
    pub(crate) fn restart(&mut self) -> Result<()> {
        *self = Server::start_by(&self.launcher.clone(), &self.binary.clone(), &self.extra.clone())?;
        Ok(())
    }

    /// The last lines of the server's log.
    pub(crate) fn log_tail(&self) -> String {
        let text = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(25)..].join("\n")
    }
}

/// Starts a process that appends to the log in the folder.
fn spawn(launcher: &[String], binary: &Path, extra: &[String], folder: &Path, port: u16) -> Result<Child> {
    let log = File::options().append(true).open(folder.join("log"))?;
    let mut command = match launcher.split_first() {
        Some((program, words)) => {
            let mut command = Command::new(program);
            command.args(words).arg(binary);
            command
        }
        None => Command::new(binary),
    };
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
    command.arg("--dir").arg(folder);
    // The variable makes a server of ours with debug assertions sum the parts of its memory.
    command.env("SLUICE_TEST_PARTS", "1");
    command.args(extra).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.spawn().map_err(|error| format!("{}: {error}", binary.display()).into())
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
        let _left = std::fs::remove_dir_all(&self.folder);
    }
}

/// Ports for servers, below the range from which the system assigns ports to connections. A port of that
/// range may be taken when a server is restarted, and a client that connects to such a port while no server
/// listens there may be connected to itself.
const PORTS: std::ops::Range<u32> = 12_000..32_000;

/// A port on which no process listens at present.
pub(crate) fn free_port() -> Result<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // The first port depends on the process id, so that concurrent runs begin with different ports.
    let first = std::process::id().wrapping_mul(97);
    for _ in PORTS {
        // Relaxed ordering suffices, because only the uniqueness of the number matters.
        let at = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % (PORTS.end - PORTS.start);
        let port = u16::try_from(PORTS.start + at)?;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    Err("no port is free".into())
}
