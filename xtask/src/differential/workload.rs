//! Random commands, which are drawn from argument trees, with some hostile arguments, and over few keys, so
//! that commands share them.
//!
//! Invariant: a stream is a function only of its seed and of the grammar.

use super::cluster;
use super::command::Command;
use super::generator::Generator;
use super::grammar::{Argument, CommandEntry, Grammar};
use super::listening;
use super::rules::Rule;
use super::scripts;
use super::special;
use super::users;
use super::values;
use super::zsets;

/// Draws the commands of streams from the grammar.
pub(crate) struct Workload<'a> {
    grammar: &'a Grammar,
    total_weight: u64,
    generator: Generator,
    /// The count in the last `numkeys`, `numfields` or `num-vertices`, until an argument is repeated that
    /// often.
    announced: Option<usize>,
    /// Whether keys of this stream expire. If so, no command may access keys at random, because accessing an
    /// expired key deletes it.
    mortal: bool,
    /// Whether the stream has commands of more than one client.
    social: bool,
    /// Whether clients of the stream authenticate as users with rules.
    guarded: bool,
    /// Remaining commands that each of the two sending clients sends while it is subscribed,
    /// before it unsubscribes.
    listens: [usize; 2],
    /// Whether the command being drawn is about lists. If so, its integers are mostly indexes of lists.
    of_lists: bool,
    /// Whether the command being drawn is about sorted sets or geo points.
    of_zsets: bool,
    /// Prefix of the keys for the command's type; `None` for a type without keys of its own.
    own_keys: Option<&'static str>,
}

/// Chance in percent that an optional argument is given; the chances of other variations of a call follow.
const OPTION_CHANCE: u64 = 30;
const CONFLICT_CHANCE: u64 = 5;
const HOSTILE_CHANCE: u64 = 14;
const INLINE_CHANCE: u64 = 3;
/// Chance in percent that a command is followed by one that reads the state of its key.
const QUESTION_CHANCE: u64 = 8;
/// Chance in percent that a command sets an expiry at a given time, and that the next command reads the
/// expiry.
const MOMENT_CHANCE: u64 = 2;
/// Chance in percent that a transaction is drawn in place of a single command.
const TRANSACTION_CHANCE: u64 = 2;
/// Chance in percent that a command pushes many elements.
const MANY_CHANCE: u64 = 1;
/// Chances in percent, in a stream with several clients, that the next command is from another sending
/// client. `WAIT_CHANCE` is the chance that it is from the blocking client.
const SWITCH_CHANCE: u64 = 15;
const WAIT_CHANCE: u64 = 4;
/// Chance in percent that a client begins to subscribe, in streams whose keys do not expire.
/// `LISTENING_COMMANDS_MAX` is the maximum number of commands that it sends while it is subscribed.
const LISTEN_CHANCE: u64 = 4;
const LISTENING_COMMANDS_MAX: usize = 60;
/// Chance in percent that a stream whose keys do not expire has several clients.
const SOCIAL_CHANCE: u64 = 50;
/// Chance in percent that a stream has keyspace notifications, which the listener receives.
const NOTIFY_CHANCE: u64 = 60;
/// Chance in percent that a key of a command is one that mostly holds a value of the command's type.
const OWN_KEY_CHANCE: u64 = 75;
/// Prefixes of the keys of each type; each type has three keys.
const OWN_KEYS: &[(&str, &str)] = &[
    ("@list", "l"),
    ("@hyperloglog", "p"),
    ("@bitmap", "s"),
    ("@set", "e"),
    ("@hash", "h"),
    ("@sorted-set", "z"),
    ("@geo", "g"),
];
/// Prefixes of the names of commands that scripts do not call. COMMAND is one of them, because a script
/// sees the sets in its replies as tables whose keys are tables, in the order of their addresses.
const NOT_IN_SCRIPTS: &[&str] = &["eval", "fcall", "function", "script", "command"];
/// Maximum number of draws of a command for a script; if none is suitable, the script calls PING.
const TRIES: usize = 5;
/// Chances in percent: first, that a stream has users; second, that the next command in such a stream makes
/// a client another user.
const GUARDED_CHANCES: [u64; 2] = [20, 4];
/// Chances in percent: first, that keys of a stream expire; second, that the next command in such a stream
/// sets a key that expires at once.
const MORTAL_CHANCES: [u64; 2] = [25, 3];

