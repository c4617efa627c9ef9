//! TLS as configured: certificate files are read, validated and made into a [`Context`] for new connections.
//!
//! Invariants: (1) a context in force was validated as a whole; if a file is invalid, the previous
//! context stays in force; (2) a connection keeps the context with which it began; (3) a reload that
//! began before a change of the configuration has no effect.

use crate::threads::Thread;
use sluice_base::{HashSeed, LogLevel, siphash13};
use sluice_clock::{Clock, System};
use sluice_config::choice::{TlsAuthClients, TlsUserField};
use sluice_config::{Config, ParamId, param};
use sluice_evloop::Waker;
use sluice_storage::plain_error;
use sluice_storage::{Storage, read_whole};
use sluice_tls::{CertificateSummary, ClientAuth, Context, NameField, Named, Options, Sources};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

/// The context in force, and the reload under way.
#[derive(Default)]
pub struct TlsState {
    context: Option<Context>,
    /// Whether links to a primary use TLS.
    of_links: bool,
    /// Whether MIGRATE's connections use TLS.
    of_migrations: bool,
    /// Hash of the names and contents of the files from which the context was made.
    fingerprint: u64,
    /// Hash of the settings and file names, without the files' contents.
    settings: u64,
    /// The previous context, in case a CONFIG SET is rolled back, because its files may have changed since
    /// then.
    before: Option<Box<TlsInForce>>,
    reload: Option<Receiver<Reloaded>>,
    /// When the files are checked next, in seconds of the monotonic clock; 0 if no check is planned yet.
    next_look_s: u64,
}

/// A context, with the hashes of its sources.
struct TlsInForce {
    context: Option<Context>,
    fingerprint: u64,
    settings: u64,
}

/// The result of a check of the files.
enum Reloaded {
    Unchanged,
    Changed(Box<Context>, u64),
    Failed(String),
}

impl TlsState {
    /// The context for new connections; `None` if no directive asks for TLS.
    pub fn context(&self) -> Option<&Context> {
        self.context.as_ref()
    }

    /// The context for a link to a primary; `None` for a plain link.
    pub fn context_of_links(&self) -> Option<Context> {
        self.context.clone().filter(|_| self.of_links)
    }

    /// The context for MIGRATE's connections; `None` for plain connections.
    pub fn context_of_migrations(&self) -> Option<Context> {
        self.context.clone().filter(|_| self.of_migrations)
    }

    /// The certificates in force.
    pub fn facts(&self) -> CertificateSummary {
        self.context.as_ref().map_or_else(CertificateSummary::default, |context| context.facts().clone())
    }

    /// Reads and validates the configured files, and puts them in force. If no directive asks for TLS, no
    /// context is in force afterwards.
    ///
    /// # Errors
    /// The fault, as a text for the log. The previous context stays in force.
    pub fn apply(&mut self, config: &Config, storage: &dyn Storage) -> Result<(), String> {
        // The result of a reload in the background is dropped, because the reload belongs to the previous
        // configuration.
        self.reload = None;
        self.next_look_s = 0;
        (self.of_links, self.of_migrations) =
            (config.bool(param::TLS_REPLICATION), config.bool(param::TLS_CLUSTER));
        let plan = TlsPlan::of(config);
        let settings = if is_wanted(config) { plan.settings() } else { 0 };
        let made = match is_wanted(config) {
            false => Ok(TlsInForce { context: None, fingerprint: 0, settings }),
            true => self.make(&plan, settings, storage),
        };
        let next = match (made, self.before.take()) {
            (Ok(next), before) => {
                self.before = before;
                next
            }
            // This is the rollback of a change, so the previous context is put in force again.
            (Err(_), Some(before)) if before.settings == settings && self.settings != settings => *before,
            (Err(reason), before) => {
                self.before = before;
                return Err(reason);
            }
        };
        if (next.fingerprint, next.settings) == (self.fingerprint, self.settings) {
            return Ok(());
        }
        let TlsInForce { context, fingerprint, settings } = next;
        self.before = Some(Box::new(TlsInForce {
            context: std::mem::replace(&mut self.context, context),
            fingerprint: std::mem::replace(&mut self.fingerprint, fingerprint),
            settings: std::mem::replace(&mut self.settings, settings),
        }));
        Ok(())
    }

    /// Reads and validates the files. If nothing has changed, the context in force is kept, with
    /// its ticket keys.
    fn make(&self, plan: &TlsPlan, settings: u64, storage: &dyn Storage) -> Result<TlsInForce, String> {
        let sources = plan.read(storage)?;
        let fingerprint = fingerprint(&sources);
        let is_same = fingerprint == self.fingerprint && settings == self.settings;
        let context = match self.context.clone().filter(|_| is_same) {
            Some(context) => context,
            None => plan.build(&sources)?,
        };
        Ok(TlsInForce { context: Some(context), fingerprint, settings })
    }

