//! Starts the server from the command-line arguments. Log lines answer the questions of an operator:
//! where the configuration came from, which sockets listen, and which event loop runs and why.

use crate::allocator::Allocator;
use crate::aof;
use crate::bus::start::NodeStart;
use crate::check_move;
use crate::cli::{self, Task};
use crate::host::Host;
use crate::iteration::{self, Server};
use crate::lazyfree::LazyFreeThread;
use crate::net::tls::TlsState;
use crate::users::{self, JudgedLines};
use crate::{listen, loader, storage, supervisor, threads};
use sluice_acl::Users;
use sluice_base::LogLevel;
use sluice_base::{HashSeed, siphash13};
use sluice_cluster::Cluster;
use sluice_config::choice::SyslogFacility;
use sluice_config::{Config, Loader, param};
use sluice_daemon::restart::Restart;
use sluice_daemon::service_status::READY;
use sluice_daemon::signals::Signals;
use sluice_daemon::syslog::Syslog;
use sluice_daemon::title::Title;
use sluice_daemon::{crash, detach};
use sluice_engine::{Engine, Seeds};
use sluice_evloop::{AnyLoop, Opened};
use sluice_moving::MovePlan;
use sluice_snapshot::NotLoaded;
use sluice_storage::temporary;
use sluice_tls::Context;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The error of a server that did not start.
#[derive(Debug)]
pub struct Failure {
    /// The text for standard error, with its line ends.
    pub text: String,
}

impl Failure {
    fn new(text: impl Into<String>) -> Failure {
        Failure { text: text.into() }
    }
}

/// Performs the task that the arguments select. Returns the exit status.
pub fn run(arguments: Vec<OsString>, allocator: &'static dyn Allocator) -> Result<u8, Failure> {
    let restart = Restart::of_process(arguments.clone());
    match cli::task_of(arguments) {
        Task::Version => print!("{}", cli::version()),
        Task::Help => print!("{}", cli::HELP),
        Task::ExampleConf => print!("{}", sluice_config::example_conf()),
        Task::Check(words) => check(&words)?,
        Task::CheckMove(words) => return Ok(check_move(words)),
        Task::Serve(words) => return serve(load(&words)?, || Host::new(allocator, restart)),
    }
    Ok(0)
}

/// Checks a configuration, and prints warnings on standard output. Errors: the configuration cannot be read,
/// or it has faults with which a server would not start.
fn check(words: &[Vec<u8>]) -> Result<(), Failure> {
    let texts = read(words)?;
    let from_file = texts.file.as_ref().map_or_else(String::new, |path| path.display().to_string());
    let parts = [
        (from_file.as_str(), texts.of_file.as_slice()),
        ("standard input", texts.of_stdin.as_slice()),
        (sluice_config::COMMAND_LINE, texts.options.as_slice()),
    ];
    let findings = crate::check::check(&parts, &mut ConfigSurroundings);
    for text in findings.warnings {
        println!("warning: {text}");
    }
    if findings.errors.is_empty() {
        println!("configuration is valid: {}", texts.source());
        return Ok(());
    }
    let lines: String = findings.errors.iter().map(|text| format!("error: {text}\n")).collect();
    let count = findings.errors.len();
    let many = if count == 1 { "" } else { "s" };
    Err(Failure::new(format!("{lines}configuration has {count} error{many}: {}\n", texts.source())))
}

/// Reports the features that another server uses and Sluice lacks, for a move of its data to Sluice.
/// Returns the exit status.
fn check_move(words: Vec<Vec<u8>>) -> u8 {
    let environment = |name: &str| std::env::var_os(name).map(OsStringExt::into_vec);
    let judged = MovePlan::read(words, &environment).and_then(|plan| {
        let tls = if plan.wants_tls() { Some(tls_of_move(&plan)?) } else { None };
        check_move::run(&plan, tls)
    });
    match judged {
        Ok((text, status)) => {
            print!("{text}");
            status
        }
        Err(reason) => {
            eprintln!("error: {reason}");
            check_move::NOT_JUDGED
        }
    }
}

