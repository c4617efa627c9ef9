//! Listening sockets, the addresses of accepted connections, and the refusal of connections.

pub mod listeners;

use crate::metrics::http::CONNECTIONS_MAX;
use crate::net::{Endpoint, Stream, options};
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sluice_config::choice::EventLoop;
use sluice_config::{Config, ParamId, Subnets, param};
use sluice_numbers::stats::RejectedConnection;
use sluice_storage::{can_create, plain_error};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A listening socket, shared by the event loop and [`Listening`].
#[derive(Clone, Debug)]
pub struct Listener {
    /// The socket, which is nonblocking and listens.
    pub socket: Arc<OwnedFd>,
    /// The address of the socket.
    pub kind: ListenerKind,
}

/// The address of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenerKind {
    /// An address and port.
    Tcp {
        /// The address as written in the configuration.
        word: String,
        /// The TCP port on which the socket listens.
        port: u16,
        /// The protocol on the connections.
        speech: Speech,
    },
    /// The path, as written in the configuration.
    Unix(String),
}

/// The protocol on the connections of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speech {
    /// The clients' protocol without TLS, or HTTP of the metrics endpoint with or without TLS.
    Plain,
    /// The clients' protocol over TLS.
    Tls,
    /// The messages of cluster nodes. When a connection is accepted, `tls-cluster` decides whether it uses
    /// TLS.
    Bus,
}

impl Speech {
    /// The protocol's name in error texts.
    fn name(self) -> &'static str {
        match self {
            Speech::Plain => "tcp",
            Speech::Tls => "tls",
            Speech::Bus => "cluster",
        }
    }
}

/// A socket that could not be opened.
#[derive(Debug, PartialEq, Eq)]
pub struct ListenError {
    text: String,
    /// The port and protocol of a TCP socket; empty for a unix socket.
    port: String,
}

impl ListenError {
    /// The port, with the protocol in parentheses: `6379 (tcp)`; empty for a unix socket.
    pub fn port(&self) -> &str {
        &self.port
    }
}

impl std::fmt::Display for ListenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// The listening sockets of clients, of the metrics endpoint or of the cluster bus. A change of the address
/// or port keeps the sockets that both the old and the new setting name, so that no connection attempt on
/// them is lost. A failed change leaves all sockets as they were.
#[derive(Debug)]
pub struct Listening {
    /// Returns the TCP sockets for which a configuration asks.
    wanted: fn(&Config) -> Vec<TcpBind>,
    active: Vec<Listener>,
    /// Sockets that are no longer used, but which the event loop may still have. If the change is rolled
    /// back, they are used again.
    retired: Vec<Listener>,
    changed: bool,
    /// Path of the unix socket's file. It is absolute, because the working directory may change before
    /// the file is removed.
    unix_file: Option<PathBuf>,
    /// Device and inode of the unix socket's file, so that another file of the same name is not removed.
    unix_number: Option<(u64, u64)>,
    /// Number of remaining attempts to listen on ports that are in use, for all ports together.
    attempts: u32,
}

/// Number of further attempts that a start with io_uring makes to listen on ports that are in use, for all
/// ports together. After a crash, io_uring keeps a socket until the kernel has freed the ring, 5 to 13 ms
/// after the end of the process.
const ATTEMPTS_AT_START: u32 = 40;
/// Time between two attempts to listen on a port that is in use.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(5);

impl Default for Listening {
    fn default() -> Listening {
        Listening {
            wanted: wanted_tcp,
            active: Vec::new(),
            retired: Vec::new(),
            changed: false,
            unix_file: None,
            unix_number: None,
            attempts: 0,
        }
    }
}

impl Listening {
    /// The listening sockets of the metrics endpoint, none open.
    pub fn of_metrics() -> Listening {
        Listening { wanted: wanted_metrics, ..Listening::default() }
    }