    /// Takes the result of a check of the files, or begins another check on a thread when
    /// `tls-auto-reload-interval` has passed. Called at least once a second. `now_s`: seconds of the
    /// monotonic clock. Returns a line for the log, if there is news.
    pub fn tick(
        &mut self,
        config: &Config,
        storage: &Arc<dyn Storage>,
        waker: Waker,
        now_s: u64,
    ) -> Option<(LogLevel, String)> {
        if let Some(line) = self.take_reloaded() {
            return Some(line);
        }
        let interval_s = config.uint(param::TLS_AUTO_RELOAD_INTERVAL);
        if interval_s == 0 || self.context.is_none() {
            self.next_look_s = 0;
            return None;
        }
        if self.next_look_s == 0 || self.next_look_s > now_s + interval_s {
            self.next_look_s = now_s + interval_s;
        }
        if now_s < self.next_look_s || self.reload.is_some() {
            return None;
        }
        self.next_look_s = now_s + interval_s;
        let (plan, storage, before) = (TlsPlan::of(config), storage.clone(), self.fingerprint);
        let (sender, receiver) = channel();
        let started = Thread::TlsReload.start(move || {
            // The send fails if the configuration has changed during the check.
            if sender.send(plan.reload(storage.as_ref(), before)).is_ok() {
                waker.wake();
            }
        });
        match started {
            Ok(_) => {
                self.reload = Some(receiver);
                None
            }
            Err(error) => Some((LogLevel::Warning, not_reloaded(&plain_error(&error)))),
        }
    }

    fn take_reloaded(&mut self) -> Option<(LogLevel, String)> {
        let reloaded = match self.reload.as_ref()?.try_recv() {
            Ok(reloaded) => reloaded,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Reloaded::Failed("its thread has ended".to_owned()),
        };
        self.reload = None;
        Some(match reloaded {
            Reloaded::Unchanged => (LogLevel::Verbose, "TLS reload skipped: materials unchanged".to_owned()),
            Reloaded::Changed(context, fingerprint) => {
                (self.context, self.fingerprint) = (Some(*context), fingerprint);
                (LogLevel::Notice, "TLS materials reloaded successfully".to_owned())
            }
            Reloaded::Failed(reason) => (LogLevel::Warning, not_reloaded(&reason)),
        })
    }
}

fn not_reloaded(reason: &str) -> String {
    format!("TLS materials were not reloaded, the present ones stay in use: {reason}")
}

/// Whether any directive asks for TLS.
pub fn is_wanted(config: &Config) -> bool {
    config.int(param::TLS_PORT) != 0
        || config.bool(param::TLS_REPLICATION)
        || config.bool(param::TLS_CLUSTER)
        || is_wanted_by_metrics(config)
}

/// Whether the metrics endpoint uses TLS.
pub fn is_wanted_by_metrics(config: &Config) -> bool {
    config.int(param::METRICS_PORT) != 0 && config.bool(param::METRICS_TLS)
}

/// The field of a client's certificate whose names select a user; `None` if certificates select no user.
pub fn name_field(config: &Config) -> Option<NameField> {
    match config.choice::<TlsUserField>(param::TLS_AUTH_CLIENTS_USER) {
        TlsUserField::CommonName => Some(NameField::Cn),
        TlsUserField::Uri => Some(NameField::Uri),
        TlsUserField::Off => None,
    }
}

/// Validates the configured files without putting them in force, for `--check-config`.
///
/// # Errors
/// A fault that would end a start.
pub fn check(config: &Config, storage: &dyn Storage) -> Result<(), String> {
    if !is_wanted(config) {
        return Ok(());
    }
    let plan = TlsPlan::of(config);
    plan.build(&plan.read(storage)?).map(drop)
}

/// The directive to which a TLS error belongs. It is the directive that the text names, or whose file the
/// text names, and otherwise `tls-port`.
pub fn directive_of(config: &Config, text: &str) -> ParamId {
    let named = TLS_FILES_AND_WORDS.iter().copied().find(|id| text.contains(id.param().name));
    let by_file = || {
        let value = |id: &&ParamId| config.get(&[id.param().name.as_bytes()]).pop().map(|(_, value)| value);
        let is_there = |value: Vec<u8>| !value.is_empty() && text.contains(&*String::from_utf8_lossy(&value));
        TLS_FILES_AND_WORDS.iter().find(|id| value(id).is_some_and(is_there)).copied()
    };
    named.or_else(by_file).unwrap_or(param::TLS_PORT.any())
}