/// The TLS context for the connection with the other server. It is made from the same directives as the
/// context of links to a primary.
fn tls_of_move(plan: &MovePlan) -> Result<Context, String> {
    let mut config = load(&plan.words).map_err(|failure| failure.text)?.config;
    config.assign(param::TLS_REPLICATION, &[b"yes"])?;
    let mut state = TlsState::default();
    state.apply(&config, storage::of_process().as_ref())?;
    state.context_of_links().ok_or_else(|| "TLS is not configured".to_owned())
}

/// The texts of the configuration that the arguments name, unparsed.
struct ConfigTexts {
    file: Option<PathBuf>,
    of_file: Vec<u8>,
    /// Whether the arguments ask to read a configuration from standard input.
    stdin: bool,
    of_stdin: Vec<u8>,
    /// The command-line options in the form of configuration lines.
    options: Vec<u8>,
}

impl ConfigTexts {
    /// The sources of the configuration, for the log.
    fn source(&self) -> String {
        let options = if self.options.is_empty() { "" } else { " and command-line options" };
        format!("{}{options}", self.origin())
    }

    fn origin(&self) -> String {
        match (&self.file, self.stdin) {
            (Some(path), _) => path.display().to_string(),
            (None, true) => "standard input".to_owned(),
            (None, false) => "built-in defaults".to_owned(),
        }
    }
}

/// Reads the configuration texts that the arguments name.
fn read(words: &[Vec<u8>]) -> Result<ConfigTexts, Failure> {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let line = sluice_config::command_line(&words);
    let file =
        line.config_file.as_deref().map(|path| Path::new(std::ffi::OsStr::from_bytes(path)).to_path_buf());
    let of_file = match &file {
        Some(path) => std::fs::read(path).map_err(|error| {
            Failure::new(format!(
                "Fatal error, can't open config file '{}': {}\n",
                path.display(),
                sluice_storage::plain_error(&error)
            ))
        })?,
        None => Vec::new(),
    };
    let mut of_stdin = Vec::new();
    if line.stdin {
        use std::io::Read;
        std::io::stdin().read_to_end(&mut of_stdin).map_err(|error| {
            Failure::new(format!("reading the configuration from standard input: {error}\n"))
        })?;
    }
    Ok(ConfigTexts { file, of_file, stdin: line.stdin, of_stdin, options: line.options })
}

/// A configuration and its source.
struct LoadedConfig {
    config: Config,
    /// The `user` and `role` lines, which were taken out of the configuration.
    user_lines: JudgedLines,
    file: Option<PathBuf>,
    source: String,
}

fn load(words: &[Vec<u8>]) -> Result<LoadedConfig, Failure> {
    let texts = read(words)?;
    // The path is made absolute before the lines are applied, because a `dir` line changes the meaning of
    // a relative path.
    let file = texts.file.as_ref().map(|path| std::path::absolute(path).unwrap_or(path.clone()));
    let text = match texts.stdin {
        true => [&texts.of_file, b"\n".as_slice(), &texts.of_stdin].concat(),
        false => texts.of_file.clone(),
    };
    let fail = |error: sluice_config::LoadError| Failure::new(error.report(cli::COMPATIBLE));
    let mut config =
        sluice_config::parse_file(&text, &texts.origin(), &texts.options, &mut ConfigSurroundings)
            .map_err(fail)?;
    let user_lines = users::take_lines(&mut config).map_err(fail)?;
    sluice_commands::renames(&config).map_err(fail)?;
    let source = texts.source();
    Ok(LoadedConfig { config, user_lines, file, source })
}

/// Access to the folders and files of the machine, for `include` and `dir` lines.
struct ConfigSurroundings;

impl Loader for ConfigSurroundings {
    fn include(&mut self, pattern: &[u8]) -> Result<Vec<(String, Vec<u8>)>, String> {
        include(pattern)
    }

    fn enter(&mut self, folder: &[u8]) -> Result<(), String> {
        let entered = std::env::set_current_dir(std::ffi::OsStr::from_bytes(folder));
        entered.map_err(|error| sluice_storage::plain_error(&error))
    }
}

