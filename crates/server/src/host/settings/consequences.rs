//! The effects of a configuration change outside the engine.

use crate::bus::start::PORT_TOO_HIGH;
use crate::host::Host;
use crate::listen;
use crate::metrics;
use crate::net::tls;
use crate::users;
use sluice_base::LogLevel;
use sluice_config::choice::{LogFormat, LogLevel as LevelChoice, LogTimestampFormat};
use sluice_config::{Config, ParamId, param};
use sluice_control::process::{ProcessClock, ProcessSettings, UserFile};
use sluice_daemon::log::Style;
use sluice_evloop::Waker;
use sluice_numbers::facts::{CertificateFact, CertificateFacts};
use sluice_storage::plain_error;
use sluice_tls::{CertFacts, CertificateSummary};
use std::os::unix::ffi::OsStrExt;

impl Host {
    /// Applies the log's directives.
    pub fn apply_log_config(&mut self, config: &Config) {
        self.log.set_level(match config.choice::<LevelChoice>(param::LOGLEVEL) {
            LevelChoice::Debug => Some(LogLevel::Debug),
            LevelChoice::Verbose => Some(LogLevel::Verbose),
            LevelChoice::Notice => Some(LogLevel::Notice),
            LevelChoice::Warning => Some(LogLevel::Warning),
            LevelChoice::Nothing => None,
        });
        self.log.set_style(Style {
            format: config.choice::<LogFormat>(param::LOG_FORMAT),
            time: config.choice::<LogTimestampFormat>(param::LOG_TIMESTAMP_FORMAT),
        });
    }

    /// Applies `oom-score-adj`. Errors: a text for the client.
    pub fn apply_oom_score(&mut self, config: &Config) -> Result<(), String> {
        self.settings.oom_score.apply(config).map_err(|error| {
            self.log_oom_error(&error);
            "Failed to apply new oom_score_adj configuration, check server logs.".to_owned()
        })
    }

    /// Applies the value of `oom-score-adj-values` for a new role. An error is logged.
    pub fn adjust_oom_score(&mut self, is_replica: bool) {
        if let Err(error) = self.settings.oom_score.set_role(is_replica) {
            self.log_oom_error(&error);
        }
    }

    fn log_oom_error(&mut self, error: &std::io::Error) {
        self.note(LogLevel::Warning, &format!("Unable to write oom_score_adj: {}", plain_error(error)));
    }

    /// Starts or ends the allocator's own background thread, as `jemalloc-bg-thread` says. Errors: a text
    /// for the client.
    pub fn apply_allocator_thread(&mut self, config: &Config) -> Result<(), String> {
        let (done, verb) = match config.bool(param::JEMALLOC_BG_THREAD) {
            true => (self.allocator.start_background_thread(), "start"),
            false => (self.allocator.end_background_thread(), "end"),
        };
        done.map_err(|reason| {
            let text = format!("Could not {verb} the allocator's background thread: {reason}");
            self.note(LogLevel::Warning, &text);
            text
        })
    }

    /// Logs the rules of `announce-endpoint-for`, so that an operator can check them, because even a rule
    /// that names a wrong node or network is valid.
    pub fn log_endpoint_rules(&mut self, config: &Config) {
        let rules = config.endpoint_rules();
        if rules.is_empty() {
            return;
        }
        if !config.bool(param::CLUSTER_ENABLED) {
            let text = "announce-endpoint-for has no effect: this server is not a node of a cluster";
            return self.note(LogLevel::Warning, text);
        }
        for rule in rules.iter().take(ENDPOINT_RULES_LOGGED) {
            self.note(LogLevel::Notice, &format!("announce-endpoint-for: {}", rule.described()));
        }
        let left = rules.len().saturating_sub(ENDPOINT_RULES_LOGGED);
        if left > 0 {
            self.note(LogLevel::Notice, &format!("announce-endpoint-for: {left} more rules, not logged"));
        }
    }

    /// Applies the configured process title.
    pub fn show_title(&mut self, config: &Config) {
        if let Some(title) = &mut self.settings.title {
            title.show(config);
        }
    }

