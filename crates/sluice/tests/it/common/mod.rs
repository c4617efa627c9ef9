//! A real server on a free port, and raw connections to it. Each wait is for a condition, with a deadline
//! after which the test fails.

pub mod certificates;
pub mod feeds;
pub mod guide;
pub mod primary;
pub mod reference;
pub mod relay;

use sluice_evloop::{AnyLoop, Backend};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Maximum duration of any wait. It is longer in a build without jemalloc, because such a build is for a
/// memory or race checker, which makes the server ten times as slow.
pub const DEADLINE: Duration = Duration::from_secs(if cfg!(sluice_system_allocator) { 300 } else { 60 });

/// The binary under test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_sluice-server");

/// Environment variable with arguments for every server of this run, placed before the arguments of the test
/// (`xtask/src/test/arms.rs`).
const ARM: &str = "SLUICE_TEST_ARGS";

/// The arguments in `SLUICE_TEST_ARGS`, without the choice of io_uring on a machine that lacks it.
pub fn arm() -> Vec<String> {
    let arguments = std::env::var(ARM).unwrap_or_default();
    let left = match arguments.split_once(IO_URING) {
        Some((before, after)) if !has_io_uring() => {
            println!("skipped: this machine has no io_uring");
            format!("{before}{after}")
        }
        _ => arguments,
    };
    left.split_ascii_whitespace().map(str::to_owned).collect()
}

/// Whether this machine has io_uring.
pub fn has_io_uring() -> bool {
    AnyLoop::choose(Backend::IoUring, &Default::default()).is_ok()
}

/// The arguments by which an arm, which is a set of arguments for a whole test run, selects io_uring.
const IO_URING: &str = "--event-loop io_uring";

/// Whether the servers of this run are to use io_uring.
pub fn is_on_io_uring() -> bool {
    arm().iter().any(|word| word == "io_uring")
}

/// Whether the binary under test has the switches of `test_switches.rs`, which a release build lacks.
pub fn has_switches() -> bool {
    let has = cfg!(debug_assertions);
    if !has {
        println!("skipped: a release build does not read the tests' switches");
    }
    has
}

/// A temporary directory, removed on drop.
pub struct Dir(PathBuf);

impl Dir {
    pub fn new() -> Dir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("sluice-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Dir(path.canonicalize().unwrap())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Creates a file in the directory with these contents; returns its path.
    pub fn file(&self, name: &str, contents: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, contents).unwrap();
        path.display().to_string()
    }

    pub fn join(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A port that no process uses at present, below those that the kernel gives to outgoing connections.
/// Until this process ends, no other process of these tests gets the port, because an abstract socket with
/// the port's number in its name reserves it.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    static RESERVED: Mutex<Vec<UnixDatagram>> = Mutex::new(Vec::new());
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 12_000 + (std::process::id().wrapping_mul(131).wrapping_add(step) % 20_000) as u16;
        let name = SocketAddr::from_abstract_name(format!("sluice-test-port-{port}")).unwrap();
        let Ok(reservation) = UnixDatagram::bind_addr(&name) else { continue };
        if TcpListener::bind(("0.0.0.0", port)).is_ok() {
            RESERVED.lock().unwrap().push(reservation);
            return port;
        }
    }
}

/// The lines of an output, in the order of their arrival.
#[derive(Clone, Default)]
pub struct Lines(Arc<(Mutex<(Vec<String>, bool)>, Condvar)>);

impl Lines {
    fn read(from: impl Read + Send + 'static) -> Lines {
        let lines = Lines::default();
        let shared = lines.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
                shared.0.0.lock().unwrap().0.push(String::from_utf8_lossy(&line).into_owned());
                shared.0.1.notify_all();
            }
            shared.0.0.lock().unwrap().1 = true;
            shared.0.1.notify_all();
        });
        lines
    }

    /// Waits for a line that contains `part`; returns `None` if the output ends without such a line.
    pub fn wait(&self, part: &str) -> Option<String> {
        let deadline = Instant::now() + DEADLINE;
        let mut state = self.0.0.lock().unwrap();
        loop {
            if let Some(line) = state.0.iter().find(|line| line.contains(part)) {
                return Some(line.clone());
            }
            if state.1 {
                return None;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no line with {part:?} in {:#?}", state.0);
            state = self.0.1.wait_timeout(state, left).unwrap().0;
        }
    }

    /// The output so far.
    pub fn so_far(&self) -> String {
        self.0.0.lock().unwrap().0.join("\n")
    }

    /// Waits for the end of the output, and returns all lines.
    pub fn all(&self) -> String {
        let deadline = Instant::now() + DEADLINE;
        let mut state = self.0.0.lock().unwrap();
        while !state.1 {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "the output does not end: {:#?}", state.0);
            state = self.0.1.wait_timeout(state, left).unwrap().0;
        }
        state.0.join("\n")
    }
}

/// A running server, killed on drop.
pub struct Server {
    pub child: Child,
    pub port: u16,
    pub dir: Dir,
    pub log: Lines,
    pub stderr: Lines,
}

impl Server {
    /// Starts a server with these arguments after those that [`Server::start_in`] gives; it is ready to
    /// accept.
    pub fn start(arguments: &[&str]) -> Server {
        Server::start_in(Dir::new(), |command| {
            command.args(arguments);
        })
    }

