//! Operations on scripts and libraries that need only the control plane: reports of FUNCTION, and
//! ending a run.

use crate::Control;
use sluice_base::Now;
use sluice_commands::{Args, CmdError, Outcome, Run, until_zero};
use sluice_config::choice::RdbVersionCheck;
use sluice_config::param;
use sluice_persist::rdb::{FunctionsError, ReadOptions, Unknown, dump_functions, restore_functions};
use sluice_resp::Reply;
use sluice_scripts::library::MachineLimits;
use sluice_scripts::shebang::ScriptFlags;
use sluice_scripts::state::{EarlyEnd, machine_limits};
use sluice_session::Session;
use std::sync::Arc;

impl Control {
    /// FUNCTION LIST. Cost: O(libraries and their functions), and with WITHCODE O(bytes of their code).
    pub fn function_list(&mut self, session: &mut Session, args: Args<'_>) -> Run {
        let (mut pattern, mut with_code, mut index) = (None, false, 2);
        while index < args.len() {
            if !with_code && args.is(index, "WITHCODE") {
                with_code = true;
            } else if pattern.is_none() && args.is(index, "LIBRARYNAME") {
                index += 1;
                let Some(given) = args.get(index) else {
                    return Err(CmdError::text("ERR library name argument was not given"));
                };
                pattern = Some(given);
            } else {
                let argument = until_zero(args.at(index));
                return Err(CmdError::owned([b"ERR Unknown argument ", argument].concat()));
            }
            index += 1;
        }
        let functions = &self.functions;
        let mut reply = Reply::new(&mut session.outbox, session.caller.proto);
        reply.array(functions.matching(pattern).count());
        for library in functions.matching(pattern) {
            reply.map(if with_code { 4 } else { 3 });
            reply.bulk(b"library_name");
            reply.bulk(&library.name);
            reply.bulk(b"engine");
            reply.bulk(b"LUA");
            reply.bulk(b"functions");
            reply.array(library.functions.len());
            for function in &library.functions {
                reply.map(3);
                reply.bulk(b"name");
                reply.bulk(&function.name);
                reply.bulk(b"description");
                match &function.description {
                    Some(text) => reply.bulk(until_zero(text)),
                    None => reply.null(),
                }
                reply.bulk(b"flags");
                let flags = || ScriptFlags::NAMED.iter().filter(|(_, flag)| function.flags.has(*flag));
                reply.set(flags().count());
                flags().for_each(|(name, _)| reply.simple(name.as_bytes()));
            }
            if with_code {
                reply.bulk(b"library_code");
                reply.bulk(&library.code);
            }
        }
        Ok(Outcome::Done)
    }

    /// FUNCTION STATS: the running script, and numbers of libraries and functions.
    pub fn function_stats(&mut self, session: &mut Session, now: Now) -> Run {
        let running = self.scripts.running.as_deref();
        if let Some(running) = running.filter(|running| running.is_eval) {
            return Err(running.busy_error());
        }
        let mut reply = Reply::new(&mut session.outbox, session.caller.proto);
        reply.map(2);
        reply.bulk(b"running_script");
        match running {
            None => reply.null(),
            Some(running) => {
                reply.map(3);
                reply.bulk(b"name");
                reply.bulk(&running.name);
                reply.bulk(b"command");
                reply.array(running.command.len());
                running.command.iter().for_each(|argument| reply.bulk(argument));
                reply.bulk(b"duration_ms");
                reply.int((now.mono_ns.saturating_sub(running.began_ns) / 1_000_000) as i64);
            }
        }
        reply.bulk(b"engines");
        reply.map(1);
        reply.bulk(b"LUA");
        reply.map(2);
        reply.bulk(b"libraries_count");
        reply.int(self.functions.libraries() as i64);
        reply.bulk(b"functions_count");
        reply.int(self.functions.count() as i64);
        Ok(Outcome::Done)
    }