    /// Puts the configured certificates and TLS settings in force, and drops the connections that MIGRATE
    /// keeps. Errors: a text for the client; the log has the reason.
    pub fn apply_tls(&mut self, config: &Config) -> Result<(), String> {
        let storage = self.storage.clone();
        self.kept_links.forget();
        self.settings.tls.apply(config, storage.as_ref()).map_err(|reason| {
            self.note(LogLevel::Warning, &reason);
            "Unable to update TLS configuration. Check server logs.".to_owned()
        })
    }

    /// Listens on the configured metrics port. The endpoint's thread gets the sockets at the end of the
    /// iteration. Errors: a text for the client.
    pub fn apply_metrics(&mut self, config: &Config) -> Result<(), String> {
        if let Some(refusal) = metrics::refusal(config) {
            return Err(refusal);
        }
        let mut warnings = Vec::new();
        let listened = self.settings.metrics.listen_tcp(config, &mut |text| warnings.push(text));
        for text in warnings {
            self.note(LogLevel::Warning, &text);
        }
        self.settings.metrics_changed = true;
        self.settings.changed = true;
        listened.map_err(|error| error.to_string())?;
        if config.int(param::METRICS_PORT) != 0 {
            self.allow_threads(config);
        }
        Ok(())
    }

    /// Puts changed TLS settings in force, also for the metrics endpoint. Errors: a text for the client.
    fn apply_tls_everywhere(&mut self, config: &Config) -> Result<(), String> {
        self.apply_tls(config)?;
        if config.int(param::METRICS_PORT) != 0 { self.apply_metrics(config) } else { Ok(()) }
    }

    /// The certificates in force, for INFO.
    pub fn certificate_facts(&self) -> CertificateFacts {
        let CertificateSummary { server, server_alt, client, ca } = self.settings.tls.facts();
        let shown = |fact: Option<CertFacts>| {
            fact.map(|fact| CertificateFact { serial: fact.serial, expires_at_s: fact.expires_at_s })
        };
        CertificateFacts {
            server: shown(server),
            server_alt: shown(server_alt),
            client: shown(client),
            authority: shown(ca),
        }
    }

    /// Checks at intervals whether certificate files have changed. Called by the cron.
    pub fn look_at_certificates(&mut self, config: &Config, waker: Waker) {
        let now_s = self.recent().mono_ns / 1_000_000_000;
        let storage = self.storage.clone();
        if let Some((level, line)) = self.settings.tls.tick(config, &storage, waker, now_s) {
            self.note(level, &line);
            // The metrics endpoint gets the changed TLS context, because new connections to the endpoint must
            // use the context in force.
            self.settings.metrics_changed |= tls::is_wanted_by_metrics(config);
            self.settings.changed |= self.settings.metrics_changed;
        }
    }

    pub(super) fn listen_tcp(&mut self, config: &Config) -> Result<(), ()> {
        let mut warnings = Vec::new();
        let listened = self.settings.listening.listen_tcp(config, &mut |text| warnings.push(text));
        for text in warnings {
            self.note(LogLevel::Warning, &text);
        }
        self.shown.fixed.listeners = self.settings.listening.info_lines();
        self.settings.changed = true;
        self.show_title(config);
        listened.map_err(drop)?;
        self.listen_on_bus(config)
    }

    /// Listens on the bus port if the server is configured as a cluster node. The number of this port may
    /// follow from the clients' port.
    fn listen_on_bus(&mut self, config: &Config) -> Result<(), ()> {
        if !config.bool(param::CLUSTER_ENABLED) {
            return Ok(());
        }
        if listen::bus_port(config).is_none() {
            self.note(LogLevel::Warning, PORT_TOO_HIGH);
            return Err(());
        }
        let mut warnings = Vec::new();
        let listened = self.settings.bus.listen_tcp(config, &mut |text| warnings.push(text));
        for text in warnings {
            self.note(LogLevel::Warning, &text);
        }
        self.settings.changed = true;
        listened.map_err(drop)
    }

    /// Adjusts the descriptor limit to the configured threads. Threads take precedence. If too few
    /// descriptors are left for `maxclients`, a warning is logged.
    fn allow_threads(&mut self, config: &Config) {
        let allowed = listen::adjust_descriptor_limit(config, &mut drop);
        if allowed < config.uint(param::MAXCLIENTS) {
            let text = format!(
                "With io-threads {} there are file descriptors for {allowed} clients only, fewer than maxclients: raise 'ulimit -n'.",
                config.uint(param::IO_THREADS_NUM)
            );
            self.note(LogLevel::Warning, &text);
        }
    }

