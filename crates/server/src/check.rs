//! `--check-config`: finds all faults of a configuration without starting a server.
//!
//! Invariants: (1) nothing that a running server uses is changed: no file is created, and no socket listens;
//! (2) an error is a fault with which a server would not start; a warning is a fault that a starting server
//! would only log, or that may have ended by then, such as a port in use; (3) if a line causes a finding,
//! the finding names the file and the line.

use crate::bus::start::port_refusal;
use crate::listen::{self, BindProblem};
use crate::metrics;
use crate::net::tls;
use crate::storage;
use crate::users;
use sluice_config::{Config, LoadError, ParamId, param};
use sluice_daemon::named_file;
use sluice_storage::{can_create, can_write_into, plain_error};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The faults that a check has found.
#[derive(Debug, Default)]
pub struct ConfigFindings {
    /// Faults with which a server would not start, as text.
    pub errors: Vec<String>,
    /// Faults that need not prevent a start, as text.
    pub warnings: Vec<String>,
}

/// Checks the configuration in `texts`, each with its name. `loader` changes to the configured `dir`, as
/// at a start.
pub fn check(texts: &[(&str, &[u8])], loader: &mut dyn sluice_config::Loader) -> ConfigFindings {
    let (config, errors) = sluice_config::check_texts(texts, loader);
    let errors = errors.into_iter().chain(sluice_commands::rename_errors(&config));
    let mut findings =
        ConfigFindings { errors: errors.map(|error| error.to_string()).collect(), warnings: Vec::new() };
    for (id, text) in config.without_effect() {
        findings.warning(&config, id, &text);
    }
    findings.folders(&config);
    findings.users(&config);
    findings.certificates(&config);
    findings.addresses(&config);
    findings.node(&config);
    findings.metrics(&config);
    findings
}

impl ConfigFindings {
    /// Checks `dir`, the log file and the PID file.
    fn folders(&mut self, config: &Config) {
        if let Err(error) = can_write_into(Path::new(".")) {
            let text = format!("nothing can be saved in this folder: {}", plain_error(&error));
            self.warning(config, param::DIR, &text);
        }
        if let Some(Err(error)) = file_of(config.bytes(param::LOGFILE)).map(can_append) {
            self.error(config, param::LOGFILE, &format!("Can't open the log file: {}", plain_error(&error)));
        }
        let pid_file = config.bytes(param::PIDFILE);
        let can_write = |path: &Path| {
            can_append(path).and_then(|()| match path.exists() {
                true => named_file::try_pid(path),
                false => Ok(()),
            })
        };
        if let Some(Err(error)) = file_of(pid_file).map(can_write) {
            self.warning(
                config,
                param::PIDFILE,
                &format!("Failed to write PID file: {}", plain_error(&error)),
            );
        }
    }

    /// Checks the lines that define users, and the file of users, whose path is relative to `dir`.
    fn users(&mut self, config: &Config) {
        let found = users::check(config, storage::of_process().as_ref());
        self.errors.extend(found.errors.iter().map(ToString::to_string));
        self.warnings.extend(found.notes.iter().map(ToString::to_string));
        found.file_errors.iter().for_each(|text| self.error(config, param::ACLFILE, text));
        found.file_notes.iter().for_each(|text| self.warning(config, param::ACLFILE, text));
    }

    /// Checks certificates and TLS settings, whose paths are relative to `dir`.
    fn certificates(&mut self, config: &Config) {
        if let Err(text) = tls::check(config, storage::of_process().as_ref()) {
            // A missing setting has no line, so the error names the line that turns TLS on.
            let asks = if config.int(param::TLS_PORT) != 0 {
                param::TLS_PORT.any()
            } else {
                param::METRICS_TLS.any()
            };
            self.error(config, first_set(config, [tls::directive_of(config, &text), asks]), &text);
        }
    }

