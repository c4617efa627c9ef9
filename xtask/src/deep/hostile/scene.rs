//! A fresh server with a bystander and hostile clients, and the measurement of their effects.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use crate::server::Server;
use crate::wire::{Connection, Reply, encode, parse};
use crate::{Result, shell};

use super::bystander::{Bystander, PATIENCE, Pings};

/// The effects of a program on its server.
#[derive(Default)]
pub(super) struct Measured {
    pub(super) pings: Pings,
    /// Time from SCRIPT KILL or FUNCTION KILL to the end of the killed program.
    pub(super) killed: Option<Duration>,
    pub(super) memory: Memory,
    /// Faults other than exceeded bounds of time and memory.
    pub(super) wrong: Vec<String>,
}

/// Resident memory of the server, in MiB.
#[derive(Clone, Copy, Default)]
pub(super) struct Memory {
    pub(super) before_mib: u64,
    pub(super) peak_mib: u64,
    pub(super) after_mib: u64,
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        let Memory { before_mib, peak_mib, after_mib } = self.memory;
        write!(f, "PING {:.1} ms (mean {:.2})", ms(self.pings.longest), ms(self.pings.mean()))?;
        if let Some(killed) = self.killed {
            write!(f, ", KILL {:.1} ms", ms(killed))?;
        }
        write!(f, ", memory {before_mib}, {peak_mib}, {after_mib} MiB")
    }
}

/// A server for one program.
pub(super) struct Scene {
    pub(super) server: Server,
    pub(super) measured: Measured,
}

impl Scene {
    /// Starts a server with `options`, whose folder `prepare` fills; does not wait until the server
    /// answers.
    pub(super) fn begin(
        binary: &Path,
        options: &[&str],
        prepare: &dyn Fn(&Path) -> Result<()>,
    ) -> Result<Scene> {
        let options: Vec<String> = options.iter().map(|word| (*word).to_owned()).collect();
        let server = Server::begin(binary, &options, prepare)?;
        Ok(Scene { server, measured: Measured::default() })
    }

    /// Waits for a first reply of any kind, including LOADING; returns whether it was received before the
    /// server ended. Errors: neither happened within 10 s.
    pub(super) fn is_answered(&mut self) -> Result<bool> {
        let began = shell::now();
        while self.server.is_alive() {
            if self.client().and_then(|mut client| client.ask(&[b"PING"])).is_ok() {
                return Ok(true);
            }
            if began.elapsed() > Duration::from_secs(10) {
                return Err("the server did not answer within 10 s of its start".into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(false)
    }

    /// Runs `act` beside a bystander. An error of `act` is recorded in the measurement.
    pub(super) fn play(mut self, act: &dyn Fn(&mut Scene) -> Result<()>) -> Result<Scene> {
        self.measured.memory.before_mib = resident_mib(self.server.pid(), "VmRSS").unwrap_or_default();
        let bystander = Bystander::start(self.server.port)?;
        let acted = act(&mut self);
        self.note_memory();
        self.measured.pings = bystander.stop();
        if let Err(error) = acted {
            self.measured.wrong.push(error.to_string());
        }
        Ok(self)
    }

    /// Records the server's present and peak memory; records nothing once the server has ended.
    pub(super) fn note_memory(&mut self) {
        let pid = self.server.pid();
        if let (Some(peak), Some(after)) = (resident_mib(pid, "VmHWM"), resident_mib(pid, "VmRSS")) {
            (self.measured.memory.peak_mib, self.measured.memory.after_mib) = (peak, after);
        }
    }

    /// Whether the server answers PING with PONG; a server that is loading or busy, or has ended, does not.
    pub(super) fn is_served(&self) -> bool {
        let reply = self.client().and_then(|mut client| client.ask(&[b"PING"]));
        reply.is_ok_and(|reply| reply.text == b"PONG")
    }

    /// Opens another connection to the server.
    pub(super) fn client(&self) -> Result<Connection> {
        Connection::open(self.server.port)
    }

    /// The reply to a request, within [`PATIENCE`].
    pub(super) fn ask(client: &mut Connection, request: &[&[u8]]) -> Result<Reply> {
        let mut bytes = Vec::new();
        encode(request, &mut bytes);
        client.send(&bytes);
        let name = || String::from_utf8_lossy(&request.join(&b" "[..])).into_owned();
        let raw = client.next_within(PATIENCE)?.ok_or_else(|| format!("{} was not answered", name()))?;
        parse(&raw).ok_or_else(|| format!("{} was answered in no RESP", name()).into())
    }

    /// Bytes of the server's log.
    pub(super) fn log_bytes(&self) -> u64 {
        std::fs::metadata(self.server.folder().join("log")).map_or(0, |log| log.len())
    }

    /// Records a fault unless `holds`.
    pub(super) fn check(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.measured.wrong.push(what());
        }
    }

    /// Whether the server ends within `patience`; records its memory until then.
    pub(super) fn has_ended(&mut self, patience: Duration) -> bool {
        let began = shell::now();
        while self.server.is_alive() {
            self.note_memory();
            if began.elapsed() > patience {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }
}

/// Runs `act` on a fresh server with `options`, whose folder `prepare` fills, beside a bystander.
pub(super) fn play(
    binary: &Path,
    options: &[&str],
    prepare: &dyn Fn(&Path) -> Result<()>,
    act: &dyn Fn(&mut Scene) -> Result<()>,
) -> Result<Measured> {
    let mut scene = Scene::begin(binary, options, prepare)?;
    if !scene.is_answered()? {
        return Err(format!("the server did not start:\n{}", scene.server.log_tail()).into());
    }
    Ok(scene.play(act)?.measured)
}

/// A `prepare` that leaves the folder empty.
pub(super) fn nothing(_: &Path) -> Result<()> {
    Ok(())
}

/// A number of `/proc/PID/status` in MiB, which the kernel gives in kB; `None` once the process has ended.
pub(super) fn resident_mib(pid: u32, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with(name))?;
    let kib: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024)
}

/// Processor time of a process, in ticks of a hundredth of a second.
pub(super) fn processor_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().ok()).sum()
}