    fn allow_clients(&mut self, config: &Config) -> Result<(), String> {
        let allowed =
            listen::adjust_descriptor_limit(config, &mut |text| self.note(LogLevel::Warning, &text));
        if allowed >= config.uint(param::MAXCLIENTS) {
            return Ok(());
        }
        Err(format!(
            "The operating system is not able to handle the specified number of clients, try with {allowed}"
        ))
    }
}

/// Maximum number of rules of `announce-endpoint-for` that are logged.
const ENDPOINT_RULES_LOGGED: usize = 50;

/// The function that the process calls after a CONFIG SET of certain directives ([`CONFIG_EFFECTS`]). All
/// other directives are read when needed, by the process and the engine. Errors: a text for the client.
type ConfigEffect = fn(&mut Host, &Config) -> Result<(), String>;
const CONFIG_EFFECTS: &[(&[ParamId], ConfigEffect)] = &[
    (&[param::PORT.any()], |host, config| {
        let refused = "Unable to listen on this port. Check server logs.";
        host.listen_tcp(config).map_err(|()| refused.to_owned())
    }),
    (&[param::TLS_PORT.any()], |host, config| {
        host.apply_tls(config)?;
        let refused = "Unable to listen on this port. Check server logs.";
        host.listen_tcp(config).map_err(|()| refused.to_owned())
    }),
    (TLS_DIRECTIVES, Host::apply_tls_everywhere),
    (&[param::TLS_CLUSTER.any()], |host, config| {
        host.apply_tls_everywhere(config)?;
        // If `cluster-port` is not set, the bus port follows from `tls-port` if `tls-cluster` is on, and
        // otherwise from `port`.
        let refused = "Unable to listen on the port of the cluster bus. Check server logs.";
        host.listen_on_bus(config).map_err(|()| refused.to_owned())
    }),
    (
        &[
            param::METRICS_PORT.any(),
            param::METRICS_BIND.any(),
            param::METRICS_TOKEN.any(),
            param::METRICS_TLS.any(),
        ],
        |host, config| {
            host.apply_tls(config)?;
            host.apply_metrics(config)
        },
    ),
    (&[param::BIND.any()], |host, config| {
        host.listen_tcp(config).map_err(|()| "Failed to bind to specified addresses.".to_owned())
    }),
    (&[param::MAXCLIENTS.any()], |host, config| host.allow_clients(config)),
    (&[param::MAXCLIENTS_RESERVED.any()], |host, config| {
        if config.uint(param::MAXCLIENTS_RESERVED) >= config.uint(param::MAXCLIENTS) {
            return Err("maxclients-reserved must be less than maxclients, or nobody else gets in".to_owned());
        }
        host.settings.changed = true;
        Ok(())
    }),
    (
        &[
            param::PRIORITY_SUBNETS.any(),
            param::TCP_KEEPALIVE.any(),
            param::CLUSTER_NODE_TIMEOUT.any(),
            param::EVENT_LOOP_BATCH_WAIT_US.any(),
            param::EVENT_LOOP_BATCH_WAIT_DEPTH.any(),
            param::IO_THREADS_ALWAYS_ACTIVE.any(),
            param::APPENDFSYNC.any(),
            param::AOF_DISABLE_AUTO_GC.any(),
        ],
        |host, _| {
            host.settings.changed = true;
            Ok(())
        },
    ),
    (&[param::IO_THREADS_NUM.any()], |host, config| {
        host.settings.changed = true;
        host.allow_threads(config);
        Ok(())
    }),
    (&[param::DIR.any()], |host, config| {
        let path = std::ffi::OsStr::from_bytes(config.bytes(param::DIR));
        std::env::set_current_dir(path).map_err(|error| plain_error(&error))?;
        // If the claim is refused, the working directory is restored like every other change that was
        // applied.
        host.claim_data(config)
    }),
    (&[param::SAVE.any(), param::DBFILENAME.any()], Host::claim_data),
    (&[param::APPENDONLY.any()], |host, config| {
        host.claim_data(config)?;
        host.prepare_aof(config)
    }),
    (&[param::OOM_SCORE_ADJ.any(), param::OOM_SCORE_ADJ_VALUES.any()], Host::apply_oom_score),
    (&[param::LOGLEVEL.any(), param::LOG_TIMESTAMP_FORMAT.any(), param::LOG_FORMAT.any()], |host, config| {
        host.apply_log_config(config);
        Ok(())
    }),
    (&[param::PROC_TITLE_TEMPLATE.any()], |host, config| {
        host.show_title(config);
        Ok(())
    }),
    (&[param::ANNOUNCE_ENDPOINT_FOR.any()], |host, config| {
        host.log_endpoint_rules(config);
        Ok(())
    }),
    (&[param::CRASH_LOG_ENABLED.any()], |_, config| {
        sluice_daemon::crash::report_faults(config.bool(param::CRASH_LOG_ENABLED));
        Ok(())
    }),
    (&[param::JEMALLOC_BG_THREAD.any()], Host::apply_allocator_thread),
    (&[param::MAXMEMORY.any()], |host, config| {
        host.warn_of_container(config);
        Ok(())
    }),
];