    /// Checks the TCP addresses for clients, the unix socket and its group, and that at least one address is
    /// configured.
    fn addresses(&mut self, config: &Config) {
        self.bind_problems(config, param::BIND.any(), listen::try_tcp(config));
        match listen::try_unix(config) {
            Ok(None) => {}
            Ok(Some(text)) => self.warning(config, param::UNIXSOCKET, &text),
            Err(text) => self.error(config, param::UNIXSOCKET, &text),
        }
        if let Err(text) = listen::try_unix_group(config) {
            self.error(config, param::UNIXSOCKETGROUP, &text);
        }
        let no_port = config.int(param::PORT) == 0 && config.int(param::TLS_PORT) == 0;
        let no_address = no_port || config.list(param::BIND).is_empty();
        if no_address && config.text(param::UNIXSOCKET).is_none() {
            self.error(config, param::PORT, "Configured to not listen anywhere");
        }
    }

    /// Checks the additional needs of a cluster node: the port and the addresses of its bus, and its file.
    fn node(&mut self, config: &Config) {
        if !config.bool(param::CLUSTER_ENABLED) {
            return;
        }
        if let Some((id, text)) = port_refusal(config) {
            self.error(config, id, text);
        }
        self.bind_problems(config, param::CLUSTER_PORT.any(), listen::try_bus(config));
        if let Some(Err(error)) = file_of(config.bytes(param::CLUSTER_CONFIG_FILE)).map(can_append) {
            let text = format!("the cluster configuration file cannot be written: {}", plain_error(&error));
            self.error(config, param::CLUSTER_CONFIG_FILE, &text);
        }
    }

    /// Checks the metrics endpoint's addresses, and that the endpoint is protected if other hosts can reach
    /// it.
    fn metrics(&mut self, config: &Config) {
        if let Some(text) = metrics::refusal(config) {
            self.error(config, param::METRICS_BIND, &text);
        }
        self.bind_problems(config, param::METRICS_BIND.any(), listen::try_metrics(config));
    }

    /// Adds the problems with addresses. Each finding names the line of the addresses, or the line of the
    /// port if only the port is set by a line.
    fn bind_problems(&mut self, config: &Config, bind: ParamId, problems: Vec<(ParamId, BindProblem)>) {
        for (port, problem) in problems {
            let id = first_set(config, [bind, port]);
            match problem {
                BindProblem::Tolerable(text) => self.warning(config, id, &text),
                BindProblem::Fatal(text) => self.error(config, id, &text),
            }
        }
    }

    fn error(&mut self, config: &Config, id: impl Into<ParamId>, reason: &str) {
        self.errors.push(named(config, id.into(), reason));
    }

    fn warning(&mut self, config: &Config, id: impl Into<ParamId>, reason: &str) {
        self.warnings.push(named(config, id.into(), reason));
    }
}

/// The first of these parameters that a line sets; `ids[0]` if no line sets any of them.
fn first_set<const N: usize>(config: &Config, ids: [ParamId; N]) -> ParamId {
    ids.into_iter().find(|id| !is_default(config, *id)).unwrap_or(ids[0])
}

/// Whether no line sets a parameter.
fn is_default(config: &Config, id: ParamId) -> bool {
    matches!(config.cannot_apply(id, ""), LoadError::Line(bad) if bad.location.line == 0)
}

/// The reason together with the line that sets the parameter, or with the parameter's name if no line sets
/// the parameter.
fn named(config: &Config, id: ParamId, reason: &str) -> String {
    match config.cannot_apply(id, reason) {
        _ if is_default(config, id) => format!("{} (default): {reason}", id.param().name),
        error => error.to_string(),
    }
}

/// The file that a parameter names; `None` if the parameter is empty.
fn file_of(bytes: &[u8]) -> Option<&Path> {
    (!bytes.is_empty()).then(|| Path::new(std::ffi::OsStr::from_bytes(bytes)))
}

/// Whether a file can be written, or created if it is missing. Creates and changes nothing.
fn can_append(path: &Path) -> io::Result<()> {
    match named_file::try_append(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => can_create(path),
        tried => tried,
    }
}
