//! Checks whether a user's rights allow a request.

use crate::selector::Selector;
use crate::user::User;
use sluice_command::derive::acl::categories;
use sluice_command::derive::keys::keys_that_fit;
use sluice_command::spec::{Begin, Cat, Find, Flags, KeyFlags, Keys, Spec};
use sluice_command::specs::pubsub;

/// The kind of right that a request lacks. If the user's selectors refuse a request for different kinds of
/// rights, the kind that is declared last in this enum is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Reason {
    Database,
    Command,
    Key,
    Channel,
}

/// The right that a call lacks: its kind, and the argument concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The kind of right that is missing.
    pub reason: Reason,
    /// The position of the argument that names the refused object; 0 (the command's name) if no argument
    /// names it.
    pub position: usize,
}

impl Denial {
    /// The object that ACL LOG shows for the refusal: the argument, or the command's full name.
    pub fn object<'a>(&self, spec: &'static Spec, args: &[&'a [u8]]) -> &'a [u8] {
        match (self.reason, self.position) {
            (Reason::Command, _) | (Reason::Database, 0) => spec.full_name.as_bytes(),
            (_, position) => args.get(position).copied().unwrap_or_default(),
        }
    }

    /// The text of the error reply, without the `NOPERM` in front.
    pub fn text(&self, user: &[u8], spec: &Spec) -> Vec<u8> {
        match self.reason {
            Reason::Command => {
                let name = spec.full_name.as_bytes();
                [b"User ", user, b" has no permissions to run the '", name, b"' command"].concat()
            }
            Reason::Key => b"No permissions to access a key".to_vec(),
            Reason::Channel => b"No permissions to access a channel".to_vec(),
            Reason::Database => b"No permissions to access database".to_vec(),
        }
    }

    /// The text of ACL DRYRUN's reply, which names the refused command, key, channel or database; for a
    /// refusal of the selected database, the command's name stands in its place.
    pub fn dryrun_text(&self, user: &[u8], spec: &Spec, args: &[&[u8]]) -> Vec<u8> {
        let object = args.get(self.position).copied().unwrap_or_default();
        match self.reason {
            Reason::Command => self.text(user, spec),
            Reason::Key => {
                [b"User ", user, b" has no permissions to access the '", object, b"' key"].concat()
            }
            Reason::Channel => {
                [b"User ", user, b" has no permissions to access the '", object, b"' channel"].concat()
            }
            Reason::Database => {
                let (user, object) = (crate::text::word(user), crate::text::word(object));
                [b"User ", user, b" has no permissions to access database ", object].concat()
            }
        }
    }
}

/// A key that a call names.
#[derive(Clone, Copy, Debug)]
pub struct CallKey<'a> {
    /// Position of the key among the arguments; the command's name is 0.
    pub position: usize,
    /// The key's bytes, as received.
    pub name: &'a [u8],
    /// What the command does with the key: access, insert, update or delete.
    pub flags: KeyFlags,
}

/// A channel that a call names.
#[derive(Clone, Copy, Debug)]
pub struct CallChannel<'a> {
    /// Position of the channel among the arguments; the command's name is 0.
    pub position: usize,
    /// The channel or pattern, as received.
    pub name: &'a [u8],
    /// Whether `name` is a pattern to subscribe to.
    pub is_pattern: bool,
}

/// A call to check against the rights of a user.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The command or subcommand.
    pub spec: &'static Spec,
    /// The argument after the command's name.
    pub first_arg: Option<&'a [u8]>,
    /// The number of the database in which the call would run.
    pub database: usize,
    /// How many databases the server has.
    pub database_count: usize,
    /// The databases named by arguments (SELECT, MOVE, COPY, SWAPDB): (position, database).
    pub named_databases: &'a [(usize, usize)],
    /// The keys of the call, except arguments marked [`KeyFlags::NOT_KEY`].
    pub keys: &'a [CallKey<'a>],
    /// The channels to which the call publishes or subscribes.
    pub channels: &'a [CallChannel<'a>],
}

impl User {
    /// Whether at least one selector allows the whole call. If none does, `Err` is the selectors' refusal
    /// whose kind is greatest, and among equal kinds the one with the greatest position of the argument.
    /// Cost: a bit test for each selector, and for each key, channel and database a match against the
    /// patterns or databases of the selector.
    #[inline]
    pub fn check(&self, call: &Call<'_>) -> Result<(), Denial> {
        if self.allows_all() { Ok(()) } else { self.check_selectors(call) }
    }

