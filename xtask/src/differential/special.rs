//! Commands whose argument trees are incomplete, or whose arguments could harm the run.

use super::command::{Command, WAITER, WAITER_ID};
use super::generator::Generator;
use super::{payload, streams, values, zsets};

/// Commands that take more words in versions later than the reference's, with the maximum number of words
/// in the reference.
const WORDS_MAX: &[(&str, usize)] = &[("exec", 1), ("move", 3), ("sismember", 3)];
/// Number of words of a command about a sorted set's range, up to its bounds: `XX` after these words is an
/// option of a version later than the reference's.
const RANGE_WORDS: usize = 4;

/// Removes words that only a version later than the reference's knows, because the datasets would differ.
/// Such words are also removed from a call that is an argument of a script, of a function or of COMMAND
/// GETKEYS.
pub(super) fn leave_newer_options_out(words: &mut Vec<Vec<u8>>) {
    let is_newer = |word: &[u8]| words_max(word).is_some() || is_range(word);
    let Some(at) = words.iter().position(|word| is_newer(word)) else { return };
    let name = words[0].to_ascii_lowercase();
    let may_hold_a_call =
        [b"eval".as_slice(), b"fcall", b"command"].iter().any(|start| name.starts_with(start));
    if at > 0 && !may_hold_a_call {
        return;
    }
    let mut call = words.split_off(at);
    if let Some(max) = words_max(&call[0]) {
        call.truncate(max);
    } else if call.len() > RANGE_WORDS {
        let options = call.split_off(RANGE_WORDS);
        call.extend(options.into_iter().filter(|word| !word.eq_ignore_ascii_case(b"XX")));
    }
    words.extend(call);
}

fn words_max(name: &[u8]) -> Option<usize> {
    WORDS_MAX.iter().find(|row| name.eq_ignore_ascii_case(row.0.as_bytes())).map(|row| row.1)
}

fn is_range(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    name.starts_with(b"zrange") || name.starts_with(b"zrevrange")
}

/// Parameters that a stream may change; each stream begins with their defaults.
pub(crate) const PARAMETERS: &[&str] = &[
    "acllog-max-len",
    "active-expire-effort",
    "aof-load-truncated",
    "aof-rewrite-incremental-fsync",
    "aof-timestamp-enabled",
    "aof-use-rdb-preamble",
    "appendfsync",
    "auto-aof-rewrite-min-size",
    "auto-aof-rewrite-percentage",
    "busy-reply-threshold",
    "cluster-allow-reads-when-down",
    "cluster-migration-barrier",
    "cluster-node-timeout",
    "cluster-replica-no-failover",
    "cluster-require-full-coverage",
    "commandlog-execution-slower-than",
    "commandlog-large-reply-max-len",
    "commandlog-large-request-max-len",
    "crash-memcheck-enabled",
    "hash-max-listpack-entries",
    "hash-max-listpack-value",
    "hash-max-ziplist-entries",
    "hash-max-ziplist-value",
    "hide-user-data-from-log",
    "hll-sparse-max-bytes",
    "hz",
    "latency-monitor-threshold",
    "latency-tracking",
    "latency-tracking-info-percentiles",
    "lazyfree-lazy-eviction",
    "lazyfree-lazy-expire",
    "lazyfree-lazy-server-del",
    "lazyfree-lazy-user-del",
    "lazyfree-lazy-user-flush",
    "lfu-decay-time",
    "lfu-log-factor",
    "list-compress-depth",
    "list-max-listpack-size",
    "list-max-ziplist-size",
    "loglevel",
    "lua-time-limit",
    "maxmemory-eviction-tenacity",
    "maxmemory-policy",
    "maxmemory-samples",
    "min-replicas-max-lag",
    "no-appendfsync-on-rewrite",
    "notify-keyspace-events",
    "rdb-save-incremental-fsync",
    "rdb-version-check",
    "repl-backlog-ttl",
    "repl-disable-tcp-nodelay",
    "repl-diskless-load",
    "repl-diskless-sync-delay",
    "replica-announced",
    "replica-lazy-flush",
    "replica-priority",
    "set-max-intset-entries",
    "set-max-listpack-entries",
    "set-max-listpack-value",
    "shutdown-on-sigint",
    "shutdown-on-sigterm",
    "shutdown-timeout",
    "slave-lazy-flush",
    "slowlog-log-slower-than",
    "slowlog-max-len",
    "stop-writes-on-bgsave-error",
    "stream-node-max-bytes",
    "stream-node-max-entries",
    "tcp-keepalive",
    "timeout",
    "tracking-table-max-keys",
    "zset-max-listpack-entries",
    "zset-max-listpack-value",
    "zset-max-ziplist-entries",
    "zset-max-ziplist-value",
];