/// Reads the files that an `include` names; a pattern may match no file.
fn include(pattern: &[u8]) -> Result<Vec<(String, Vec<u8>)>, String> {
    let text = String::from_utf8_lossy(pattern).into_owned();
    let is_pattern = text.contains(['*', '?', '[']);
    let paths: Vec<PathBuf> = if is_pattern { matching(&text) } else { vec![PathBuf::from(&text)] };
    paths
        .into_iter()
        .map(|path| {
            let contents = std::fs::read(&path).map_err(|error| sluice_storage::plain_error(&error))?;
            Ok((path.display().to_string(), contents))
        })
        .collect()
}

/// The files whose last path component matches; only that component may be a pattern.
fn matching(pattern: &str) -> Vec<PathBuf> {
    let path = Path::new(pattern);
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().map(|n| n.as_bytes().to_vec()).unwrap_or_default();
    let Ok(entries) = std::fs::read_dir(parent) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| sluice_base::glob::matches(&name, entry.file_name().as_bytes()))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

/// Serves until the server ends. Returns the exit status. `host` creates the host, which is done after
/// the fork of `daemonize`, because the log shows the id of the process that serves.
fn serve(loaded: LoadedConfig, host: impl FnOnce() -> Host) -> Result<u8, Failure> {
    let LoadedConfig { mut config, user_lines, file, source } = loaded;
    show_directory(&mut config)?;
    if config.bool(param::DAEMONIZE) && supervisor::of(&config).is_none() {
        detach::leave_terminal().map_err(|error| Failure::new(format!("becoming a daemon: {error}\n")))?;
    }
    let mut host = host();
    host.settings.config_file = file;
    open_log(&mut host, &config)?;
    let fail = |host: &mut Host, text: String| {
        host.note(LogLevel::Warning, &text);
        Failure::new(format!("{text}\n"))
    };
    crash::install(host.log.file(), cli::VERSION, host.allocator)
        .map_err(|error| fail(&mut host, format!("preparing crash reports: {error}")))?;
    crash::report_faults(config.bool(param::CRASH_LOG_ENABLED));
    supervisor::stop_for_upstart(&config, &mut host);
    shape_process(&mut host, &config);
    log_start(&mut host, &config, &source);
    limit_clients(&mut host, &mut config);
    log_mode(&mut host, &config);
    host.warn_of_container(&config);
    let users = users_of(&mut host, &mut config, user_lines)?;
    host.apply_tls(&config)
        .map_err(|_| fail(&mut host, "Failed to configure TLS. Check logs for more info.".to_owned()))?;
    let node = NodeStart::prepare(&mut host, &config).map_err(|text| fail(&mut host, text))?;
    listen_everywhere(&mut host, &config).map_err(|text| fail(&mut host, text))?;
    host.apply_metrics(&config).map_err(|text| fail(&mut host, text))?;
    let signals = Signals::install()
        .map_err(|error| fail(&mut host, format!("installing signal handlers: {error}")))?;
    let opened = open_event_loop(&mut host, &config).map_err(|text| fail(&mut host, text))?;
    host.status.socket = sluice_daemon::systemd::wanted(&config);
    host.set_facts(opened.event_loop.name(), &opened.reason, supervisor::of(&config));
    // A failure of the following two steps is logged, and does not prevent the start.
    let _ = host.apply_oom_score(&config);
    let _ = host.apply_allocator_thread(&config);
    let seeds = seeds(&config).map_err(|error| fail(&mut host, error))?;
    #[cfg(debug_assertions)]
    if crate::test_switches::number(crate::test_switches::ALLOCATOR_FAULT).is_some() {
        host.allocator.fault_when_growing();
    }
    let mut engine = Engine::new(config, seeds, &mut host);
    engine.install_users(users);
    let node = node.map(|node| node.begin(&mut engine, &mut host, opened.event_loop.waker())).transpose();
    let node = node.map_err(|text| fail(&mut host, text))?;
    host.note(LogLevel::Notice, "Server initialized");
    host.claim_data(engine.config()).map_err(|text| fail(&mut host, text))?;
    let Ok(begun) = begin_load(&mut engine, &mut host) else {
        host.note(LogLevel::Warning, loader::NOT_LOADED);
        node.into_iter().for_each(|mut file| drop(file.close()));
        return Ok(1);
    };
    let waits = engine.node().is_some_and(Cluster::is_primary) && matches!(begun, Begun::UnderWay(_));
    // The server is never dropped, because at exit the kernel frees the memory faster than dropping each
    // value would.
    let mut server = std::mem::ManuallyDrop::new(Server::new(engine, host, opened.event_loop, signals));
    if let Some(file) = node {
        server.join_cluster(file, waits);
    }
    match begun {
        Begun::UnderWay(folder) => server.open_when_loaded(folder),
        Begun::Done(folder) => {
            if server.open_aof(folder).is_err() {
                return Ok(1);
            }
            server.say(announce);
        }
    }
    Ok(server.run() as u8)
}