    /// The listening sockets of the cluster bus, none open.
    pub fn of_bus() -> Listening {
        Listening { wanted: wanted_bus, ..Listening::default() }
    }

    /// Calls [`Listening::listen_tcp`] at the start. If io_uring is configured, ports in use are tried
    /// again, because a crashed server may hold its ports for some milliseconds.
    pub fn listen_tcp_at_start(
        &mut self,
        config: &Config,
        warn: &mut dyn FnMut(String),
    ) -> Result<(), ListenError> {
        let is_ring = config.choice::<EventLoop>(param::EVENT_LOOP) == EventLoop::IoUring;
        self.attempts = if is_ring { ATTEMPTS_AT_START } else { 0 };
        let listened = self.listen_tcp(config, warn);
        self.attempts = 0;
        listened
    }

    /// The sockets in use.
    pub fn active(&self) -> &[Listener] {
        &self.active
    }

    /// The sockets in use, if they have changed since the last call. The event loop must close all other
    /// sockets. Retired sockets are dropped.
    pub fn take_change(&mut self) -> Option<Vec<Listener>> {
        self.retired.clear();
        std::mem::take(&mut self.changed).then(|| self.active.clone())
    }

    /// Opens those TCP listeners of the configuration that are not open yet, and retires open listeners that
    /// are not in the configuration; a port of 0 has no listeners. It is no error if an address with the
    /// prefix `-` is unavailable, or if the machine lacks an address family. `warn` is called for each
    /// listener that cannot be opened.
    pub fn listen_tcp(&mut self, config: &Config, warn: &mut dyn FnMut(String)) -> Result<(), ListenError> {
        let backlog = config.int(param::TCP_BACKLOG) as i32;
        let wanted = (self.wanted)(config);
        let held: Vec<&Listener> = self.active.iter().chain(&self.retired).collect();
        let kept: Vec<Option<&Listener>> =
            wanted.iter().map(|wanted| held.iter().find(|l| l.is_tcp(wanted)).copied()).collect();
        let mut next = Vec::new();
        for (bind, kept_one) in wanted.iter().zip(&kept) {
            let TcpBind { word, port, .. } = bind;
            let in_the_way = |l: &&&Listener| {
                matches!(l.kind, ListenerKind::Tcp { port: p, .. } if p == *port)
                    && !kept.iter().flatten().any(|k| k.same(l))
            };
            let open = || match kept_one {
                Some(listener) => relisten(listener, backlog).map(|()| (*listener).clone()),
                None => open_tcp(bind, config),
            };
            let mut opened = open().or_else(|error| {
                // Other sockets of this process may be the reason, because no socket can listen on an
                // address while another one listens on `*`, and vice versa.
                let ours: Vec<_> = held.iter().filter(in_the_way).collect();
                if !is_in_use(&error) || ours.is_empty() {
                    return Err(error);
                }
                ours.iter().for_each(|l| unlisten(l));
                open()
            });
            while self.attempts > 0 && opened.as_ref().is_err_and(is_in_use) {
                self.attempts -= 1;
                std::thread::sleep(BETWEEN_ATTEMPTS);
                opened = open();
            }
            match opened {
                Ok(listener) => next.push(listener),
                Err(error) => {
                    let (name, reason) = (word.trim_start_matches('-'), plain_error(&error));
                    let text =
                        format!("Could not create server TCP listening socket {name}:{port}: bind: {reason}");
                    warn(format!("Warning: {text}"));
                    if !is_tolerable(&error, word) {
                        drop(next);
                        self.active.iter().for_each(|l| drop(relisten(l, backlog)));
                        return Err(ListenError { text, port: format!("{port} ({})", bind.speech.name()) });
                    }
                }
            }
        }
        self.replace_tcp(next);
        Ok(())
    }