/// Channels and shard channels to which streams publish.
pub(crate) const CHANNELS: &[&str] = &["news", "ch:1", ""];

/// Values of `notify-keyspace-events` at the start of streams with notifications. No value has `A` together
/// with `n`, because when a CONFIG SET fails, the reference restores the value that it shows, which hides the
/// `n`.
const NOTIFIED: &[&str] = &["KEA", "KEg$lxmn", "KEA", "E$lgn", "Kxm", "El"];

/// Values that are valid for some parameter, or nearly.
const CONFIG_VALUES: &[&str] = &[
    "everysec",
    "relaxed",
    "always",
    "notice",
    "warning",
    "KEA",
    "",
    "Kx",
    "64mb",
    "1k",
    "1KB",
    "-1",
    "1t",
    "100%",
    "101%",
    "allkeys-lfu",
    "volatile-ttl",
    "swapdb",
    "on-empty-db",
    "flush-before-load",
    "clients",
    "safe nosave",
    "force now",
    "50 99 99.9",
    "50 101",
    "18446744073709551615",
    "18446744073709551616b",
    "YES",
];

/// Parameters that streams only read.
const ASKED: &[&str] = &[
    "appendonly",
    "databases",
    "maxmemory",
    "maxmemory-policy",
    "rdbcompression",
    "save",
    "*max-listpack*",
    "lfu-*",
];

/// Types that DEBUG PROTOCOL can send, except push, which is no reply.
const PROTOCOL: &[&str] = &[
    "string", "integer", "double", "null", "array", "set", "map", "bignum", "true", "false", "verbatim",
    "attrib",
];

/// Whether the call has fixed words that must not be changed, because a changed one could, for example, end
/// or hang the server, or read data that is compared elsewhere.
pub(super) fn is_fixed(name: &str) -> bool {
    matches!(
        name,
        "debug"
            | "config|set"
            | "command|info"
            | "client|unblock"
            | "client|kill"
            | "client|pause"
            | "client|reply"
            | "wait"
            | "blpop"
            | "brpop"
            | "blmove"
            | "brpoplpush"
            | "blmpop"
            | "bzpopmin"
            | "bzpopmax"
            | "bzmpop"
            | "zrandmember"
            | "flushall"
            | "swapdb"
            | "restore"
            | "restore-asking"
    )
}

/// Whether the reference looks up the command's arguments in a table that hashes whole names, but compares
/// them only up to a zero byte. In such a table it depends on the bucket whether a name with a zero byte is
/// found.
pub(super) fn names_are_hashed(command: &[u8]) -> bool {
    [b"config".as_slice(), b"command", b"latency"].iter().any(|name| command.eq_ignore_ascii_case(name))
}