/// Opens the main thread's event loop, and starts the lazy free thread.
fn open_event_loop(host: &mut Host, config: &Config) -> Result<Opened, String> {
    let backend = iteration::backend_of(config);
    let opened = AnyLoop::choose(backend, &sluice_evloop::Config::default())
        .map_err(|error| format!("opening the event loop: {error}"))?;
    host.note(LogLevel::Notice, &format!("event loop: {}", opened.reason));
    let bio = LazyFreeThread::start(&config.str(param::BIO_CPULIST))
        .map_err(|error| format!("starting the background thread: {error}"))?;
    host.bio = Some(bio);
    Ok(opened)
}

/// The state of loading the data when the server begins to run.
enum Begun {
    /// A thread loads the data. Holds the folder of the append-only file that is opened after the load;
    /// `None` if the append-only file is off.
    UnderWay(Option<sluice_storage::aof::Folder>),
    /// All data are loaded, or there are none. Holds the folder of the append-only file that is to be
    /// opened; `None` if the append-only file is off.
    Done(Option<sluice_storage::aof::Folder>),
}

/// Removes the temporary files of interrupted saves, and begins to load the append-only file or, if that
/// is off, the snapshot file. If the append-only file is on but does not exist, nothing is loaded.
fn begin_load(engine: &mut Engine, host: &mut Host) -> Result<Begun, NotLoaded> {
    let storage = host.storage.clone();
    temporary::remove_left_over(storage.as_ref(), Path::new("."), &mut |text| {
        host.note(LogLevel::Notice, &text);
    });
    let read = sluice_storage::aof::Folder::read(storage, engine.config());
    let mut folder = read.map_err(|lines| {
        lines.iter().for_each(|line| host.note(LogLevel::Warning, line));
        NotLoaded::Failed
    })?;
    if !engine.config().bool(param::APPENDONLY) {
        if folder.manifest().files().next().is_some() {
            let line = format!(
                "WARNING: {} holds an append-only file, which was not loaded because appendonly is no. Set appendonly yes and restart if its data are wanted",
                folder.path().display()
            );
            host.note(LogLevel::Warning, &line);
        }
        return Ok(match engine.begin_load_at_start(host)? {
            true => Begun::UnderWay(None),
            false => Begun::Done(None),
        });
    }
    folder.remove_left_over(&mut |text| host.note(LogLevel::Notice, &text));
    match folder.take_over_old() {
        Ok(None) => {}
        Ok(Some(line)) => host.note(LogLevel::Notice, &line),
        Err(line) => {
            host.note(LogLevel::Warning, &line);
            return Err(NotLoaded::Failed);
        }
    }
    let files = aof::NamedFiles::of(&folder, aof::FileEnding::CutOff);
    if files.is_empty() {
        keep_unloaded_snapshot(engine, host);
        return Ok(Begun::Done(Some(folder)));
    }
    engine.begin_aof_load_at_start(Box::new(files), host);
    Ok(Begun::UnderWay(Some(folder)))
}