    fn replace_tcp(&mut self, next: Vec<Listener>) {
        let (unix, old): (Vec<_>, Vec<_>) = std::mem::take(&mut self.active)
            .into_iter()
            .partition(|l| matches!(l.kind, ListenerKind::Unix(_)));
        self.retired.extend(old);
        self.retired.retain(|l| !next.iter().any(|n| n.same(l)));
        self.active = next;
        self.active.extend(unix);
        self.changed = true;
    }

    /// Opens the unix socket of `unixsocket`, if one is configured. The socket file of an earlier
    /// run is removed.
    pub fn listen_unix(&mut self, config: &Config) -> Result<(), ListenError> {
        let Some(path) = config.text(param::UNIXSOCKET) else { return Ok(()) };
        let path = Path::new(std::ffi::OsStr::from_bytes(path));
        match open_unix(path, config) {
            Ok(socket) => {
                self.unix_file = std::path::absolute(path).ok();
                self.unix_number = number_of(path);
                let kind = ListenerKind::Unix(path.to_string_lossy().into_owned());
                self.active.push(Listener { socket: Arc::new(socket.into()), kind });
                self.changed = true;
                Ok(())
            }
            Err(error) => {
                let text = format!("opening Unix socket: bind: {}", plain_error(&error));
                Err(ListenError { text, port: String::new() })
            }
        }
    }

    /// Removes the file of the unix socket, unless another server has replaced it.
    pub fn remove_unix_file(&mut self) {
        let Some(path) = self.unix_file.take() else { return };
        if self.unix_number.is_some() && number_of(&path) == self.unix_number {
            let _ = std::fs::remove_file(path);
        }
    }

    /// The unix socket's file, to be removed at the end.
    pub fn unix_file(&self) -> Option<&Path> {
        self.unix_file.as_deref()
    }

    /// The values of INFO's fields `listenerN:`, each with its number N.
    pub fn info_lines(&self) -> Vec<(usize, String)> {
        let tcp = |wanted: Speech| {
            let mut binds = String::new();
            let mut at = None;
            for listener in &self.active {
                if let ListenerKind::Tcp { word, port, speech } = &listener.kind
                    && *speech == wanted
                {
                    binds += &format!(",bind={word}");
                    at = Some(*port);
                }
            }
            at.map(|port| format!("name={}{binds},port={port}", wanted.name()))
        };
        let unix = self.active.iter().find_map(Listener::path).map(|path| format!("name=unix,bind={path}"));
        let lines = [tcp(Speech::Plain), unix, tcp(Speech::Tls)];
        lines.into_iter().enumerate().filter_map(|(number, line)| Some((number, line?))).collect()
    }
}

/// A TCP address and port on which the server is to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TcpBind {
    word: String,
    port: u16,
    speech: Speech,
    /// The directive that sets the port.
    asked_by: ParamId,
}

/// The sockets for which `bind`, `port` and `tls-port` ask.
fn wanted_tcp(config: &Config) -> Vec<TcpBind> {
    let mut binds = Vec::new();
    for (id, speech) in [(param::PORT, Speech::Plain), (param::TLS_PORT, Speech::Tls)] {
        let (port, asked_by) = (config.int(id) as u16, id.any());
        if port != 0 {
            let words =
                config.list(param::BIND).iter().map(|word| String::from_utf8_lossy(word).into_owned());
            binds.extend(words.map(|word| TcpBind { word, port, speech, asked_by }));
        }
    }
    binds
}

/// The sockets for which `metrics-bind` and `metrics-port` ask.
fn wanted_metrics(config: &Config) -> Vec<TcpBind> {
    let port = config.int(param::METRICS_PORT) as u16;
    let words = config.list(param::METRICS_BIND).iter().filter(|_| port != 0);
    let asked_by = param::METRICS_PORT.any();
    let bind = |word: &[u8]| TcpBind {
        word: String::from_utf8_lossy(word).into_owned(),
        port,
        speech: Speech::Plain,
        asked_by,
    };
    words.map(|word| bind(word)).collect()
}