/// Arguments for commands whose tree is incomplete or whose arguments could harm the run; `None` for other
/// commands.
pub(super) fn arguments(generator: &mut Generator, name: &str) -> Option<Vec<Vec<u8>>> {
    let words = match name {
        "debug" if generator.chance(70) => vec![generator.token("PROTOCOL"), generator.pick(PROTOCOL)],
        "debug" => vec![generator.token("SLEEP"), b"0".to_vec()],
        "hello" => hello(generator),
        "select" => {
            vec![generator.pick(&["0", "0", "0", "1", "1", "2", "15", "16", "-1", "x", "1.0", "4294967296"])]
        }
        "swapdb" => vec![generator.pick(&["0", "1", "2"]), generator.pick(&["0", "1", "2", "16", "-1", "x"])],
        "config|get" if generator.chance(50) => vec![generator.pick(PARAMETERS)],
        "config|get" => vec![generator.pick(ASKED), generator.pick(PARAMETERS)],
        "config|set" => config_set(generator),
        "command|info" => vec![generator.pick(&[
            "get",
            "SET",
            "config|get",
            "nosuch",
            "append",
            "expire",
            "client|id",
            "del",
        ])],
        "commandlog|get" => {
            let count = generator.pick(&["0", "10", "-1", "-2", "x", "5"]);
            vec![count, generator.pick(&["slow", "LARGE-REQUEST", "large-reply", "none"])]
        }
        "restore" | "restore-asking" => payload::arguments(generator),
        "lolwut" => lolwut(generator),
        "client|setname" => vec![generator.pick(&["a", "", "with space", "b-c", "\n", "nam\u{e9}"])],
        "client|setinfo" => vec![
            generator.pick(&["LIB-NAME", "lib-ver", "LIB-OTHER", ""]),
            generator.pick(&["a", "1.2", "with space", "", "\n"]),
        ],
        "client|unblock" => client_unblock(generator),
        // Only the blocking client waits long. Other commands time out after a moment, with a null reply.
        "blpop" | "brpop" | "blmove" | "brpoplpush" | "blmpop" => {
            let timeout =
                generator.pick(&["0.001", "0.001", "0.002", "-1", "x", "nan", "1e300", "", "0x.1p-9"]);
            waiting_arguments(generator, name, values::list_key, &timeout)
        }
        "wait" => {
            vec![generator.pick(&["0", "0", "1", "-1", "x"]), generator.pick(&["1", "1", "2", "-1", "x"])]
        }
        "client|kill" => client_kill(generator),
        "publish" | "spublish" => {
            let message = values::value(&mut generator.rng, "value", "string");
            vec![generator.pick(CHANNELS), message]
        }
        "pubsub|numsub" | "pubsub|shardnumsub" => {
            vec![generator.pick(CHANNELS), generator.pick(CHANNELS)]
        }
        "client|pause" => {
            let mut words = vec![generator.pick(&["0", "0", "1", "-1", "x", "9223372036854775808"])];
            if generator.chance(50) {
                words.push(generator.pick(&["WRITE", "write", "ALL", "none"]));
            }
            words
        }
        "client|reply" => vec![generator.pick(&["ON", "on", "maybe", ""])],
        "auth" => {
            let user = generator.pick(&["default", "nobody"]);
            if generator.chance(50) { vec![user, b"pass".to_vec()] } else { vec![b"pass".to_vec()] }
        }
        name => return streams::arguments(generator, name).or_else(|| zsets::arguments(generator, name)),
    };
    Some(words)
}

/// A key that no other command names, so a client that waits for it waits until its timeout.
const NOBODYS_KEY: &[u8] = b"nobody's";

/// CLIENT UNBLOCK of the blocking client, or of another id.
fn client_unblock(generator: &mut Generator) -> Vec<Vec<u8>> {
    let mut words = vec![if generator.chance(75) {
        WAITER_ID.to_vec()
    } else {
        generator.pick(&["999999", "0", "-1", "x", "9223372036854775808"])
    }];
    if generator.chance(70) {
        words.push(generator.pick(&["TIMEOUT", "error", "ERROR", "none"]));
    }
    words
}

