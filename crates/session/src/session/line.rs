//! A client as one line of text: CLIENT LIST, CLIENT INFO and the log.
//!
//! Sizes are what this server holds. `rbs` is the memory of the replies that are not handed to the socket
//! yet. `rbp` is the largest amount of replies that was handed over at once lately, or that waits to be
//! handed over. While a part of the replies handed over is not sent yet, all unsent output counts as `omem`.

use crate::{Caller, Closing, Medium, Session};
use sluice_resp::Protocol;
use sluice_subscriptions::tracking::{Tracking, TrackingMode};
use sluice_subscriptions::watch::Watching;
use std::fmt::Write;

/// Sizes of a command and its replies that the session itself does not have while its command runs.
#[derive(Clone, Copy, Debug)]
pub struct CommandUnderWay {
    /// Bytes of the command's arguments.
    pub argv_bytes: usize,
    /// Bytes of the replies written so far.
    pub outbox_bytes: usize,
    /// Bytes of memory that the replies take.
    pub outbox_capacity: usize,
}

/// Tables outside of the session whose contents the line shows, too.
#[derive(Clone, Copy)]
pub struct LineSources<'a> {
    /// Clients and the keys that they watch.
    pub watching: &'a Watching,
    /// Clients and the keys that they keep copies of.
    pub tracking: &'a Tracking,
}