impl<'a> Workload<'a> {
    /// A workload whose commands are a function of `seed`.
    pub(crate) fn new(grammar: &'a Grammar, seed: u64) -> Workload<'a> {
        let total_weight = grammar.commands.iter().map(|entry| u64::from(entry.weight)).sum();
        let mut generator = Generator::new(seed);
        let mortal = generator.chance(MORTAL_CHANCES[0]);
        let social = !mortal && generator.chance(SOCIAL_CHANCE);
        let guarded = generator.chance(GUARDED_CHANCES[0]);
        Workload {
            grammar,
            total_weight,
            generator,
            announced: None,
            mortal,
            social,
            guarded,
            listens: [0; 2],
            of_lists: false,
            of_zsets: false,
            own_keys: None,
        }
    }

    /// A stream of `count` commands.
    pub(crate) fn stream(&mut self, count: usize) -> Vec<Command> {
        let mut commands = Vec::with_capacity(count);
        let mut client = 0;
        // The stream begins with commands that delete functions and scripts of earlier streams.
        for container in ["FUNCTION", "SCRIPT"] {
            if self.grammar.has_own(&format!("{}|flush", container.to_lowercase())) {
                commands.push(Command::of(vec![container.into(), b"FLUSH".to_vec()]));
            }
        }
        if self.generator.chance(NOTIFY_CHANCE) && self.grammar.has_own("publish") {
            commands.push(special::notify(&mut self.generator));
        }
        if self.guarded && self.grammar.has_own("acl|setuser") {
            commands.extend(users::begin(&mut self.generator));
        }
        while commands.len() < count {
            let mut next = vec![self.command()];
            if self.social && self.generator.chance(SWITCH_CHANCE) {
                client = 1 - client;
            }
            if self.social && self.generator.chance(WAIT_CHANCE) && self.grammar.has_own("blpop") {
                commands.push(special::wait(&mut self.generator));
                continue;
            }
            if let Some(own) = self.listening(client) {
                commands.extend(own.into_iter().map(|command| Command { client, ..command }));
                continue;
            }
            if self.generator.chance(MANY_CHANCE) {
                next = vec![if self.generator.chance(50) {
                    special::many(&mut self.generator)
                } else {
                    zsets::many(&mut self.generator)
                }];
            } else if self.generator.chance(TRANSACTION_CHANCE) {
                next = self.transaction();
            } else if self.mortal && self.generator.chance(MORTAL_CHANCES[1]) {
                next = self.expiry();
            } else if self.guarded && self.generator.chance(GUARDED_CHANCES[1]) {
                next = vec![users::change(&mut self.generator)];
            } else if self.generator.chance(MOMENT_CHANCE) {
                next = special::moment(&mut self.generator);
            } else if self.generator.chance(QUESTION_CHANCE)
                && let Some(key) = next[0].words.get(1).cloned()
            {
                next.push(special::question(&mut self.generator, key));
            }
            if next.iter().all(|command| self.may_be_sent(command)) {
                // A transaction is drawn for the first client; if the second one is to send, the two exchange
                // their roles.
                next.iter_mut().for_each(|command| command.client ^= client);
                next.retain(|command| self.listens[command.client] == 0);
                commands.extend(next);
            }
        }
        commands.truncate(count);
        commands
    }

    /// Whether keys of the stream may expire at any moment.
    pub(crate) fn is_mortal(&self) -> bool {
        self.mortal
    }

    /// A command that makes a key expire at once, and a sleep until the key has expired on both servers.
    fn expiry(&mut self) -> Vec<Command> {
        let [expires, sleep] = special::expiry(&mut self.generator);
        if !self.guarded {
            return vec![expires, sleep];
        }
        // The first client may be a user without the right to DEBUG, so the second client, which is
        // `default`, sends the sleep. The DISCARD ends a transaction of the first client, because commands
        // that it has queued must not run after the sleep.
        vec![Command::of(vec![b"DISCARD".to_vec()]), expires, Command { client: 1, ..sleep }]
    }

    /// Commands of a client that is subscribed or begins to subscribe.
    fn listening(&mut self, client: usize) -> Option<Vec<Command>> {
        let left = self.listens[client];
        match left {
            0 if self.mortal || !self.grammar.has_own("subscribe") => None,
            0 if !self.generator.chance(LISTEN_CHANCE) => None,
            0 => {
                self.listens[client] = 1 + self.generator.below(LISTENING_COMMANDS_MAX);
                Some(listening::begin(&mut self.generator))
            }
            _ => {
                self.listens[client] = left - 1;
                if left == 1 {
                    Some(listening::end())
                } else {
                    Some(vec![listening::command(&mut self.generator)])
                }
            }
        }
    }

    /// Whether this stream may have the command.
    fn may_be_sent(&self, command: &Command) -> bool {
        let name = self.grammar.full_name(&command.words);
        // In streams with expiring keys, commands that access keys at random are left out, and so is CLIENT
        // PAUSE, which keeps keys from expiring.
        let by_chance = matches!(name.as_str(), "scan" | "randomkey" | "client|pause");
        // Commands about users are sent only in streams in which clients authenticate as users.
        let is_about_users = matches!(name.as_str(), "acl|setuser" | "acl|dryrun" | "acl|getuser");
        // In streams with users, a PFMERGE with only a target is left out, because the reference finds no key
        // in it, so no rule about keys applies, while ours checks the target.
        let asks_too_little = name == "pfmerge" && command.words.len() == 2;
        // In streams with several clients, CLIENT PAUSE is left out, because it makes every client wait.
        let pauses = self.social && name == "client|pause";
        self.grammar.has(&name)
            && !pauses
            && (self.guarded || !is_about_users)
            && !(self.guarded && asks_too_little)
            && self.grammar.rule(&command.words) != Rule::Skip
            && !(self.mortal && by_chance)
    }

    /// A transaction: possibly WATCH, then MULTI, commands, and EXEC or DISCARD. Commands of the other client
    /// may come in between.
    fn transaction(&mut self) -> Vec<Command> {
        let word = |text: &str| vec![text.as_bytes().to_vec()];
        let mut all = Vec::new();
        if self.generator.chance(60) {
            let keys = (0..1 + self.generator.below(3)).map(|_| values::watched_key(&mut self.generator.rng));
            all.push(Command::of([word("WATCH"), keys.collect()].concat()));
        }
        all.push(Command::of(word("MULTI")));
        for _ in 0..self.generator.below(7) {
            let command = self.command();
            // ACL DELUSER is left out, because a user that is deleted in its own EXEC is a known difference
            // (see docs/compat.md).
            if self.grammar.full_name(&command.words) != "acl|deluser" {
                all.push(command);
            }
        }
        all.push(Command::of(word(if self.generator.chance(85) { "EXEC" } else { "DISCARD" })));
        if self.social {
            for _ in 0..self.generator.below(3) {
                let at = self.generator.below(all.len());
                let command = self.command();
                all.insert(at, Command { client: 1, ..command });
            }
        }
        all
    }

    /// One command; a spoilt one may be a command that must not be sent.
    fn command(&mut self) -> Command {
        let grammar = self.grammar;
        let entry = self.draw(&grammar.commands);
        let mut words = self.call(entry);
        let is_fixed = special::is_fixed(&entry.name) || cluster::is_fixed(&entry.name);
        if self.generator.chance(HOSTILE_CHANCE) && !is_fixed {
            self.spoil(&mut words);
        }
        special::tame(&entry.name, &mut words, self.mortal);
        special::part_expiries(&mut self.generator, &entry.name, &mut words);
        let plain = |word: &Vec<u8>| !word.is_empty() && word.iter().all(|b| b.is_ascii_alphanumeric());
        let inline = self.generator.chance(INLINE_CHANCE) && words.iter().all(plain);
        Command { words, inline, client: 0, listens: false }
    }

    /// The words of a command that a script calls. It is a command whose reply is compared byte by byte, or
    /// PING.
    fn command_for_script(&mut self) -> Vec<Vec<u8>> {
        for _ in 0..TRIES {
            let command = self.command();
            let name = self.grammar.full_name(&command.words);
            let is_left_out = NOT_IN_SCRIPTS.iter().any(|start| name.starts_with(start));
            let is_exact = self.grammar.rule(&command.words) == Rule::Exact;
            let is_of_one_slot = !self.grammar.is_of_clusters
                || self.grammar.is_of_one_key(&name) && !name.starts_with("cluster|");
            if !is_left_out && is_exact && is_of_one_slot && self.may_be_sent(&command) {
                return command.words;
            }
        }
        vec![b"PING".to_vec()]
    }

    /// A command drawn by weight.
    fn draw(&mut self, entries: &'a [CommandEntry]) -> &'a CommandEntry {
        let mut left = self.generator.rng.below(self.total_weight);
        for entry in entries {
            if left < u64::from(entry.weight) {
                return entry;
            }
            left -= u64::from(entry.weight);
        }
        &entries[0]
    }

    /// A call, mostly a well-formed one, with the words of its name in any letter case.
    fn call(&mut self, entry: &CommandEntry) -> Vec<Vec<u8>> {
        let mut words: Vec<Vec<u8>> = entry.words.iter().map(|word| self.generator.token(word)).collect();
        if let Some(arguments) = scripts::arguments(&mut self.generator, &entry.name) {
            words.extend(arguments);
            if scripts::is_call(&entry.name) {
                words.extend(self.command_for_script());
            }
            return words;
        }
        if let Some(arguments) = cluster::arguments(&mut self.generator, &entry.name) {
            words.extend(arguments);
            return words;
        }
        if let Some(arguments) = users::arguments(&mut self.generator, &entry.name) {
            words.extend(arguments);
            return words;
        }
        if let Some(arguments) = special::arguments(&mut self.generator, &entry.name) {
            words.extend(arguments);
            return words;
        }
        if entry.name.starts_with("command|getkeys") {
            let grammar = self.grammar;
            let inner = self.draw(&grammar.commands);
            if !inner.name.starts_with("command|") {
                words.extend(self.call(inner));
            }
            return words;
        }
        self.announced = None;
        self.of_lists = entry.is_meant("@list");
        self.of_zsets = entry.is_meant("@sorted-set") || entry.is_meant("@geo");
        let own = OWN_KEYS.iter().find(|(group, _)| entry.is_meant(group));
        self.own_keys = own.map(|(_, name)| *name);
        self.sequence(&entry.arguments, &mut words);
        words
    }

    /// Appends the arguments in order, but consecutive optional ones in any order.
    fn sequence(&mut self, arguments: &[Argument], words: &mut Vec<Vec<u8>>) {
        let mut rest = arguments;
        while let Some(first) = rest.first() {
            let run = rest.iter().take_while(|argument| argument.optional == first.optional).count();
            let (now, later) = rest.split_at(run);
            rest = later;
            let mut order: Vec<&Argument> = now.iter().collect();
            if first.optional && self.generator.chance(50) {
                self.generator.shuffle(&mut order);
            }
            for argument in order {
                if !argument.optional || self.generator.chance(OPTION_CHANCE) {
                    self.argument(argument, words);
                }
            }
        }
    }

    /// Appends one argument with its token and its repetitions.
    fn argument(&mut self, argument: &Argument, words: &mut Vec<Vec<u8>>) {
        let mut count = 1;
        if argument.multiple {
            count = self.announced.take().unwrap_or(1 + self.generator.below(3));
        }
        for index in 0..count {
            if let Some(token) = argument.token.as_ref().filter(|_| index == 0 || argument.multiple_token) {
                words.push(self.generator.token(token));
            }
            self.value(argument, words);
        }
    }

    /// Appends the argument's value after its token.
    fn value(&mut self, argument: &Argument, words: &mut Vec<Vec<u8>>) {
        match argument.kind.as_str() {
            "pure-token" => {}
            "block" => self.sequence(&argument.items, words),
            "oneof" if !argument.items.is_empty() => {
                let times = if self.generator.chance(CONFLICT_CHANCE) { 2 } else { 1 };
                for _ in 0..times {
                    let chosen = self.generator.below(argument.items.len());
                    self.argument(&argument.items[chosen], words);
                }
            }
            "integer" if matches!(argument.name.as_str(), "numkeys" | "numfields") => {
                let count = 1 + self.generator.below(3);
                self.announced = Some(count);
                words.push(count.to_string().into_bytes());
            }
            // Geo points have keys of their own, which have few members at the same distance, because the
            // reference's order of such members is undefined.
            "key"
                if self.own_keys == Some("g")
                    || self.own_keys.is_some() && self.generator.chance(OWN_KEY_CHANCE) =>
            {
                let key = values::own_key(&mut self.generator.rng, self.own_keys.unwrap_or_default());
                words.push(key);
            }
            "integer" if argument.name == "num-vertices" => {
                let count = 3 + self.generator.below(2);
                self.announced = Some(count);
                words.push(count.to_string().into_bytes());
            }
            "integer" if self.of_lists => {
                let index = values::list_index(&mut self.generator.rng);
                words.push(index);
            }
            kind => {
                let own = if self.of_zsets {
                    zsets::value(&mut self.generator.rng, &argument.name, kind)
                } else {
                    None
                };
                let value =
                    own.unwrap_or_else(|| values::value(&mut self.generator.rng, &argument.name, kind));
                words.push(value);
            }
        }
    }

    /// Makes a call invalid, or at least unusual.
    fn spoil(&mut self, words: &mut Vec<Vec<u8>>) {
        let at = if words.len() > 1 { 1 + self.generator.below(words.len() - 1) } else { 0 };
        match self.generator.below(10) {
            0 => words.truncate(words.len().max(2) - 1),
            1 => {
                let extra = values::hostile(&mut self.generator.rng);
                words.push(extra);
            }
            2 | 3 if at > 0 => words[at] = values::hostile(&mut self.generator.rng),
            4 if at > 0 => words.insert(at, words[at].clone()),
            5 if at > 0 => {
                let other = 1 + self.generator.below(words.len() - 1);
                words.swap(at, other);
            }
            6 => words.push(values::option(&mut self.generator.rng)),
            7 if at > 0 => words[at].clear(),
            // A zero byte is tried, because for the reference it ends some words and not others.
            8 if at > 0 && !special::names_are_hashed(&words[0]) => {
                words[at].extend_from_slice([b"\0".as_slice(), b"\0x "][self.generator.below(2)])
            }
            _ => {
                let count = 1 + self.generator.below(3);
                words.extend((0..count).map(|_| values::hostile(&mut self.generator.rng)));
            }
        }
        special::leave_newer_options_out(words);
    }
}