/// A command of the blocking client: without a timeout, or with a short one on a key that no client writes.
pub(super) fn wait(generator: &mut Generator) -> Command {
    let names = ["blpop", "brpop", "blmove", "brpoplpush", "blmpop", "bzpopmin", "bzpopmax", "bzmpop"];
    let name = names[generator.below(names.len())];
    let (arguments_of, own_key): (WaitingArguments, fn(&mut sluice_base::Rng) -> Vec<u8>) =
        if name.starts_with("bz") {
            (zsets::waiting_arguments, zsets::key)
        } else {
            (waiting_arguments, values::list_key)
        };
    let arguments = if generator.chance(15) {
        let timeout = generator.pick(&["0.001", "0.01", "0.0001"]);
        arguments_of(generator, name, |_| NOBODYS_KEY.to_vec(), &timeout)
    } else {
        let timeout = generator.pick(&["0", "0", "0", "0.0", "-1", "inf"]);
        arguments_of(generator, name, own_key, &timeout)
    };
    let words = [vec![generator.token(&name.to_uppercase())], arguments].concat();
    Command { client: WAITER, ..Command::of(words) }
}

/// Makes the arguments of a blocking command from its name, a function that draws keys, and the timeout.
type WaitingArguments = fn(&mut Generator, &str, fn(&mut sluice_base::Rng) -> Vec<u8>, &[u8]) -> Vec<Vec<u8>>;

/// Whether the blocking command ends by its timeout.
pub(super) fn waits_for_nobody(words: &[Vec<u8>]) -> bool {
    words.iter().any(|word| word == NOBODYS_KEY)
}

/// The arguments of a blocking command on lists.
fn waiting_arguments(
    generator: &mut Generator,
    name: &str,
    key: fn(&mut sluice_base::Rng) -> Vec<u8>,
    timeout: &[u8],
) -> Vec<Vec<u8>> {
    let ends = ["LEFT", "right", "LEFT", "RIGHT", "up"];
    let target = values::list_key(&mut generator.rng);
    let one = key(&mut generator.rng);
    match name {
        "blmove" => vec![one, target, generator.pick(&ends), generator.pick(&ends), timeout.to_vec()],
        "brpoplpush" => vec![one, target, timeout.to_vec()],
        _ => {
            let mut keys = vec![one];
            keys.extend((0..generator.below(3)).map(|_| key(&mut generator.rng)));
            if name == "blmpop" {
                let count = match generator.below(12) {
                    0 => generator.pick(&["0", "x", "-1"]),
                    _ => keys.len().to_string().into_bytes(),
                };
                let mut words = [vec![timeout.to_vec(), count], keys, vec![generator.pick(&ends)]].concat();
                if generator.chance(40) {
                    words.extend([generator.token("COUNT"), generator.pick(&["1", "2", "10", "0", "x"])]);
                }
                return words;
            }
            keys.push(timeout.to_vec());
            keys
        }
    }
}

/// A command that adds up to hundreds of elements, so that a list may get several nodes, and a hash may
/// cease to be a listpack.
pub(super) fn many(generator: &mut Generator) -> Command {
    if generator.chance(40) {
        let mut words = vec![b"HSET".to_vec(), values::own_key(&mut generator.rng, "h")];
        for _ in 0..1 + generator.below(400) {
            let field = 500 + generator.below(600);
            words.push(format!("f{field}").into_bytes());
            words.push(values::content(&mut generator.rng));
        }
        return Command::of(words);
    }
    let mut words = vec![generator.pick(&["RPUSH", "LPUSH", "rpushx"]), values::list_key(&mut generator.rng)];
    let count = 1 + generator.below(150);
    words.extend((0..count).map(|_| values::content(&mut generator.rng)));
    Command::of(words)
}