/// The sockets of a cluster node's bus: the bus port at every address of `bind`. Empty if this server is no
/// cluster node, or the configuration has no valid bus port.
fn wanted_bus(config: &Config) -> Vec<TcpBind> {
    let Some(port) = bus_port(config).filter(|_| config.bool(param::CLUSTER_ENABLED)) else {
        return Vec::new();
    };
    let words = config.list(param::BIND).iter().map(|word| String::from_utf8_lossy(word).into_owned());
    let asked_by = param::CLUSTER_PORT.any();
    words.map(|word| TcpBind { word, port, speech: Speech::Bus, asked_by }).collect()
}

/// The port of the bus; `None` if the configuration has no valid bus port.
pub fn bus_port(config: &Config) -> Option<u16> {
    u16::try_from(sluice_control::cluster::settings::bus_port(config)).ok().filter(|port| *port != 0)
}

/// Whether a word of `metrics-bind` names a loopback address. False for a name without an address, on
/// which no socket can listen.
pub fn is_loopback(word: &[u8]) -> bool {
    address(&String::from_utf8_lossy(word)).is_ok_and(|address| address.to_canonical().is_loopback())
}

impl Listener {
    fn same(&self, other: &Listener) -> bool {
        Arc::ptr_eq(&self.socket, &other.socket)
    }

    fn is_tcp(&self, wanted: &TcpBind) -> bool {
        let plain = |word: &str| word.trim_start_matches('-').to_owned();
        matches!(&self.kind, ListenerKind::Tcp { word, port, speech }
            if *port == wanted.port && *speech == wanted.speech && plain(word) == plain(&wanted.word))
    }

    /// Whether clients use TLS on this listener.
    pub fn is_tls(&self) -> bool {
        matches!(self.kind, ListenerKind::Tcp { speech: Speech::Tls, .. })
    }

    /// Whether cluster nodes connect to this listener.
    pub fn is_of_bus(&self) -> bool {
        matches!(self.kind, ListenerKind::Tcp { speech: Speech::Bus, .. })
    }

    /// The address as written in the configuration; `None` for a unix socket.
    pub fn word(&self) -> Option<&str> {
        match &self.kind {
            ListenerKind::Tcp { word, .. } => Some(word),
            ListenerKind::Unix(_) => None,
        }
    }

    /// The path of a unix socket; `None` for a TCP socket.
    pub fn path(&self) -> Option<&str> {
        match &self.kind {
            ListenerKind::Tcp { .. } => None,
            ListenerKind::Unix(path) => Some(path),
        }
    }
}

/// Releases the port but keeps the socket, which can listen again.
fn unlisten(listener: &Listener) {
    let _ = SockRef::from(&*listener.socket).shutdown(std::net::Shutdown::Both);
}

/// Listens again on a socket that may have released its port.
fn relisten(listener: &Listener, backlog: i32) -> std::io::Result<()> {
    let socket = SockRef::from(&*listener.socket);
    if socket.is_listener()? { Ok(()) } else { socket.listen(backlog) }
}

fn is_in_use(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(Errno::EADDRINUSE as i32)
}

/// Whether the server may start without this address, because the machine does not support the address
/// family, or lacks the address and the prefix `-` permits its absence.
fn is_tolerable(error: &std::io::Error, word: &str) -> bool {
    let unsupported = [
        Errno::EAFNOSUPPORT,
        Errno::EPROTONOSUPPORT,
        Errno::ENOPROTOOPT,
        Errno::EPFNOSUPPORT,
        Errno::ESOCKTNOSUPPORT,
    ];
    let errno = error.raw_os_error().map(Errno::from_raw);
    errno.is_some_and(|n| unsupported.contains(&n) || n == Errno::EADDRNOTAVAIL && word.starts_with('-'))
}