    fn check_selectors(&self, call: &Call<'_>) -> Result<(), Denial> {
        let mut worst = Denial { reason: Reason::Database, position: 0 };
        for selector in self.selectors() {
            let Err(denial) = check_selector(selector, call) else { return Ok(()) };
            if (denial.reason, denial.position) > (worst.reason, worst.position) {
                worst = denial;
            }
        }
        Err(worst)
    }

    /// [`User::check`] for arguments as received; the first is the command's name. Keys, channels and
    /// databases are looked up only if the user's rights depend on them. Cost of looking up the keys:
    /// nothing for a command without keys, or with one key at a fixed position; otherwise O(arguments),
    /// with an allocation.
    pub fn check_args(
        &self,
        spec: &'static Spec,
        args: &[&[u8]],
        database: usize,
        database_count: usize,
    ) -> Result<(), Denial> {
        if self.allows_all() {
            return Ok(());
        }
        self.with_call(spec, args, database, database_count, |call| self.check(call))
    }

    /// Whether one selector allows this call and also grants read access to every key: SORT with BY or GET
    /// requires both. Cost: the same as for [`User::check_args`].
    pub fn reads_every_key(
        &self,
        spec: &'static Spec,
        args: &[&[u8]],
        database: usize,
        database_count: usize,
    ) -> bool {
        self.allows_all()
            || self.with_call(spec, args, database, database_count, |call| {
                self.allows_every_key(call, KeyFlags::ACCESS)
            })
    }