/// Directives to whose values a TLS error may refer.
const TLS_FILES_AND_WORDS: [ParamId; 11] = [
    param::TLS_CERT_FILE.any(),
    param::TLS_KEY_FILE.any(),
    param::TLS_ALT_CERT_FILE.any(),
    param::TLS_ALT_KEY_FILE.any(),
    param::TLS_CLIENT_CERT_FILE.any(),
    param::TLS_CLIENT_KEY_FILE.any(),
    param::TLS_CA_CERT_FILE.any(),
    param::TLS_CA_CERT_DIR.any(),
    param::TLS_CIPHERSUITES.any(),
    param::TLS_CIPHERS.any(),
    param::TLS_PROTOCOLS.any(),
];

/// The files to read, and the settings that apply to them.
struct TlsPlan {
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    key_pass: Option<Vec<u8>>,
    alt_cert: Option<PathBuf>,
    alt_key: Option<PathBuf>,
    alt_key_pass: Option<Vec<u8>>,
    client_cert: Option<PathBuf>,
    client_key: Option<PathBuf>,
    client_key_pass: Option<Vec<u8>>,
    dh_params: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    ca_folder: Option<PathBuf>,
    needs_authority: bool,
    options: Options,
}

impl TlsPlan {
    fn of(config: &Config) -> TlsPlan {
        let path = |bytes: Option<&[u8]>| {
            bytes
                .filter(|bytes| !bytes.is_empty())
                .map(|bytes| Path::new(OsStr::from_bytes(bytes)).to_owned())
        };
        let secret = |bytes: Option<&[u8]>| bytes.filter(|bytes| !bytes.is_empty()).map(<[u8]>::to_vec);
        let words = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
        let client_auth = match config.choice::<TlsAuthClients>(param::TLS_AUTH_CLIENTS) {
            TlsAuthClients::No => ClientAuth::Off,
            TlsAuthClients::Yes => ClientAuth::Required,
            TlsAuthClients::Optional => ClientAuth::Optional,
        };
        let needs_authority = config.bool(param::TLS_CLUSTER)
            || config.bool(param::TLS_REPLICATION)
            || config.int(param::TLS_PORT) != 0 && client_auth != ClientAuth::Off;
        TlsPlan {
            cert: path(config.text(param::TLS_CERT_FILE)),
            key: path(config.text(param::TLS_KEY_FILE)),
            key_pass: secret(config.text(param::TLS_KEY_FILE_PASS)),
            alt_cert: path(config.text(param::TLS_ALT_CERT_FILE)),
            alt_key: path(config.text(param::TLS_ALT_KEY_FILE)),
            alt_key_pass: secret(config.text(param::TLS_ALT_KEY_FILE_PASS)),
            client_cert: path(config.text(param::TLS_CLIENT_CERT_FILE)),
            client_key: path(config.text(param::TLS_CLIENT_KEY_FILE)),
            client_key_pass: secret(config.text(param::TLS_CLIENT_KEY_FILE_PASS)),
            dh_params: path(config.text(param::TLS_DH_PARAMS_FILE)),
            ca_file: path(config.text(param::TLS_CA_CERT_FILE)),
            ca_folder: path(config.text(param::TLS_CA_CERT_DIR)),
            needs_authority,
            options: Options {
                client_auth,
                protocols: words(config.text(param::TLS_PROTOCOLS)),
                ciphers: words(config.text(param::TLS_CIPHERS)),
                ciphersuites: words(config.text(param::TLS_CIPHERSUITES)),
                prefer_server_ciphers: config.bool(param::TLS_PREFER_SERVER_CIPHERS),
                session_caching: config.bool(param::TLS_SESSION_CACHING),
                session_cache_size: usize::try_from(config.int(param::TLS_SESSION_CACHE_SIZE)).unwrap_or(0),
                session_timeout_s: config.uint(param::TLS_SESSION_CACHE_TIMEOUT),
            },
        }
    }

    /// A hash of the settings and file names; never 0, which stands for no TLS.
    fn settings(&self) -> u64 {
        let TlsPlan { cert, key, key_pass, client_cert, client_key, client_key_pass, .. } = self;
        let TlsPlan { alt_cert, alt_key, alt_key_pass, .. } = self;
        let TlsPlan { dh_params, ca_file, ca_folder, needs_authority, options, .. } = self;
        let files = format!(
            "{cert:?} {key:?} {client_cert:?} {client_key:?} {dh_params:?} {ca_file:?} {ca_folder:?} {alt_cert:?} {alt_key:?}"
        );
        let others =
            format!("{key_pass:?} {client_key_pass:?} {alt_key_pass:?} {needs_authority} {options:?}");
        let seed = HashSeed { k0: siphash13(HashSeed { k0: 1, k1: 2 }, files.as_bytes()), k1: 3 };
        siphash13(seed, others.as_bytes()).max(1)
    }