impl Session {
    /// Appends the line, without a line end. `running` has the sizes for a session that is running a command.
    pub fn push_line(
        &self,
        now_s: i64,
        of: LineSources<'_>,
        running: Option<CommandUnderWay>,
        out: &mut String,
    ) {
        let caller = &self.caller;
        let sizes = running.unwrap_or_else(|| self.sizes());
        self.push_identity(now_s, of, out);
        self.push_sizes(sizes, of, out);
        let command = caller.last_command.map_or("NULL", |spec| spec.full_name);
        let resp = match caller.proto {
            Protocol::Resp2 => 2,
            Protocol::Resp3 => 3,
        };
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            " events={} cmd={command} user={} redir={} resp={resp} lib-name={} lib-ver={} \
             tot-net-in={} tot-net-out={} tot-cmds={}",
            if self.in_flight > 0 { "rw" } else { "r" },
            if caller.is_primary() { "(superuser)".into() } else { label(caller.user_name()) },
            of.tracking.redirection(self.key),
            label(caller.lib_name()),
            label(caller.lib_ver()),
            caller.traffic.net_in,
            caller.traffic.net_out,
            caller.traffic.commands,
        );
    }

    /// The client as a log line shows it. If `hides` is `true`, `*redacted*` replaces the names of the client
    /// and of its user.
    pub fn short_line(&self, hides: bool) -> String {
        let caller = &self.caller;
        let hidden = std::borrow::Cow::Borrowed("*redacted*");
        let (name, user) = match hides {
            true => (hidden.clone(), hidden),
            false => (label(caller.name()), label(caller.user_name())),
        };
        format!(
            "id={} addr={} laddr={} fd={} name={name} user={user} lib-name={} lib-ver={}",
            caller.id.0,
            caller.origin.addr,
            caller.origin.laddr,
            caller.origin.fd,
            label(caller.lib_name()),
            label(caller.lib_ver()),
        )
    }

    fn push_identity(&self, now_s: i64, of: LineSources<'_>, out: &mut String) {
        let caller = &self.caller;
        let _ = write!(
            out,
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} capa={} db={}",
            caller.id.0,
            caller.origin.addr,
            caller.origin.laddr,
            caller.origin.fd,
            label(caller.name()),
            (now_s - i64::from(caller.origin.created_s)).max(0),
            (now_s - caller.traffic.last_s).max(0),
            self.flag_letters(of),
            if caller.flags.capa_redirect { "r" } else { "" },
            caller.db,
        );
    }

    fn push_sizes(&self, sizes: CommandUnderWay, of: LineSources<'_>, out: &mut String) {
        let caller = &self.caller;
        let watched = of.watching.count(self.key);
        let total = self.total_of(sizes, of);
        let owed = sizes.outbox_bytes + self.in_flight;
        let (obl, oll, omem) = if self.in_flight == 0 { (owed, 0, 0) } else { (0, 1, owed) };
        let _ = write!(
            out,
            " sub={} psub={} ssub={} multi={} watch={watched} qbuf={} qbuf-free={} argv-mem={} multi-mem={} rbs={} rbp={} \
             obl={obl} oll={oll} omem={omem} tot-mem={total}",
            caller.subscribed.channels,
            caller.subscribed.patterns,
            caller.subscribed.shards,
            caller.multi.queued,
            caller.traffic.input_bytes,
            caller.traffic.input_free,
            sizes.argv_bytes,
            self.multi_mem(),
            sizes.outbox_capacity,
            (self.output_peak as usize).max(sizes.outbox_bytes),
        );
    }

    /// Bytes that the client takes, its buffers included.
    pub fn total_bytes(&self, of: LineSources<'_>) -> usize {
        self.total_of(self.sizes(), of)
    }

    fn sizes(&self) -> CommandUnderWay {
        CommandUnderWay {
            argv_bytes: self.waiting.as_ref().map_or(0, |waiting| waiting.args_bytes()),
            outbox_bytes: self.output_bytes() - self.in_flight,
            outbox_capacity: self.outbox_capacity(),
        }
    }

    fn total_of(&self, sizes: CommandUnderWay, of: LineSources<'_>) -> usize {
        let caller = &self.caller;
        // The arguments of a request that waits are part of the deferred bytes.
        let arguments = if self.waiting.is_some() { 0 } else { sizes.argv_bytes };
        size_of::<Session>()
            + caller.texts_bytes()
            + caller.traffic.input_bytes
            + caller.traffic.input_free as usize
            + arguments
            + self.deferred_bytes()
            + of.watching.heap_bytes(self.key)
            + of.tracking.heap_bytes(self.key)
            + caller.subscribed.bytes as usize
            + sizes.outbox_capacity.max(sizes.outbox_bytes)
            + self.in_flight
    }

    /// One letter for each property that is set, or `N` if none is. The FLAGS filter compares these letters.
    pub fn flag_letters(&self, of: LineSources<'_>) -> String {
        let caller = &self.caller;
        let flags = &caller.flags;
        let tracking = of.tracking.client(self.key);
        let letters: String = [
            ('S', caller.replica.is_some()),
            ('M', caller.is_primary()),
            ('i', caller.is_import()),
            ('E', caller.is_export()),
            ('O', flags.monitor),
            ('P', caller.subscribed.is_any()),
            ('x', self.transaction.is_some() || flags.in_exec),
            ('b', self.waiting.as_ref().is_some_and(|waiting| waiting.on.is_blocked())),
            ('p', self.producing().is_some()),
            (
                'd',
                of.watching.has_changed(self.key)
                    || self.transaction.as_ref().is_some_and(|t| t.is_aborted()),
            ),
            ('c', caller.closing == Closing::AfterReply),
            ('A', caller.closing == Closing::Now),
            ('t', tracking.is_some()),
            ('R', tracking.is_some_and(|client| client.is_broken)),
            ('B', tracking.is_some_and(|client| client.options.mode == TrackingMode::Broadcast)),
            ('U', caller.flags.medium == Medium::Unix),
            ('r', flags.read_only),
            ('e', flags.no_evict),
            ('T', flags.no_touch),
            ('I', flags.import_source),
            ('H', self.has_priority),
        ]
        .into_iter()
        .filter_map(|(letter, set)| set.then_some(letter))
        .collect();
        if letters.is_empty() { "N".to_owned() } else { letters }
    }
}

impl Caller {
    fn texts_bytes(&self) -> usize {
        self.user_name().len()
            + self.origin.addr.len()
            + self.origin.laddr.len()
            + self.name().len()
            + self.lib_name().len()
            + self.lib_ver().len()
    }
}

/// A label as the line shows it. It ends before the first zero byte, because the bytes from there on were not
/// checked.
fn label(label: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(sluice_commands::until_zero(label))
}