/// A command that makes a key expire at once, and a sleep until the key has expired on both servers.
pub(super) fn expiry(generator: &mut Generator) -> [Command; 2] {
    let word = |text: &str| text.as_bytes().to_vec();
    let key = values::key(&mut generator.rng);
    let words = match generator.below(6) {
        0 => vec![word("SET"), key, word("v"), word("PX"), word("1")],
        1 => vec![word("PSETEX"), key, word("1"), word("v")],
        2 => vec![word("GETEX"), key, word("PX"), word("1")],
        3 => {
            let other = values::key(&mut generator.rng);
            vec![word("MSETEX"), word("2"), key, word("1"), other, word("2"), word("PX"), word("1")]
        }
        _ => vec![word("PEXPIRE"), key, word("1")],
    };
    let sleep = vec![word("DEBUG"), word("SLEEP"), word("0.002")];
    [words, sleep].map(Command::of)
}

/// Filters of CLIENT KILL that match no client, or are invalid: the old form with an address,
/// and the new one.
fn client_kill(generator: &mut Generator) -> Vec<Vec<u8>> {
    if generator.chance(20) {
        return vec![generator.pick(&["192.0.2.1:1", "nowhere", ""])];
    }
    let filters: [[&str; 2]; 12] = [
        ["ID", "9223372036854775807"],
        ["ID", "0"],
        ["ID", "-1"],
        ["ID", "x"],
        ["ADDR", "192.0.2.1:1"],
        ["LADDR", "192.0.2.1:1"],
        ["USER", "nobody"],
        // `pubsub` is left out, because it would kill the stream's listener, which has pending messages.
        ["TYPE", "master"],
        ["TYPE", "replica"],
        ["TYPE", "nothing"],
        ["MAXAGE", "1000000"],
        ["NO-FILTER", "x"],
    ];
    let mut words = Vec::new();
    for _ in 0..1 + generator.below(2) {
        let [name, value] = filters[generator.below(filters.len())];
        words.extend([generator.token(name), value.as_bytes().to_vec()]);
    }
    if generator.chance(40) {
        words.extend([generator.token("SKIPME"), generator.pick(&["yes", "no", "x"])]);
    }
    words
}

/// Commands that let a key expire at a given time and then read this time. Both servers must return the same.
pub(super) fn moment(generator: &mut Generator) -> Vec<Command> {
    let word = |text: &str| text.as_bytes().to_vec();
    let key = values::key(&mut generator.rng);
    let ms = 9_000_000_000_000 + i64::try_from(generator.below(1_000_000)).unwrap_or(0);
    // Rounding of halves is of interest, so some times end in half a second.
    let ms = if generator.chance(20) { ms / 1000 * 1000 + 500 } else { ms };
    let (seconds, millis) = ((ms / 1000).to_string().into_bytes(), ms.to_string().into_bytes());
    let set = match generator.below(6) {
        0 => vec![word("EXPIREAT"), key.clone(), seconds],
        1 => vec![word("PEXPIREAT"), key.clone(), millis],
        2 => vec![word("SET"), key.clone(), word("v"), word("EXAT"), seconds],
        3 => vec![word("SET"), key.clone(), word("v"), word("PXAT"), millis],
        4 => vec![word("GETEX"), key.clone(), word("EXAT"), seconds],
        _ => vec![word("GETEX"), key.clone(), word("PXAT"), millis],
    };
    let ask = vec![generator.pick(&["EXPIRETIME", "PEXPIRETIME"]), key];
    [set, ask].map(Command::of).to_vec()
}

/// Whether, according to both servers' replies, the first call has given a key the absolute expiry in its
/// words, and the second call reads the expiry of that key. In that case the replies to the second call must
/// be equal.
pub(super) fn names_the_moment(set: &[Vec<u8>], replies: [&[u8]; 2], ask: &[Vec<u8>]) -> bool {
    let is = |word: Option<&Vec<u8>>, text: &str| {
        word.is_some_and(|word| word.eq_ignore_ascii_case(text.as_bytes()))
    };
    let any = |words: &[Vec<u8>], texts: [&str; 2]| {
        words.iter().any(|word| texts.iter().any(|text| word.eq_ignore_ascii_case(text.as_bytes())))
    };
    let asks = ask.len() == 2 && any(&ask[..1], ["EXPIRETIME", "PEXPIRETIME"]) && ask.get(1) == set.get(1);
    let set_for_sure = if set.len() >= 3 && any(&set[..1], ["EXPIREAT", "PEXPIREAT"]) {
        replies.iter().all(|reply| reply.starts_with(b":1\r"))
    } else if set.len() >= 5 && is(set.first(), "SET") && any(&set[3..], ["EXAT", "PXAT"]) {
        replies.iter().all(|reply| reply.starts_with(b"+OK"))
    } else if set.len() == 4 && is(set.first(), "GETEX") && any(&set[2..3], ["EXAT", "PXAT"]) {
        // The reply is a value: neither null, nor an error, nor QUEUED.
        replies.iter().all(|reply| reply.starts_with(b"$") && !reply.starts_with(b"$-"))
    } else {
        false
    };
    asks && set_for_sure
}

