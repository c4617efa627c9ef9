//! Counts of accesses to keys, for HOTKEYS and for the page of the metrics endpoint.

use crate::core::Core;
use sluice_command::derive::keys::key_row;
use sluice_command::specs::{server, transactions};
use sluice_command::{Keys, Spec};
use sluice_commands::Args;
use sluice_control::Control;
use sluice_control::persistence::aof::for_each_key;
use sluice_keyspace::Key;
use sluice_scripts::shebang::runs_script;
use sluice_session::Session;

impl Core {
    /// Counts the keys that a command names, or a random sample of them, after the command has run. Each
    /// command of a transaction or a script is counted by itself. Commands from this server's primary are not
    /// counted, because they are the primary's load.
    #[cold]
    pub(crate) fn count_hot_keys(
        &mut self,
        session: &Session,
        spec: &'static Spec,
        args: Args<'_>,
        db: usize,
        now_ns: u64,
    ) {
        let Core { control, rng, .. } = self;
        for hot_keys in control.clients.hot_keys.both().into_iter().filter(|hot_keys| hot_keys.is_on()) {
            if session.caller.is_primary() || !is_access(spec) {
                return;
            }
            let percent = hot_keys.percent();
            for_each_name(spec, args, |key| {
                if percent == 100 || rng.below(100) < percent {
                    hot_keys.count(db, key, now_ns);
                }
            });
        }
    }
}

/// Forgets the keys of the databases that a command has emptied, whichever client sent the command.
#[cold]
pub(crate) fn forget_flushed_hot_keys(control: &mut Control, spec: &'static Spec, db: usize, now_ns: u64) {
    let hot_keys = &mut control.clients.hot_keys;
    if spec.id == server::FLUSHALL.id {
        hot_keys.forget(now_ns);
    } else if spec.id == server::FLUSHDB.id {
        hot_keys.forget_db(db);
    }
}

fn for_each_name<'a>(spec: &'static Spec, args: Args<'a>, mut count: impl FnMut(Key<'a>)) {
    let row = key_row(spec);
    // Most commands have one key spec, which covers all of their keys, so no list of keys is made.
    let is_whole = matches!(spec.keys, Keys::Specs([_]) | Keys::Fn([_], _));
    match row.first(args.len()).filter(|_| is_whole) {
        Some(first) => {
            let step = if row.are_pairs() { 2 } else { 1 };
            let keys = 0..=row.behind_first(args.len());
            keys.for_each(|key| count(args.key(first + key * step)));
        }
        None => {
            for_each_key(spec, args, count);
        }
    }
}

/// Whether clients access the keys that a command names. Other commands name keys to inspect how they
/// are stored, to watch them, or for the commands of a script.
fn is_access(spec: &Spec) -> bool {
    let looks_on = ["object", "debug", "memory"].contains(&spec.container().unwrap_or(spec.full_name));
    !looks_on && spec.id != transactions::WATCH.id && !runs_script(spec)
}
