//! Listening sockets, and what is set on accepted ones.

use crate::host::plain_error;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sluice_config::{Config, param};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, TcpKeepalive, Type};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    /// The socket: nonblocking, listening.
    pub socket: OwnedFd,
    /// What it listens on.
    pub kind: Kind,
}

/// What a listener listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An address and port; the word in the configuration.
    Tcp(String),
    /// A path.
    Unix(String),
}

/// A socket that could not be opened.
#[derive(Debug)]
pub struct ListenError(String);

impl std::fmt::Display for ListenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Opens the TCP listeners of `bind` and `port`; none when the port is 0. An address with `-` before it may be
/// unavailable, any other may not.
pub fn open_tcp(config: &Config) -> Result<Vec<Listener>, ListenError> {
    let port = config.int(param::PORT) as u16;
    let mut listeners = Vec::new();
    if port == 0 {
        return Ok(listeners);
    }
    for word in config.list(param::BIND) {
        let word = String::from_utf8_lossy(word).into_owned();
        let optional = word.starts_with('-');
        let name = word.trim_start_matches('-');
        match open_one(name, port, config.int(param::TCP_BACKLOG) as i32) {
            Ok(socket) => listeners.push(Listener { socket: socket.into(), kind: Kind::Tcp(word.clone()) }),
            Err(error) if optional && is_unavailable(&error) => {}
            Err(error) => {
                let reason = plain_error(&error);
                return Err(ListenError(format!(
                    "Could not create server TCP listening socket {name}:{port}: bind: {reason}"
                )));
            }
        }
    }
    if listeners.is_empty() {
        return Err(ListenError(format!(
            "none of the addresses in 'bind' can be listened on at port {port}"
        )));
    }
    Ok(listeners)
}

fn is_unavailable(error: &std::io::Error) -> bool {
    use nix::errno::Errno;
    let unavailable = [
        Errno::EADDRNOTAVAIL,
        Errno::EAFNOSUPPORT,
        Errno::EPROTONOSUPPORT,
        Errno::ENOPROTOOPT,
        Errno::EPFNOSUPPORT,
        Errno::ESOCKTNOSUPPORT,
    ];
    error.raw_os_error().is_some_and(|n| unavailable.contains(&Errno::from_raw(n)))
}

fn open_one(name: &str, port: u16, backlog: i32) -> std::io::Result<Socket> {
    let address = match name {
        "*" => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        "::*" => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        _ => resolve(name)?,
    };
    let domain = if address.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
    let socket = Socket::new(domain, Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::new(address, port).into())?;
    socket.listen(backlog)?;
    Ok(socket)
}

fn resolve(name: &str) -> std::io::Result<IpAddr> {
    use std::net::ToSocketAddrs;
    if let Ok(address) = name.parse() {
        return Ok(address);
    }
    let mut found = (name, 0).to_socket_addrs()?;
    found.next().map(|a| a.ip()).ok_or_else(|| std::io::ErrorKind::AddrNotAvailable.into())
}

/// Opens the unix socket of `unixsocket`, if one is configured. A file left by an earlier run is removed.
pub fn open_unix(config: &Config) -> Result<Option<Listener>, ListenError> {
    let Some(path) = config.text(param::UNIXSOCKET) else { return Ok(None) };
    let path = String::from_utf8_lossy(path).into_owned();
    let _ = std::fs::remove_file(&path);
    let mode = config.int(param::UNIXSOCKETPERM) as u32;
    let open = || -> std::io::Result<Socket> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
        // Nobody may connect between bind and chmod: the file is born without permissions for others.
        let old = nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o177));
        let bound = socket.bind(&SockAddr::unix(&path)?);
        nix::sys::stat::umask(if mode == 0 {
            old
        } else {
            nix::sys::stat::Mode::from_bits_truncate(old.bits())
        });
        bound?;
        let mode = if mode == 0 { 0o777 & !old.bits() } else { mode };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
        socket.listen(config.int(param::TCP_BACKLOG) as i32)?;
        Ok(socket)
    };
    match open() {
        Ok(socket) => Ok(Some(Listener { socket: socket.into(), kind: Kind::Unix(path) })),
        Err(error) => Err(ListenError(format!("opening Unix socket: bind: {path}: {}", plain_error(&error)))),
    }
}

/// INFO's `listenerN:` values.
pub fn info_lines(config: &Config, listeners: &[Listener]) -> Vec<String> {
    let mut lines = Vec::new();
    let binds: Vec<String> = listeners
        .iter()
        .filter_map(|l| match &l.kind {
            Kind::Tcp(word) => Some(format!(",bind={word}")),
            Kind::Unix(_) => None,
        })
        .collect();
    if !binds.is_empty() {
        lines.push(format!("name=tcp{},port={}", binds.concat(), config.int(param::PORT)));
    }
    for listener in listeners {
        if let Kind::Unix(path) = &listener.kind {
            lines.push(format!("name=unix,bind={path}"));
        }
    }
    lines
}

/// An accepted connection, dressed: its addresses as the reference shows them.
pub struct Accepted {
    /// The client's address.
    pub addr: String,
    /// The server's address.
    pub laddr: String,
    /// It comes from this machine.
    pub local: bool,
}

/// Sets options on an accepted socket and reads its addresses.
pub fn dress(socket: &OwnedFd, kind: &Kind, keepalive_s: i64) -> Accepted {
    let socket = SockRef::from(socket);
    if let Kind::Unix(path) = kind {
        return Accepted { addr: format!("{path}:0"), laddr: format!("{path}:0"), local: true };
    }
    let _ = socket.set_tcp_nodelay(true);
    if keepalive_s > 0 {
        let seconds = keepalive_s as u64;
        // Three probes within the interval after one interval of silence, as the reference spaces them.
        let probes = TcpKeepalive::new()
            .with_time(Duration::from_secs(seconds))
            .with_interval(Duration::from_secs((seconds / 3).max(1)))
            .with_retries(3);
        let _ = socket.set_tcp_keepalive(&probes);
    }
    let show = |address: std::io::Result<SockAddr>| address.ok().and_then(|a| a.as_socket());
    let peer = show(socket.peer_addr());
    let own = show(socket.local_addr());
    let text = |a: Option<SocketAddr>| a.map_or_else(|| "?:0".to_owned(), |a| a.to_string());
    Accepted {
        addr: text(peer),
        laddr: text(own),
        local: peer.is_none_or(|a| a.ip().to_canonical().is_loopback()),
    }
}

/// Raises the limit of descriptors to serve `clients`; returns how many clients it allows.
pub fn adjust_descriptor_limit(clients: u64) -> u64 {
    let wanted = clients + RESERVED_DESCRIPTORS;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return clients.min(1024 - RESERVED_DESCRIPTORS);
    };
    if soft >= wanted {
        return clients;
    }
    for limit in [wanted, hard] {
        if setrlimit(Resource::RLIMIT_NOFILE, limit, hard.max(limit)).is_ok() {
            return clients.min(limit.saturating_sub(RESERVED_DESCRIPTORS));
        }
    }
    soft.saturating_sub(RESERVED_DESCRIPTORS).max(1)
}

/// Descriptors kept for listeners, files and links.
const RESERVED_DESCRIPTORS: u64 = 32;