/// A command that reads a key that may just have been changed.
pub(super) fn question(generator: &mut Generator, key: Vec<u8>) -> Command {
    let mut words = match generator.below(7) {
        0..=2 => vec![b"OBJECT".to_vec(), b"ENCODING".to_vec()],
        3 => vec![b"OBJECT".to_vec(), b"REFCOUNT".to_vec()],
        4 => vec![b"STRLEN".to_vec()],
        5 => vec![b"PTTL".to_vec()],
        _ => vec![b"GET".to_vec()],
    };
    words.push(key);
    Command::of(words)
}

/// Turns keyspace notifications on.
pub(super) fn notify(generator: &mut Generator) -> Command {
    let words = ["CONFIG", "SET", "notify-keyspace-events"].map(|word| word.as_bytes().to_vec());
    Command::of([words.to_vec(), vec![generator.pick(NOTIFIED)]].concat())
}

/// LOLWUT, sometimes with a version and a size.
fn lolwut(generator: &mut Generator) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    if generator.chance(60) {
        let version = generator.pick(&["5", "5", "6", "7", "9", "9", "0", "-1", "x", "4294967301"]);
        words.extend([generator.token("VERSION"), version]);
    }
    for _ in 0..generator.below(5) {
        words.push(generator.pick(&["1", "5", "0", "-3", "12", "1.5", "x"]));
    }
    words
}

/// HELLO with a version, and sometimes with options.
fn hello(generator: &mut Generator) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    if generator.chance(85) {
        words.push(generator.pick(&["2", "3", "3", "1", "4", "x", "", "3.0", "-1"]));
    }
    if generator.chance(15) {
        words.extend([generator.token("SETNAME"), generator.pick(&["a", "", "with space"])]);
    }
    if generator.chance(5) {
        words.extend([generator.token("AUTH"), b"default".to_vec(), generator.pick(&["", "pass"])]);
    }
    words
}

/// CONFIG SET of one or two parameters, with values that are valid for some of them.
fn config_set(generator: &mut Generator) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    for _ in 0..1 + generator.below(2) {
        words.push(if generator.chance(4) {
            b"no-such-parameter".to_vec()
        } else {
            generator.pick(PARAMETERS)
        });
        let value = match generator.below(3) {
            0 => generator.pick(&["yes", "no", "1", "8", "64", "128", "-2", "1000"]),
            1 => generator.pick(CONFIG_VALUES),
            _ => values::hostile(&mut generator.rng),
        };
        words.push(value);
    }
    words
}