    /// Calls `ask` with the call. Its keys, channels and named databases are looked up only if the user's
    /// rights depend on that kind of object; otherwise they are left out.
    fn with_call<R>(
        &self,
        spec: &'static Spec,
        args: &[&[u8]],
        database: usize,
        database_count: usize,
        ask: impl FnOnce(&Call<'_>) -> R,
    ) -> R {
        let (mut several, mut channels_found, mut named) = (Vec::new(), Vec::new(), Vec::new());
        let one;
        let asks = self.asks();
        let keys = if !asks.keys || is_without_keys(spec) {
            &[][..]
        } else if let Some((position, flags)) = one_key(spec)
            && let Some(name) = args.get(position)
        {
            one = [CallKey { position, name, flags }];
            &one[..]
        } else {
            let mut found = Vec::new();
            keys_that_fit(spec, args, &mut found);
            several.extend(found.into_iter().filter(|(_, flags)| !flags.has(KeyFlags::NOT_KEY)).filter_map(
                |(position, flags)| Some(CallKey { position, name: args.get(position)?, flags }),
            ));
            &several[..]
        };
        if asks.channels {
            channels(spec, args, &mut channels_found);
        }
        if asks.databases {
            named_databases(spec, args, database_count, &mut named);
        }
        ask(&Call {
            spec,
            first_arg: args.get(1).copied(),
            database,
            database_count,
            named_databases: &named,
            keys,
            channels: &channels_found,
        })
    }

    /// Whether one selector allows the call and also grants the access `flags` to every key: SORT with BY
    /// or GET requires both. Cost: the same as for [`User::check`].
    pub(crate) fn allows_every_key(&self, call: &Call<'_>, flags: KeyFlags) -> bool {
        self.allows_all()
            || self
                .selectors()
                .any(|selector| selector.allows_every_key(flags) && check_selector(selector, call).is_ok())
    }
}

fn check_selector(selector: &Selector, call: &Call<'_>) -> Result<(), Denial> {
    check_databases(selector, call)?;
    if !call.spec.flags.has(Flags::NO_AUTH) && !selector.allows_command(call.spec.id.0, call.first_arg) {
        return Err(Denial { reason: Reason::Command, position: 0 });
    }
    if let Some(key) = call.keys.iter().find(|key| !selector.allows_key(key.name, key.flags)) {
        return Err(Denial { reason: Reason::Key, position: key.position });
    }
    let refused =
        call.channels.iter().find(|channel| !selector.allows_channel(channel.name, channel.is_pattern));
    match refused {
        Some(channel) => Err(Denial { reason: Reason::Channel, position: channel.position }),
        None => Ok(()),
    }
}

#[inline]
fn check_databases(selector: &Selector, call: &Call<'_>) -> Result<(), Denial> {
    if selector.has_all_databases() {
        return Ok(());
    }
    let denied = |position| Err(Denial { reason: Reason::Database, position });
    let refused = call.named_databases.iter().find(|(_, database)| !selector.allows_database(*database));
    if let Some((position, _)) = refused {
        return denied(*position);
    }
    let spec = call.spec;
    if names_databases(spec) {
        if has_keys(call) && !selector.allows_database(call.database) {
            return denied(0);
        }
    } else if spec.flags.has(Flags::ALL_DBS) {
        if !(0..call.database_count).all(|database| selector.allows_database(database)) {
            return denied(0);
        }
    } else if !selector.allows_database(call.database)
        && (has_keys(call) || categories(spec).has_any(Cat::KEYSPACE.or(Cat::READ).or(Cat::WRITE)))
    {
        return denied(0);
    }
    Ok(())
}

/// Whether no argument of the command is ever a key.
fn is_without_keys(spec: &Spec) -> bool {
    matches!(spec.keys, Keys::Specs([]))
}

/// The position and the flags of a command's only key, if no argument changes that position.
fn one_key(spec: &Spec) -> Option<(usize, KeyFlags)> {
    let Keys::Specs([keys]) = spec.keys else { return None };
    match (keys.begin, keys.find) {
        (Begin::Index(first), Find::Range { last: 0, .. }) if !keys.flags.has(KeyFlags::NOT_KEY) => {
            Some((usize::from(first), keys.flags))
        }
        _ => None,
    }
}

/// Whether a call has keys, judged by the command's key specs.
fn has_keys(call: &Call<'_>) -> bool {
    match call.spec.keys {
        // EXEC has keys only with conditions, and all of its arguments are conditions.
        Keys::Fn([], _) => call.first_arg.is_some(),
        Keys::Fn(..) => true,
        Keys::Specs(specs) => specs.iter().any(|keys| !keys.flags.has(KeyFlags::NOT_KEY)),
    }
}

/// Whether arguments of the command may name databases.
fn names_databases(spec: &Spec) -> bool {
    use sluice_command::specs::{connection, generic, server};
    [generic::MOVE.id, generic::COPY.id, connection::SELECT.id, server::SWAPDB.id].contains(&spec.id)
}

/// Adds the databases that arguments name, with the positions of these arguments. An invalid call names no
/// database: its handler refuses it. Cost: for COPY, O(arguments).
fn named_databases(spec: &Spec, args: &[&[u8]], database_count: usize, found: &mut Vec<(usize, usize)>) {
    use sluice_command::specs::{connection, generic, server};
    let number = |position: usize| {
        let number = sluice_base::num::parse_i64(args.get(position)?)?;
        let database = usize::try_from(number).ok().filter(|&database| database < database_count)?;
        Some((position, database))
    };
    let named: Option<Vec<_>> = if spec.id == generic::COPY.id {
        let mut at = 3;
        let mut named = Vec::new();
        while at < args.len() {
            if sluice_command::is_word(args[at], "DB") {
                named.push(number(at + 1));
                at += 2;
            } else {
                named.extend((!sluice_command::is_word(args[at], "REPLACE")).then_some(None));
                at += 1;
            }
        }
        named.into_iter().collect()
    } else if spec.id == generic::MOVE.id {
        number(2).map(|named| vec![named])
    } else if spec.id == connection::SELECT.id {
        number(1).map(|named| vec![named])
    } else if spec.id == server::SWAPDB.id {
        number(1).zip(number(2)).map(|(one, other)| vec![one, other])
    } else {
        None
    };
    found.extend(named.unwrap_or_default());
}

/// Adds the channels to which a call publishes or subscribes. Cost: O(arguments).
pub fn channels<'a>(spec: &Spec, args: &[&'a [u8]], found: &mut Vec<CallChannel<'a>>) {
    let (last, is_pattern) = if spec.id == pubsub::PUBLISH.id || spec.id == pubsub::SPUBLISH.id {
        (2, false)
    } else if spec.id == pubsub::SUBSCRIBE.id || spec.id == pubsub::SSUBSCRIBE.id {
        (args.len(), false)
    } else if spec.id == pubsub::PSUBSCRIBE.id {
        (args.len(), true)
    } else {
        return;
    };
    let named = args.iter().enumerate().take(last).skip(1);
    found.extend(named.map(|(position, name)| CallChannel { position, name, is_pattern }));
}