/// Keeps an RDB file that was not loaded, because a new append-only file begins without data, as in Valkey.
/// The RDB file gets a second name, so that its data remain after the next save. If it cannot get a second
/// name, saves do not replace it.
fn keep_unloaded_snapshot(engine: &mut Engine, host: &mut Host) {
    let name = std::ffi::OsStr::from_bytes(engine.config().bytes(param::DBFILENAME)).to_owned();
    let storage = host.storage.clone();
    if storage.open(Path::new(&name)).and_then(|file| file.size()).unwrap_or(0) == 0 {
        return;
    }
    let kept = sluice_storage::second_name(storage.as_ref(), Path::new(&name), "not-loaded");
    let name = name.display();
    let line = match kept {
        Ok(second) => format!(
            "WARNING: the RDB file {name} was not loaded, because appendonly is yes and there is no append-only file: the \
             server starts without data. {} is a second name of the file, which no save replaces. To load it: SHUTDOWN NOSAVE, start with \
             appendonly no and this name as dbfilename, then CONFIG SET appendonly yes",
            second.display()
        ),
        Err(error) => {
            engine.keep_unloaded_snapshot();
            format!(
                "WARNING: the RDB file {name} was not loaded, because appendonly is yes and there is no append-only file: \
                 the server starts without data, and no save replaces the file, as it cannot have a second name: {}",
                sluice_storage::plain_error(&error)
            )
        }
    };
    host.note(LogLevel::Warning, &line);
}

/// Sets `dir` to the path of the working directory that the kernel reports. The `dir` lines have been applied
/// in order, so a line may be relative to an earlier one.
fn show_directory(config: &mut Config) -> Result<(), Failure> {
    let fail = |config: &Config, reason: &str| {
        Failure::new(config.cannot_apply(param::DIR, reason).report(cli::COMPATIBLE))
    };
    let path = std::env::current_dir().map_err(|error| fail(config, &sluice_storage::plain_error(&error)))?;
    config.assign(param::DIR, &[path.as_os_str().as_bytes()]).map_err(|reason| fail(config, &reason))
}

/// Sets the process title, huge pages and the processors of the main thread. A failure does not
/// prevent the start.
fn shape_process(host: &mut Host, config: &Config) {
    if config.bool(param::SET_PROC_TITLE) {
        let file =
            host.settings.config_file.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        host.settings.title = Title::take(&file);
        host.show_title(config);
    }
    let huge_pages =
        std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if config.bool(param::DISABLE_THP) && huge_pages.contains("[always]") {
        // Transparent huge pages make the first write of one byte cost two megabytes.
        let _ = nix::sys::prctl::set_thp_disable(true);
    }
    if let Err(reason) = threads::bind_main_thread(&config.str(param::SERVER_CPULIST)) {
        host.note(LogLevel::Warning, &format!("server-cpulist has no effect: {reason}"));
    }
}

fn open_log(host: &mut Host, config: &Config) -> Result<(), Failure> {
    host.log.set_file(&config.str(param::LOGFILE)).map_err(|error| {
        let reason = format!("Can't open the log file: {}", sluice_storage::plain_error(&error));
        Failure::new(config.cannot_apply(param::LOGFILE, &reason).report(cli::COMPATIBLE))
    })?;
    host.apply_log_config(config);
    if config.bool(param::SYSLOG_ENABLED) {
        match Syslog::open(
            &config.str(param::SYSLOG_IDENT),
            config.choice::<SyslogFacility>(param::SYSLOG_FACILITY),
        ) {
            Ok(syslog) => host.log.set_syslog(syslog),
            Err(error) => host.note(LogLevel::Warning, &format!("Cannot write to the system log: {error}")),
        }
    }
    Ok(())
}

/// Lowers `maxclients` to the number that the system's limit of file descriptors allows.
fn limit_clients(host: &mut Host, config: &mut Config) {
    let allowed = listen::adjust_descriptor_limit(config, &mut |text| host.note(LogLevel::Warning, &text));
    if allowed < config.uint(param::MAXCLIENTS) {
        let _ = config.assign(param::MAXCLIENTS, &[allowed.to_string().as_bytes()]);
    }
}