/// Redirects a range by members to the key `even`, whose scores are all 0, because with different scores the
/// result of such a range is undefined. Some ZADDs to `z0` are redirected to fill that key.
fn even_scores(name: &str, words: &mut [Vec<u8>]) {
    let is = |word: &Vec<u8>, text: &str| word.eq_ignore_ascii_case(text.as_bytes());
    let is_lex =
        name.starts_with('z') && (name.contains("lex") || words.iter().any(|word| is(word, "BYLEX")));
    // For a range by members every key is replaced, because a copy or a rename may put a sorted set under a
    // key of any type.
    let of_zsets = |word: &Vec<u8>| is_lex || word.len() == 2 && word[0] == b'z';
    let at = if name == "zrangestore" { 2 } else { 1 };
    let is_chosen = words.last().is_some_and(|word| word.last().is_some_and(|byte| byte.is_multiple_of(2)));
    let Some(key) = words.get_mut(at).filter(|key| of_zsets(key)) else { return };
    let is_add = name == "zadd" && key.as_slice() == b"z0" && is_chosen;
    if !is_lex && !is_add {
        return;
    }
    *key = b"even".to_vec();
    if is_add {
        let len = words.len();
        let scores = words.iter_mut().enumerate().skip(2).filter(|(at, _)| (len - *at).is_multiple_of(2));
        let is_score = |word: &[u8]| std::str::from_utf8(word).is_ok_and(|text| text.parse::<f64>().is_ok());
        scores.filter(|(_, word)| is_score(word)).for_each(|(_, word)| *word = b"0".to_vec());
    }
}

/// Makes a call harmless: no expiry so near that it could pass between the executions on the two servers,
/// no count so large that it would fill the memory, no timeout that ends the connection, and no argument
/// for which the reference's result is undefined or depends on the encoding.
pub(super) fn tame(name: &str, words: &mut [Vec<u8>], mortal: bool) {
    even_scores(name, words);
    if name == "watch" {
        let other = |word: &Vec<u8>| values::watched_key(&mut sluice_base::Rng::new(word.len() as u64));
        words.iter_mut().skip(1).for_each(|word| *word = other(word));
    }
    if name.starts_with("zinter") {
        // Weights of 0 or infinity are replaced, because until 9.1.3 the reference takes a product of 0 and
        // infinity as 0 only for the first set.
        let is_weight =
            |word: &[u8]| std::str::from_utf8(word).ok().and_then(|text| text.parse::<f64>().ok());
        let weights = words.iter_mut().skip_while(|word| !word.eq_ignore_ascii_case(b"WEIGHTS"));
        let extreme =
            |word: &&mut Vec<u8>| is_weight(word).is_some_and(|weight| weight == 0.0 || !weight.is_finite());
        weights.filter(extreme).for_each(|word| *word = b"2".to_vec());
    }
    if name.starts_with("sort") && words.iter().any(|word| word.eq_ignore_ascii_case(b"BY")) {
        // `ALPHA` is replaced, because with it elements without a weight are equal, and LIMIT would select
        // any of them.
        let alpha = words.iter_mut().skip(2).filter(|word| word.eq_ignore_ascii_case(b"ALPHA"));
        alpha.for_each(|word| *word = b"ASC".to_vec());
    }
    let expiring = ["expire", "pexpire", "setex", "psetex", "restore", "hexpire", "hpexpire"].contains(&name);
    for at in 1..words.len() {
        let before = words[at - 1].to_ascii_uppercase();
        let after_option = [b"EX".as_slice(), b"PX"].contains(&before.as_slice());
        if expiring || after_option {
            move_far(&mut words[at]);
        }
        // A negative offset is replaced, because the reference counts it from the end only in a skip list,
        // to which its SORT converts a listpack.
        if name.starts_with("zr") && before == b"LIMIT" && words[at].starts_with(b"-") {
            words[at] = b"1".to_vec();
        }
        // A large index is replaced, because the reference truncates an index into a listpack to 32 bits,
        // only in this command.
        if name == "lset" && at == 2 && number(&words[at]).is_some_and(|n| n.abs() > i128::from(i32::MAX)) {
            words[at] = b"1000000".to_vec();
        }
        // A number below -2^62 is replaced, because the reference's overflow check itself overflows for
        // such a number, and then takes it for a large one.
        if name == "bitfield" && number(&words[at]).is_some_and(|n| n < -(1 << 62)) {
            words[at] = b"-4611686018427387904".to_vec();
        }
        if name == "msetex" && !mortal && [b"EXAT".as_slice(), b"PXAT"].contains(&before.as_slice()) {
            move_past_away(&mut words[at]);
        }
        if name == "config|set" && before == b"TIMEOUT" && number(&words[at]).is_some_and(|n| n > 0) {
            words[at] = b"0".to_vec();
        }
        if name.ends_with("randmember") || name == "hrandfield" {
            let small = number(&words[at]).is_none_or(|n| n > -100);
            if !small {
                words[at] = b"-7".to_vec();
            }
        }
    }
}