/// Directives on which TLS contexts depend, without the directives that have other effects as well.
const TLS_DIRECTIVES: &[ParamId] = &[
    param::TLS_CERT_FILE.any(),
    param::TLS_KEY_FILE.any(),
    param::TLS_KEY_FILE_PASS.any(),
    param::TLS_ALT_CERT_FILE.any(),
    param::TLS_ALT_KEY_FILE.any(),
    param::TLS_ALT_KEY_FILE_PASS.any(),
    param::TLS_CLIENT_CERT_FILE.any(),
    param::TLS_CLIENT_KEY_FILE.any(),
    param::TLS_CLIENT_KEY_FILE_PASS.any(),
    param::TLS_DH_PARAMS_FILE.any(),
    param::TLS_CA_CERT_FILE.any(),
    param::TLS_CA_CERT_DIR.any(),
    param::TLS_AUTH_CLIENTS.any(),
    param::TLS_REPLICATION.any(),
    param::TLS_PROTOCOLS.any(),
    param::TLS_CIPHERS.any(),
    param::TLS_CIPHERSUITES.any(),
    param::TLS_PREFER_SERVER_CIPHERS.any(),
    param::TLS_SESSION_CACHING.any(),
    param::TLS_SESSION_CACHE_SIZE.any(),
    param::TLS_SESSION_CACHE_TIMEOUT.any(),
    param::TLS_AUTO_RELOAD_INTERVAL.any(),
];

impl ProcessSettings for Host {
    fn apply_config(&mut self, config: &Config, changed: ParamId) -> Result<(), String> {
        let row = CONFIG_EFFECTS.iter().find(|(rows, _)| rows.contains(&changed));
        row.map_or(Ok(()), |(_, apply)| apply(self, config))
    }

    fn in_force(&mut self, changed: ParamId) -> Option<Vec<u8>> {
        if changed != param::DIR.any() {
            return None;
        }
        std::env::current_dir().ok().map(|path| path.as_os_str().as_bytes().to_vec())
    }

    fn rewrite_config(&mut self, make: &mut dyn FnMut(Option<&[u8]>) -> Vec<u8>) -> Result<(), String> {
        let Some(path) = self.settings.config_file.clone() else {
            return Err("The server is running without a config file".to_owned());
        };
        let old = match std::fs::read(&path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(format!("Rewriting config file: {}", plain_error(&error))),
        };
        let new = make(old.as_deref());
        sluice_storage::replace_file(&self.storage, &path, &new).map_err(|error| {
            self.note(LogLevel::Warning, &format!("CONFIG REWRITE failed: {error}"));
            format!("Rewriting config file: {}", plain_error(&error))
        })?;
        self.note(LogLevel::Notice, "CONFIG REWRITE executed with success.");
        Ok(())
    }
}

impl UserFile for Host {
    fn read_user_file(&mut self, path: &[u8]) -> Result<Vec<u8>, String> {
        users::read_user_file(self.storage.as_ref(), path)
    }

    fn replace_user_file(&mut self, path: &[u8], text: &[u8]) -> Result<(), String> {
        users::replace_user_file(&self.storage, path, text)
    }
}