fn open_tcp(bind: &TcpBind, config: &Config) -> std::io::Result<Listener> {
    let TcpBind { word, port, speech, .. } = bind.clone();
    let socket = bind_tcp(address(&word)?, port, config)?;
    // The options are set before the socket listens, because the first connection may arrive at once.
    options::tune_listener(&socket, keepalive_s(speech, config));
    socket.listen(config.int(param::TCP_BACKLOG) as i32)?;
    Ok(Listener { socket: Arc::new(socket.into()), kind: ListenerKind::Tcp { word, port, speech } })
}

/// The address that a word of `bind` names.
fn address(word: &str) -> std::io::Result<IpAddr> {
    match word.trim_start_matches('-') {
        "*" => Ok(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        "::*" => Ok(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        name => resolve(name),
    }
}

/// A socket bound to this address and port; it does not listen.
fn bind_tcp(address: IpAddr, port: u16, config: &Config) -> std::io::Result<Socket> {
    let domain = if address.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
    let socket = Socket::new(domain, Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    if let mark @ 1.. = config.int(param::SOCKET_MARK_ID) as u32 {
        socket.set_mark(mark)?;
    }
    socket.bind(&SocketAddr::new(address, port).into())?;
    Ok(socket)
}

/// A problem that a start would have with a listening address.
#[derive(Debug, PartialEq, Eq)]
pub enum BindProblem {
    /// A start could succeed. Either another server has the port now, but may have ended by then, or the
    /// machine lacks the address family, or it lacks the address and the prefix `-` permits its absence.
    Tolerable(String),
    /// A start would fail; the text is the reason.
    Fatal(String),
}

/// Tries each address of `bind` without listening, so that no client notices. Returns each problem with the
/// directive of the port; the text of the problem names the address.
pub fn try_tcp(config: &Config) -> Vec<(ParamId, BindProblem)> {
    try_lists(config, &[wanted_tcp(config)]).pop().unwrap_or_default()
}

/// Does the same as [`try_tcp`] for the addresses of `metrics-bind`, which must differ from those of clients.
pub fn try_metrics(config: &Config) -> Vec<(ParamId, BindProblem)> {
    try_lists(config, &[wanted_tcp(config), wanted_metrics(config)]).pop().unwrap_or_default()
}

/// Does the same as [`try_tcp`] for the addresses of a node's bus, which must differ from those of clients.
pub fn try_bus(config: &Config) -> Vec<(ParamId, BindProblem)> {
    try_lists(config, &[wanted_tcp(config), wanted_bus(config)]).pop().unwrap_or_default()
}

/// The problems with each list of addresses; no two lists may share an address.
fn try_lists(config: &Config, lists: &[Vec<TcpBind>]) -> Vec<Vec<(ParamId, BindProblem)>> {
    let mut taken: Vec<(IpAddr, u16, String)> = Vec::new();
    lists.iter().map(|binds| try_list(config, binds, &mut taken)).collect()
}

fn try_list(
    config: &Config,
    binds: &[TcpBind],
    taken: &mut Vec<(IpAddr, u16, String)>,
) -> Vec<(ParamId, BindProblem)> {
    let mut found = Vec::new();
    for TcpBind { word, port, asked_by, .. } in binds.iter().cloned() {
        let name = word.trim_start_matches('-').to_owned();
        let tried = address(&word).and_then(|address| bind_tcp(address, port, config).map(|_closed| address));
        match tried {
            Ok(address) => {
                let is_same = |(other, other_port, _): &&(IpAddr, u16, String)| {
                    *other_port == port && overlap(*other, address)
                };
                if let Some((_, _, other)) = taken.iter().find(is_same) {
                    let text = format!("{name} port {port}: '{other}' has this address already");
                    found.push((asked_by, BindProblem::Fatal(text)));
                }
                taken.push((address, port, name));
            }
            Err(error) => {
                let text = format!("{name} port {port}: {}", plain_error(&error));
                let tolerable = is_in_use(&error) || is_tolerable(&error, &word);
                let problem = if tolerable { BindProblem::Tolerable(text) } else { BindProblem::Fatal(text) };
                found.push((asked_by, problem));
            }
        }
    }
    found
}

/// Whether a socket cannot listen on one address while another socket listens on the other.
fn overlap(one: IpAddr, other: IpAddr) -> bool {
    one == other || one.is_ipv4() == other.is_ipv4() && (one.is_unspecified() || other.is_unspecified())
}

/// Tries the path of `unixsocket`, if one is configured, without listening on it. Errors: the reason why a
/// start would fail. If another server answers on the socket, this is no error, because a start replaces
/// the socket; the returned text is a warning about this.
pub fn try_unix(config: &Config) -> Result<Option<String>, String> {
    let Some(path) = config.text(param::UNIXSOCKET) else { return Ok(None) };
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    let show = |error: std::io::Error| format!("{}: {}", path.display(), plain_error(&error));
    let address = SockAddr::unix(path).map_err(show)?;
    let there = std::fs::symlink_metadata(path).map(|there| there.file_type());
    if there.is_ok_and(|there| !there.is_socket() && !there.is_symlink()) {
        return Err(show(Errno::EADDRINUSE.into()));
    }
    can_create(path).map_err(show)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None).map_err(show)?;
    Ok(socket.connect(&address).is_ok().then(|| format!("{}: another server listens here", path.display())))
}

/// Tries `unixsocketgroup`. Errors: the reason why a start would fail.
pub fn try_unix_group(config: &Config) -> Result<(), String> {
    let group = config.text(param::UNIXSOCKETGROUP).filter(|group| !group.is_empty());
    let (Some(group), Some(_)) = (group, config.text(param::UNIXSOCKET)) else { return Ok(()) };
    let name = String::from_utf8_lossy(group);
    group_id(&name).map(drop).map_err(|error| format!("group '{name}': {}", plain_error(&error)))
}

fn resolve(name: &str) -> std::io::Result<IpAddr> {
    use std::net::ToSocketAddrs;
    if let Ok(address) = name.parse() {
        return Ok(address);
    }
    let mut found = (name, 0).to_socket_addrs()?;
    found.next().map(|a| a.ip()).ok_or_else(|| std::io::ErrorKind::AddrNotAvailable.into())
}

/// Device and inode of the file at a path; `None` if there is no file.
fn number_of(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|there| (there.dev(), there.ino())).ok()
}

/// Removes a socket file, or a symbolic link, that an earlier server has left. Errors: the file cannot be
/// removed, or there is a file of another kind, which is not removed.
fn free_unix(path: &Path) -> std::io::Result<()> {
    match std::fs::symlink_metadata(path).map(|there| there.file_type()) {
        Ok(there) if there.is_socket() || there.is_symlink() => std::fs::remove_file(path),
        Ok(_) => Err(Errno::EADDRINUSE.into()),
        Err(_) => Ok(()),
    }
}

fn open_unix(path: &Path, config: &Config) -> std::io::Result<Socket> {
    use nix::sys::stat::{Mode, umask};
    free_unix(path)?;
    let mode = config.int(param::UNIXSOCKETPERM) as u32;
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
    // The file is created with its permissions, because between the bind and a chmod another user may
    // replace it by a link. No client can connect before the socket listens.
    let old = umask(Mode::empty());
    umask(if mode == 0 { old } else { Mode::from_bits_truncate(0o777 & !mode) });
    let bound = SockAddr::unix(path).and_then(|address| socket.bind(&address));
    umask(old);
    bound?;
    if let Some(group) = config.text(param::UNIXSOCKETGROUP).filter(|group| !group.is_empty()) {
        std::os::unix::fs::lchown(path, None, Some(group_id(&String::from_utf8_lossy(group))?))?;
    }
    socket.listen(config.int(param::TCP_BACKLOG) as i32)?;
    Ok(socket)
}

fn group_id(name: &str) -> std::io::Result<u32> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let group = nix::unistd::Group::from_name(name)?;
    group.map(|group| group.gid.as_raw()).ok_or_else(|| std::io::ErrorKind::NotFound.into())
}