/// Makes an expiry unique if it is compared with another one. Of two equal relative expiries, the later one
/// is greater only if a millisecond has passed in between, which is random.
pub(super) fn part_expiries(generator: &mut Generator, name: &str, words: &mut [Vec<u8>]) {
    let compares = |word: &Vec<u8>| {
        word.get(..2).is_some_and(|head| head.eq_ignore_ascii_case(b"GT") || head.eq_ignore_ascii_case(b"LT"))
    };
    if !["expire", "pexpire"].contains(&name) || !words.iter().skip(3).any(compares) {
        return;
    }
    if let Some(far) = number(&words[2]).filter(|far| (10_000_000..=1 << 62).contains(far)) {
        let parts = usize::try_from(far / 4).unwrap_or(usize::MAX);
        words[2] = (far - i128::try_from(generator.below(parts)).unwrap_or(0)).to_string().into_bytes();
    }
}

/// Replaces a positive relative time below 10,000,000 by a later one, which is still in the future at the end
/// of the stream, even if the unit is a millisecond.
fn move_far(word: &mut Vec<u8>) {
    if let Some(near) = number(word).filter(|n| (1..10_000_000).contains(n)) {
        *word = (10_000_000 + near).to_string().into_bytes();
    }
}

/// Replaces an absolute time that may be past by one far in the future, because MSETEX leaves an expired key
/// in place, and whether RANDOMKEY or SCAN finds it first is random.
fn move_past_away(word: &mut Vec<u8>) {
    if number(word).is_some_and(|moment| (1..9_000_000_000_000).contains(&moment)) {
        *word = b"9000000000000".to_vec();
    }
}

/// The word as an integer.
fn number(word: &[u8]) -> Option<i128> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::names_the_moment;

    fn names(set: &str, reply: &str, ask: &str) -> bool {
        let words = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
        names_the_moment(&words(set), [reply.as_bytes(); 2], &words(ask))
    }

    #[test]
    fn a_moment_that_was_set_is_compared_exactly() {
        assert!(names("EXPIREAT k 9000000000", ":1\r\n", "expiretime k"));
        assert!(names("PEXPIREAT k 9000000000000 NX", ":1\r\n", "PEXPIRETIME k"));
        assert!(names("SET k v PXAT 9000000000000", "+OK\r\n", "EXPIRETIME k"));
        assert!(names("getex k exat 9000000000", "$1\r\nv\r\n", "EXPIRETIME k"));
    }

    #[test]
    fn a_moment_that_may_be_another_is_not() {
        assert!(!names("EXPIREAT k 9000000000", ":0\r\n", "EXPIRETIME k"), "nothing was set");
        assert!(!names("EXPIREAT k 9000000000", ":1\r\n", "EXPIRETIME other"));
        assert!(!names("EXPIREAT k 9000000000", "+QUEUED\r\n", "EXPIRETIME k"));
        assert!(!names("EXPIRE k 9000000000", ":1\r\n", "EXPIRETIME k"), "counted from now");
        assert!(!names("SET k EXAT EX 9000000000", "+OK\r\n", "EXPIRETIME k"), "EXAT is the value");
        assert!(!names("SET k v GET EXAT 9000000000", "$1\r\nv\r\n", "EXPIRETIME k"), "NX may have refused");
        assert!(!names("GETEX k EXAT 9000000000", "$-1\r\n", "EXPIRETIME k"));
        assert!(!names("EXPIREAT k 9000000000", ":1\r\n", "TTL k"), "what is left depends on now");
    }
}