/// The users of the configuration, or of the file that `aclfile` names. A fault in them ends the start.
fn users_of(host: &mut Host, config: &mut Config, lines: JudgedLines) -> Result<Users, Failure> {
    let storage = host.storage.clone();
    let started = users::at_start(config, &lines, storage.as_ref()).map_err(|lines| {
        lines.iter().for_each(|line| host.note(LogLevel::Warning, line));
        Failure::new(lines.join("\n") + "\n")
    })?;
    for (level, text) in &started.notes {
        host.note(*level, text);
    }
    config.keep_outside(started.outside);
    Ok(started.users)
}

fn listen_everywhere(host: &mut Host, config: &Config) -> Result<(), String> {
    let mut warnings = Vec::new();
    let tcp = host.settings.listening.listen_tcp_at_start(config, &mut |text| warnings.push(text));
    let unix = host.settings.listening.listen_unix(config);
    let bus = host.settings.bus.listen_tcp_at_start(config, &mut |text| warnings.push(text));
    let nowhere = host.settings.listening.active().is_empty();
    for text in warnings {
        host.note(LogLevel::Warning, &text);
    }
    let longest = std::fs::read_to_string("/proc/sys/net/core/somaxconn")
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let backlog = config.int(param::TCP_BACKLOG);
    if let Some(longest) = longest.filter(|longest: &i64| *longest > 0 && *longest < backlog) {
        let text = format!(
            "The TCP backlog setting of {backlog} cannot be enforced because /proc/sys/net/core/somaxconn is set to the \
             lower value of {longest}."
        );
        host.note(LogLevel::Warning, &text);
    }
    tcp.map_err(|error| format!("Failed listening on port {}, aborting.", error.port()))?;
    unix.map_err(|error| format!("Failed {error}"))?;
    bus.map_err(|error| format!("Failed listening on port {}, aborting.", error.port()))?;
    if nowhere { Err("Configured to not listen anywhere, exiting.".to_owned()) } else { Ok(()) }
}

fn log_start(host: &mut Host, config: &Config, source: &str) {
    host.note(LogLevel::Notice, "Sluice is starting");
    let pid = std::process::id();
    let version = cli::VERSION;
    host.note(
        LogLevel::Notice,
        &format!(
            "Sluice version={version}, bits={}, compatible with Valkey {}, pid={pid}, just started",
            usize::BITS,
            cli::COMPATIBLE
        ),
    );
    host.note(LogLevel::Notice, &format!("Configuration loaded from {source}"));
    for (_, text) in config.without_effect() {
        host.note(LogLevel::Warning, &text);
    }
    host.log_endpoint_rules(config);
    log_persistence(host, config);
    host.report_clock();
    host.write_pid_file(config);
}

/// Logs which data a crash loses if the append-only file is off, so that operators know this before a
/// crash.
fn log_persistence(host: &mut Host, config: &Config) {
    if config.bool(param::APPENDONLY) {
        return;
    }
    let how = match config.save_points().is_empty() {
        true => "only when SAVE or BGSAVE is sent, and not at a shutdown, because there are no save points",
        false => "at save points, by SAVE and BGSAVE, and at a regular shutdown",
    };
    let text = format!(
        "The AOF is off: data are saved {how}. Writes since the last save are lost if the process is killed or the machine fails."
    );
    host.note(LogLevel::Warning, &text);
}

fn log_mode(host: &mut Host, config: &Config) {
    let (version, pid) = (cli::VERSION, std::process::id());
    let mode = if config.bool(param::CLUSTER_ENABLED) { "cluster" } else { "standalone" };
    let port = match config.int(param::PORT) {
        0 => config.int(param::TLS_PORT),
        port => port,
    };
    let to_terminal = std::io::IsTerminal::is_terminal(&std::io::stdout()) && host.log.file().is_none();
    if config.bool(param::ALWAYS_SHOW_LOGO) || to_terminal {
        let banner = format!(
            "\n  ~~~~|  Sluice {version}, {} bit\n  ~~~~|  Port: {port}\n      |~~~~  PID: {pid}\n\n",
            usize::BITS
        );
        host.log.raw(banner.as_bytes());
    } else {
        host.note(LogLevel::Notice, &format!("Running mode={mode}, port={port}."));
    }
}