    /// Starts a server with the usual arguments for tests and those of `SLUICE_TEST_ARGS`; `prepare`
    /// completes the command. The server is ready to accept. It runs in the given directory, or in a new one
    /// if the first port was taken.
    pub fn start_in(dir: Dir, prepare: impl Fn(&mut Command)) -> Server {
        let mut dir = Some(dir);
        // Another process may take the port between the choice and the bind. In that case another port is
        // chosen.
        for _ in 0..10 {
            let port = free_port();
            let mut command = Command::new(BINARY);
            let here = dir.take().unwrap();
            command.args(["--port", &port.to_string(), "--dir", &here.join(""), "--save", ""]);
            command.args(["--enable-debug-command", "yes", "--enable-protected-configs", "yes"]);
            command.args(["--repl-diskless-sync-delay", "0"]);
            command.args(arm());
            prepare(&mut command);
            let mut server = Server::spawn(command, port, here);
            if server.log.wait("Ready to accept").is_some() {
                return server;
            }
            let log = server.log.all();
            assert!(log.contains("Address already in use"), "{log}\n{}", server.stderr.all());
            dir = Some(std::mem::replace(&mut server.dir, Dir::new()));
        }
        panic!("no free port");
    }

    pub fn spawn(mut command: Command, port: u16, dir: Dir) -> Server {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let log = Lines::read(child.stdout.take().unwrap());
        let stderr = Lines::read(child.stderr.take().unwrap());
        Server { child, port, dir, log, stderr }
    }

    pub fn client(&self) -> Client {
        Client::to("127.0.0.1", self.port)
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// Waits for the end of the process.
    pub fn wait(&mut self) -> ExitStatus {
        until("the server's end", || self.child.try_wait().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Calls `ask` until it returns a value. A pause between two calls leaves the processor to the server. It
/// begins at [`PAUSE_FIRST`] and doubles up to [`PAUSE_MAX`].
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    let mut pause = PAUSE_FIRST;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waiting for {what}");
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// First pause of [`until`], short enough that most waits end without delay.
const PAUSE_FIRST: Duration = Duration::from_millis(1);
/// Longest pause of [`until`], long enough that the calls take hardly any time from the server.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// A raw TCP connection to a server.
pub struct Client {
    pub stream: TcpStream,
}

impl Client {
    pub fn to(host: &str, port: u16) -> Client {
        let stream = TcpStream::connect((host, port)).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Client {
        self.stream.write_all(bytes.as_ref()).unwrap();
        self
    }

    /// Checks that the next bytes are `wanted`.
    #[track_caller]
    pub fn expect(&mut self, wanted: impl AsRef<[u8]>) -> &mut Client {
        let wanted = wanted.as_ref();
        let mut got = vec![0; wanted.len()];
        let mut have = 0;
        while have < got.len() {
            match self.stream.read(&mut got[have..]) {
                Ok(0) => break,
                Ok(n) => have += n,
                // A read with a timeout is not restarted automatically.
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&got[..have])),
            }
            if got[..have] != wanted[..have] {
                break;
            }
        }
        assert!(
            got[..have] == *wanted,
            "wanted {:?}, got {:?}",
            String::from_utf8_lossy(&wanted[..wanted.len().min(300)]),
            String::from_utf8_lossy(&got[..have.min(300)])
        );
        self
    }

    /// Sends a line and expects this reply.
    #[track_caller]
    pub fn check(&mut self, line: &str, reply: impl AsRef<[u8]>) -> &mut Client {
        self.send(format!("{line}\r\n")).expect(reply)
    }

    /// Checks that the connection ends without further bytes.
    #[track_caller]
    pub fn expect_end(&mut self) {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            // Unread input at the server makes the kernel reset the connection.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
            Err(error) => panic!("{error}"),
            Ok(_) => {}
        }
        assert!(rest.is_empty(), "unexpected {:?}", String::from_utf8_lossy(&rest));
    }

    /// Sends a line; returns the reply's bulk string.
    #[track_caller]
    pub fn bulk(&mut self, line: &str) -> Vec<u8> {
        self.send(format!("{line}\r\n")).bulk_reply()
    }

    /// The bulk string in the reply to a request that was sent before.
    #[track_caller]
    pub fn bulk_reply(&mut self) -> Vec<u8> {
        let header = self.line();
        let len: usize = header.strip_prefix('$').unwrap_or_else(|| panic!("{header}")).parse().unwrap();
        let mut body = vec![0; len + 2];
        self.stream.read_exact(&mut body).unwrap();
        body.truncate(len);
        body
    }

    /// The next line of the reply, without the line end.
    pub fn line(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0];
        while !line.ends_with(b"\r\n") {
            self.stream.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        line.truncate(line.len() - 2);
        String::from_utf8_lossy(&line).into_owned()
    }

    /// The complete text of INFO.
    pub fn info_text(&mut self) -> String {
        String::from_utf8(self.bulk("INFO everything debug")).unwrap()
    }

    pub fn info(&mut self, field: &str) -> String {
        let text = self.info_text();
        let prefix = format!("{field}:");
        let line = text.lines().find_map(|line| line.strip_prefix(&prefix));
        line.unwrap_or_else(|| panic!("no {field} in {text}")).to_owned()
    }

    pub fn info_number(&mut self, field: &str) -> i64 {
        self.info(field).parse().unwrap()
    }

    /// The value that CONFIG GET shows for one parameter.
    pub fn config(&mut self, name: &str) -> String {
        self.send(format!("CONFIG GET {name}\r\n"));
        assert_eq!(self.line(), "*2");
        self.line();
        self.line();
        self.line();
        self.line()
    }
}

/// A request as an array of bulk strings.
pub fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// Runs the binary to its end; returns its standard output, its standard error, and whether it succeeded.
pub fn run(arguments: &[&str], input: &str) -> (String, String, bool) {
    let mut child = Command::new(BINARY)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // An error is ignored, because a server that does not read its input may have ended already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(output.stdout), text(output.stderr), output.status.success())
}