/// An accepted connection, with its addresses as the reference shows them.
pub struct Accepted {
    /// The client's address and port.
    pub addr: String,
    /// The server's own address and port.
    pub laddr: String,
    /// Whether the connection was accepted on a unix socket or comes from a loopback address, or its peer is
    /// unknown.
    pub local: bool,
    /// Whether the connection comes from one of `priority-subnets`.
    pub has_priority: bool,
}

/// Reads the addresses of an accepted socket.
pub fn inspect(stream: &Stream, kind: &ListenerKind, priority_subnets: &Subnets) -> Accepted {
    if let ListenerKind::Unix(path) = kind {
        let (addr, laddr) = (format!("{path}:0"), format!("{path}:0"));
        return Accepted { addr, laddr, local: true, has_priority: false };
    }
    let ends = stream.ends();
    let (addr, laddr) = ends.shown();
    let local = ends.peer.is_none_or(|peer| peer.ip().to_canonical().is_loopback());
    let has_priority = ends.peer.is_some_and(|peer| priority_subnets.have(peer.ip()));
    Accepted { addr, laddr, local, has_priority }
}

/// Sets the socket options that connections inherit from a TCP listener; see [`options::tune_listener`].
pub fn tune(listener: &Listener, config: &Config) {
    if let ListenerKind::Tcp { speech, .. } = listener.kind {
        options::tune_listener(&SockRef::from(&*listener.socket), keepalive_s(speech, config));
    }
}