    fn read(&self, storage: &dyn Storage) -> Result<Sources, String> {
        if self.cert.is_none() {
            return Err("No tls-cert-file configured!".to_owned());
        }
        if self.key.is_none() {
            return Err("No tls-key-file configured!".to_owned());
        }
        if self.needs_authority && self.ca_file.is_none() && self.ca_folder.is_none() {
            return Err("Either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-cluster, \
                        tls-replication or tls-auth-clients are enabled!"
                .to_owned());
        }
        let certificate = |path: &Path| named(storage, path, "certificate");
        let key = |path: &Path| named(storage, path, "private key");
        if let Some(path) = &self.dh_params {
            // Diffie-Hellman parameters are not used, but a name without a file is a mistake nevertheless.
            storage.open(path).map_err(|error| cannot(path, "Diffie-Hellman parameters", &error))?;
        }
        let mut ca = Vec::new();
        if let Some(path) = &self.ca_file {
            ca.push(named(storage, path, "CA certificate(s)")?);
        }
        if let Some(folder) = &self.ca_folder {
            ca.extend(certificates_in(storage, folder)?);
        }
        Ok(Sources {
            cert: self.cert.as_deref().map(certificate).transpose()?,
            key: self.key.as_deref().map(key).transpose()?,
            key_pass: self.key_pass.clone(),
            alt_cert: self.alt_cert.as_deref().map(certificate).transpose()?,
            alt_key: self.alt_key.as_deref().map(key).transpose()?,
            alt_key_pass: self.alt_key_pass.clone(),
            client_cert: self.client_cert.as_deref().map(certificate).transpose()?,
            client_key: self.client_key.as_deref().map(key).transpose()?,
            client_key_pass: self.client_key_pass.clone(),
            ca,
        })
    }

    fn build(&self, sources: &Sources) -> Result<Context, String> {
        Context::build(sources, &self.options, unix_now_s(), unix_now_s).map_err(|error| error.to_string())
    }

    fn reload(&self, storage: &dyn Storage, before: u64) -> Reloaded {
        let sources = match self.read(storage) {
            Ok(sources) => sources,
            Err(reason) => return Reloaded::Failed(reason),
        };
        let now = fingerprint(&sources);
        if now == before {
            return Reloaded::Unchanged;
        }
        match self.build(&sources) {
            Ok(context) => Reloaded::Changed(Box::new(context), now),
            Err(reason) => Reloaded::Failed(reason),
        }
    }
}

/// Unix time in seconds, for the dates of certificates and tickets. Cost: two calls of the kernel's vDSO.
/// A clock that uses the processor's counter would first examine the machine, which costs more than a
/// resumed handshake.
fn unix_now_s() -> i64 {
    Clock::new(System::without_counter()).now().unix_s()
}

fn named(storage: &dyn Storage, path: &Path, what: &str) -> Result<Named, String> {
    let bytes = read_whole(storage, path).map_err(|error| cannot(path, what, &error))?;
    Ok(Named { name: path.display().to_string(), bytes })
}

fn cannot(path: &Path, what: &str, error: &std::io::Error) -> String {
    format!("Failed to load {what}: {}: {}", path.display(), plain_error(error))
}

/// The files of a folder that contain certificates, in the order of their names. Other files are skipped, and
/// so are files with the same contents as an earlier file. The hashed names in OpenSSL's folders have no
/// meaning here.
fn certificates_in(storage: &dyn Storage, folder: &Path) -> Result<Vec<Named>, String> {
    let mut names =
        storage.list(folder).map_err(|error| cannot(folder, "CA certificate directory", &error))?;
    names.sort();
    let mut found: Vec<Named> = Vec::new();
    for name in names {
        let path = folder.join(name);
        // Opening a FIFO would block the start, or the reload thread, until a writer opens it.
        if !path.is_file() {
            continue;
        }
        // An unreadable file is skipped, like a file without certificates.
        let Ok(file) = named(storage, &path, "CA certificate(s)") else { continue };
        if sluice_tls::is_certificates(&file.bytes) && !found.iter().any(|known| known.bytes == file.bytes) {
            found.push(file);
        }
    }
    Ok(found)
}

/// A hash of the names and contents of all certificate and key files.
fn fingerprint(sources: &Sources) -> u64 {
    let Sources { cert, key, alt_cert, alt_key, client_cert, client_key, ca, .. } = sources;
    let mut sum = 0_u64;
    let own = [cert, key, alt_cert, alt_key, client_cert, client_key];
    for file in own.into_iter().flatten().chain(ca) {
        let one = siphash13(HashSeed { k0: sum, k1: 0x5f3c_a1b2 }, &file.bytes);
        sum = siphash13(HashSeed { k0: one, k1: sum }, file.name.as_bytes());
    }
    sum
}