    /// FUNCTION DUMP. Cost: O(bytes of all libraries).
    pub fn function_dump(&mut self, session: &mut Session) -> Run {
        let compression = self.config.choice(param::RDBCOMPRESSION).is_of_strings();
        let codes = self.functions.codes().map(|code| &**code);
        let payload = dump_functions(codes, compression);
        Reply::new(&mut session.outbox, session.caller.proto).bulk(&payload);
        Ok(Outcome::Done)
    }

    /// The code of each library in a payload of FUNCTION DUMP, up to the first error.
    pub fn codes_of_payload(
        &self,
        payload: &[u8],
        is_replicated: bool,
    ) -> Result<Vec<Result<Arc<[u8]>, CmdError>>, CmdError> {
        let is_relaxed =
            self.config.choice::<RdbVersionCheck>(param::RDB_VERSION_CHECK) == RdbVersionCheck::Relaxed;
        let options = ReadOptions {
            // A payload already accepted by another server is accepted here
            // whatever `rdb-version-check` says.
            unknown: if is_relaxed || is_replicated { Unknown::Skip } else { Unknown::Refuse },
            checksum: !self.debug.skip_checksum,
            ..ReadOptions::default()
        };
        let records = restore_functions(payload, options)
            .map_err(|_| CmdError::text("ERR DUMP payload version or checksum are wrong"))?;
        let mut codes = Vec::new();
        for record in records {
            let code = record.map(|code| (&*code).into()).map_err(|error| {
                CmdError::text(match error {
                    FunctionsError::Footer => "ERR DUMP payload version or checksum are wrong",
                    FunctionsError::Old => "ERR Pre-GA function format not supported",
                    FunctionsError::NotFunction => "ERR given type is not a function",
                    FunctionsError::Bad => "ERR Failed loading library payload",
                })
            });
            let is_last = code.is_err();
            codes.push(code);
            if is_last {
                break;
            }
        }
        Ok(codes)
    }

    /// The limits of the machine (the interpreter) that loads a script; more generous if another server has
    /// accepted the script.
    pub fn limits_of_load(&self, is_replicated: bool) -> MachineLimits {
        let limits = machine_limits(&self.config);
        if is_replicated { limits.of_accepted() } else { limits }
    }

    /// SCRIPT KILL and FUNCTION KILL: the suspended run ends instead of continuing.
    pub fn kill_script(&mut self, is_eval: bool, session: &mut Session) -> Run {
        let Some(running) = self.scripts.running.as_deref_mut() else {
            return Err(CmdError::text("NOTBUSY No scripts in execution right now."));
        };
        if running.is_replicated {
            return Err(CmdError::text(
                "UNKILLABLE The busy script was sent by a master instance in the context of replication and cannot be killed.",
            ));
        }
        if running.has_written {
            return Err(CmdError::text(
                "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the \
                 script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.",
            ));
        }
        if is_eval != running.is_eval {
            return Err(running.busy_error());
        }
        running.ending = Some(EarlyEnd::Killed);
        Reply::new(&mut session.outbox, session.caller.proto).ok();
        Ok(Outcome::Done)
    }

    #[cold]
    /// Whether a script with a `#!` line and without the flag `no-writes` may run now; not asked for scripts
    /// from the primary or the append-only file.
    pub fn may_write_by_script(&self) -> Result<(), CmdError> {
        let control = self;
        if control.replication.replica.is_some()
            && control.config.bool(sluice_config::param::REPLICA_READ_ONLY)
        {
            return Err(CmdError::text("READONLY Can not run script with write flag on readonly replica"));
        }
        if control.refuses_writes() {
            return Err(CmdError::text(
                "MISCONF Valkey is configured to save RDB snapshots, but it's currently unable to persist to disk. Writable \
                 scripts are blocked. Use 'no-writes' flag for read only scripts.",
            ));
        }
        if let Some(reason) = control.persistence.aof.report().fault.as_ref() {
            return Err(CmdError::owned(format!(
                "MISCONF Valkey is configured to persist data to AOF, but it's currently unable to persist to disk. Writable \
                 scripts are blocked. Use 'no-writes' flag for read only scripts. AOF error: {reason}"
            )));
        }
        Ok(())
    }
}