/// Seconds of silence before the peer of a connection is probed. For connections of the bus, twice
/// `cluster-node-timeout`.
fn keepalive_s(speech: Speech, config: &Config) -> i64 {
    match speech {
        Speech::Plain | Speech::Tls => config.int(param::TCP_KEEPALIVE),
        Speech::Bus => (config.int(param::CLUSTER_NODE_TIMEOUT) / 1_000).clamp(1, KEEPALIVE_MAX_S / 2) * 2,
    }
}

/// The largest even number of seconds that the kernel accepts.
const KEEPALIVE_MAX_S: i64 = 32_766;

/// Numbers of connections that count for `maxclients`.
#[derive(Clone, Copy, Debug, Default)]
pub struct TakenConnections {
    /// Number of clients, and of connections that are to become clients.
    pub clients: usize,
    /// Number of these clients and connections that come from `priority-subnets`.
    pub with_priority: usize,
    /// Number of bus connections that this node needs. They are counted, so that clients cannot take all
    /// places and separate the node from the other nodes.
    pub of_bus: usize,
    /// Number of places within `maxclients` that are reserved for connections with priority.
    pub reserved: usize,
}

impl TakenConnections {
    /// Whether there is no free place for this connection.
    pub fn leave_no_room_for(self, newcomer: &Accepted, config: &Config) -> bool {
        let limit = config.uint(param::MAXCLIENTS).min(Endpoint::CLIENTS_MAX as u64) as usize;
        let all = self.clients.saturating_add(self.of_bus);
        let is_kept_free = !newcomer.has_priority
            && self.reserved > 0
            && all.saturating_sub(self.with_priority) >= limit.saturating_sub(self.reserved);
        all >= limit || is_kept_free
    }

    /// The counter to which a refused connection belongs.
    pub fn rejected(self, newcomer: &Accepted, config: &Config) -> RejectedConnection {
        match newcomer.has_priority && self.leave_no_room_for(newcomer, config) {
            true => RejectedConnection::Priority,
            false => RejectedConnection::Ordinary,
        }
    }
}

/// The refusal of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionRefusal {
    /// The error reply that the client receives.
    pub text: &'static [u8],
    /// The counter of refused connections to increase.
    pub rejected: RejectedConnection,
}