/// Announces that clients are served: logs the addresses, and notifies the supervisor.
pub fn announce(host: &mut Host, config: &Config) {
    let listeners = host.settings.listening.active().to_vec();
    for listener in &listeners {
        let address = match &listener.kind {
            listen::ListenerKind::Tcp { word, port, .. } => {
                let what = if listener.is_tls() { " (TLS)" } else { "" };
                format!("{} port {port}{what}", word.trim_start_matches('-'))
            }
            listen::ListenerKind::Unix(path) => format!("unix socket {path}"),
        };
        host.note(LogLevel::Notice, &format!("listening on {address}"));
    }
    let bus: Vec<&str> = host.settings.bus.active().iter().filter_map(listen::Listener::word).collect();
    if !bus.is_empty() {
        let port = sluice_control::cluster::settings::bus_port(config);
        let text = format!("listening for the cluster bus on {} port {port}", bus.join(" ").replace('-', ""));
        host.note(LogLevel::Notice, &text);
    }
    note_metrics(host, config);
    if listeners.iter().any(|l| l.word().is_some() && !l.is_tls()) {
        host.note(LogLevel::Notice, "Ready to accept connections tcp");
    }
    if let Some(path) = listeners.iter().find_map(listen::Listener::path) {
        host.note(LogLevel::Notice, &format!("Ready to accept connections unix ({path})"));
    }
    if listeners.iter().any(listen::Listener::is_tls) {
        host.note(LogLevel::Notice, "Ready to accept connections tls");
    }
    supervisor::report_state(config, &format!("STATUS={READY}\nREADY=1\n"), host);
    host.status.note_ready();
}

/// Logs the URLs of the page and of the metrics, at the first address of the metrics endpoint.
fn note_metrics(host: &mut Host, config: &Config) {
    let scheme = if config.bool(param::METRICS_TLS) { "https" } else { "http" };
    let urls: Vec<String> = host
        .settings
        .metrics
        .active()
        .iter()
        .filter_map(|listener| match &listener.kind {
            listen::ListenerKind::Tcp { word, port, .. } => Some((word.trim_start_matches('-'), port)),
            listen::ListenerKind::Unix(_) => None,
        })
        .map(|(word, port)| match word.contains(':') {
            true => format!("{scheme}://[{word}]:{port}/"),
            false => format!("{scheme}://{word}:{port}/"),
        })
        .collect();
    if let Some(first) = urls.first() {
        let text = format!("The page is at {first}, metrics for Prometheus at {first}metrics");
        host.note(LogLevel::Notice, &text);
    }
}

/// Returns random seeds. With `hash-seed` the order of keys is the same in every run and on every server.
fn seeds(config: &Config) -> Result<Seeds, String> {
    let mut bytes = [0u8; 24];
    getrandom::fill(&mut bytes).map_err(|error| format!("the system gives no random numbers: {error}"))?;
    let word = |i: usize| u64::from_le_bytes(std::array::from_fn(|j| bytes[i * 8 + j]));
    let hash = match config.text(param::HASH_SEED) {
        Some(text) => {
            let half = |k0| siphash13(HashSeed { k0, k1: 0 }, text);
            HashSeed { k0: half(0), k1: half(1) }
        }
        None => HashSeed { k0: word(0), k1: word(1) },
    };
    Ok(Seeds { hash, rng: word(2) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_random_unless_one_is_given() {
        let seed_of = |text: &str| {
            let parsed =
                sluice_config::parse_file(text.as_bytes(), "test", b"", &mut |_: &[u8]| Ok(Vec::new()));
            seeds(&parsed.expect("a configuration")).expect("randomness").hash
        };
        assert_eq!(seed_of("hash-seed a"), seed_of("hash-seed a"));
        assert_ne!(seed_of("hash-seed a"), seed_of("hash-seed b"));
        assert_ne!(seed_of(""), seed_of(""));
        assert_ne!(seed_of("hash-seed a").k0, seed_of("hash-seed a").k1);
    }
}