/// The refusal of a connection; `None` if it is accepted. `unguarded`: whether the default user has no
/// password.
pub fn refusal(
    accepted: &Accepted,
    connections: TakenConnections,
    config: &Config,
    unguarded: bool,
) -> Option<ConnectionRefusal> {
    let rejected = connections.rejected(accepted, config);
    if connections.leave_no_room_for(accepted, config) {
        let text: &[u8] = match config.bool(param::CLUSTER_ENABLED) {
            true => b"-ERR max number of clients + cluster connections reached\r\n",
            false => b"-ERR max number of clients reached\r\n",
        };
        return Some(ConnectionRefusal { text, rejected });
    }
    let open = accepted.local || !config.bool(param::PROTECTED_MODE) || !unguarded;
    (!open).then_some(ConnectionRefusal { text: PROTECTED_TEXT, rejected })
}

/// Raises the limit of file descriptors to the number that `maxclients` clients, the threads of `io-threads`
/// and the metrics endpoint need. Returns how many clients the limit allows, at least 1 and at most
/// `maxclients`. `warn` is called if these are fewer than `maxclients`.
pub fn adjust_descriptor_limit(config: &Config, warn: &mut dyn FnMut(String)) -> u64 {
    let clients = config.uint(param::MAXCLIENTS);
    let io_threads = config.uint(param::IO_THREADS_NUM).saturating_sub(1);
    let of_metrics = if config.int(param::METRICS_PORT) != 0 { METRICS_DESCRIPTORS } else { 0 };
    let reserved = RESERVED_DESCRIPTORS + io_threads * IO_THREAD_DESCRIPTORS + of_metrics;
    let wanted = clients + reserved;
    let (soft, hard) = match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((soft, _)) if soft >= wanted => return clients,
        Ok(limits) => limits,
        Err(_) => (1024, 1024),
    };
    let Err(errno) = setrlimit(Resource::RLIMIT_NOFILE, wanted, hard.max(wanted)) else { return clients };
    let limit = match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(_) => soft,
    };
    let allowed = limit.saturating_sub(reserved).max(1);
    if allowed >= clients {
        return clients;
    }
    warn(format!("You requested maxclients of {clients} requiring at least {wanted} max file descriptors."));
    warn(format!("Server can't set maximum open files to {wanted} because of OS error: {}.", errno.desc()));
    warn(format!(
        "Current maximum open files is {limit}. maxclients has been reduced to {allowed} to compensate for low ulimit. \
         If you need higher maxclients increase 'ulimit -n'."
    ));
    allowed
}

/// Number of file descriptors reserved for listeners, files and links.
const RESERVED_DESCRIPTORS: u64 = 32;
/// Number of file descriptors of an I/O thread: one for its event loop, one for its waker, and one more while
/// io_uring is tried.
const IO_THREAD_DESCRIPTORS: u64 = 3;

/// Number of file descriptors of the metrics endpoint, for its connections, its event loop and its waker.
const METRICS_DESCRIPTORS: u64 = CONNECTIONS_MAX as u64 + 4;

/// The error reply for clients on other machines while protected mode is on.
const PROTECTED_TEXT: &[u8] = b"-DENIED Running in protected mode because protected mode is enabled and no password is set for the default user. In this mode connections are only accepted from the loopback interface. If you want to connect from external computers, you may adopt one of the following solutions: 1) Disable protected mode by sending the command 'CONFIG SET protected-mode no' from the loopback interface by connecting from the same host the server is running, however MAKE SURE it's not publicly accessible from the internet if you do so. Use CONFIG REWRITE to make this change permanent. 2) Alternatively you can just disable the protected mode by editing the configuration file, and setting the protected mode option to 'no', and then restarting the server. 3) If you started the server manually just for testing, restart it with the '--protected-mode no' option. 4) Set up an authentication password for the default user. NOTE: You only need to do one of the above things in order for the server to start accepting connections from the outside.\r\n";

#[cfg(test)]
mod tests;
