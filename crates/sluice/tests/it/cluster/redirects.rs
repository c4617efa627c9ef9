//! Redirects, compared with the reference byte for byte (S-1 to S-63, table 1.3): every state of a slot,
//! with keys and without, requested from a primary and from its replica by clients with each of their
//! flags, while the cluster is ok and while it is not.
//!
//! There are six nodes, three on each side: a primary, its replica, and a primary that owns the other slots.
//! The first two nodes of one side are ours; the other four nodes are the reference's. Both sides have the
//! same state, and announce the same ports to clients, so that replies need no translation.

use super::member::Member;
use crate::common::{Client, until};
use sluice_base::key_slot;
use std::collections::BTreeMap;
use std::io::Read;

/// The ports that the three nodes of a side announce to clients.
const PORTS: [&str; 3] = ["7001", "7002", "7003"];
/// The slots that the first primary owns, and those of the other primary. Later slots have no owner.
const MINE: [u16; 2] = [0, 8_000];
const FOREIGN: [u16; 2] = [8_001, 15_999];
const UNBOUND: [u16; 2] = [16_000, 16_383];

/// The owner of a state's slot, and whether the slot is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Slot {
    Mine,
    Foreign,
    Unbound,
    Migrating,
    Importing,
    /// Marked as importing, without an owner.
    ImportingUnbound,
}

/// Which of the keys `a` and `b` exist; `c` and `d` never exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Keys {
    None,
    OnlyA,
    Both,
    Expired,
}

struct State {
    slot: Slot,
    keys: Keys,
    /// The tag of the slot's keys, including the braces.
    tag: String,
}

impl State {
    fn number(&self) -> u16 {
        key_slot(self.tag.as_bytes())
    }

    fn name(&self) -> String {
        format!("{:?}, keys {:?}", self.slot, self.keys)
    }
}

/// The first `count` tags whose slots lie within bounds.
fn tags([first, last]: [u16; 2], count: usize) -> Vec<String> {
    let all = (0..).map(|number| format!("{{tag{number}}}"));
    all.filter(|tag| (first..=last).contains(&key_slot(tag.as_bytes()))).take(count).collect()
}

/// Every state of a slot that is tested.
fn states() -> Vec<State> {
    let of = |slot: Slot, bounds: [u16; 2], keys: &[Keys], from: usize| -> Vec<State> {
        let tags = tags(bounds, from + keys.len()).split_off(from);
        keys.iter().zip(tags).map(|(&keys, tag)| State { slot, keys, tag }).collect()
    };
    let all = [Keys::None, Keys::OnlyA, Keys::Both, Keys::Expired];
    [
        of(Slot::Mine, MINE, &[Keys::OnlyA, Keys::Expired], 0),
        of(Slot::Migrating, MINE, &all, 2),
        of(Slot::Foreign, FOREIGN, &[Keys::None], 0),
        of(Slot::Importing, FOREIGN, &all, 1),
        of(Slot::Unbound, UNBOUND, &[Keys::None], 0),
        of(Slot::ImportingUnbound, UNBOUND, &[Keys::None], 1),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Requests, a line for each command. `%` stands for the tag of the state, `^` for the tag of another slot of
/// the first primary, `&` for the tag of a slot of the other primary, `~` for the tag of a slot without an
/// owner. No request changes data, in any state.
const REQUESTS: &[&[&str]] = &[
    // Requests with one key, with several keys, and with a repeated key.
    &["GET %a"],
    &["GET %b"],
    &["GET %c"],
    &["SETRANGE %a 0 ''"],
    &["SETRANGE %b 0 ''"],
    &["DEL %c"],
    &["MGET %a %b"],
    &["MGET %b %a"],
    &["MGET %a %a"],
    &["MGET %c %c"],
    &["MGET %c %d"],
    &["EXISTS %a %b"],
    &["MSETNX %a 1 %b 2"],
    &["UNLINK %c %d"],
    &["TOUCH %a"],
    &["RENAME %c %a"],
    &["SMOVE %c %d m"],
    &["COPY %c %d"],
    &["ZUNIONSTORE %d 1 %c"],
    &["ZUNIONSTORE %d 2 %c %c"],
    &["ZUNION 2 %c %d"],
    &["SINTERCARD 2 %c %d"],
    &["LMPOP 2 %c %d LEFT"],
    &["BITOP AND %d %c"],
    &["PFCOUNT %c %d"],
    &["SORT %c STORE %d"],
    &["SORT %c BY %x*"],
    &["SORT %c BY w*"],
    &["SORT_RO %c GET # GET %x*"],
    &["GEORADIUS %c 0 0 1 m STORE %d"],
    &["XREAD STREAMS %c %d 0 0"],
    &["XREADGROUP GROUP g n STREAMS %c >"],
    &["XINFO STREAM %c"],
    &["XGROUP CREATE %c g 0"],
    &["OBJECT ENCODING %a"],
    &["OBJECT ENCODING %c"],
    &["MEMORY USAGE %c"],
    &["DEBUG OBJECT %c"],
    &["DUMP %c"],
    &["RESTORE %c 0 nothing"],
    &["RESTORE-ASKING %c 0 nothing"],
    &["RESTORE-ASKING %a 0 nothing"],
    &["GETDEL %c"],
    &["HGETALL %a"],
    &["LPUSH %a x"],
    // Requests with keys of two slots.
    &["MGET %a ^a"],
    &["MGET ^a %a"],
    &["MGET %a &a"],
    &["MGET ~a %a"],
    &["MSET %a 1 ^a 1"],
    &["SORT %c STORE ^d"],
    &["EVAL 'return 1' 2 %a ^a"],
    // Requests for another database.
    &["SELECT 1", "GET %a"],
    &["MOVE %c 1"],
    &["MOVE %c"],
    &["COPY %c %d DB 0"],
    &["COPY %c %d DB 1"],
    &["COPY %c %d DB 99"],
    &["COPY %c %d DB x"],
    &["COPY %c %d DB"],
    &["COPY %c %d REPLACE DB 1"],
    &["SELECT 1", "COPY %c %d DB 1"],
    &["MULTI", "SELECT 1", "COPY %c %d DB 1", "COPY %c %d DB 0", "EXEC"],
    &["MULTI", "SELECT 0", "COPY %c %d DB 1", "EXEC"],
    &["MIGRATE 127.0.0.1 1 %c 0 10"],
    &["MIGRATE 127.0.0.1 1 '' 0 10 KEYS %c %d"],
    &["MIGRATE 127.0.0.1 1 '' 0 10 KEYS %c ^d"],
    // Requests without a key, and requests whose keys cannot be determined.
    &["PING"],
    &["ECHO x"],
    &["PUBLISH %a m"],
    &["CLUSTER KEYSLOT %a"],
    &["GET"],
    &["GET %a %b"],
    &["NOSUCH %a"],
    &["ZUNION x %c"],
    &["ZUNION 9 %c"],
    &["EVAL 'return 1' x %a"],
    &["EVAL 'return 1' 9 %a"],
    &["EVAL 'return 1' -1 %a"],
    &["XREAD STREAMS %c"],
    &["XREAD COUNT 1 %c 0"],
    &["SORT %c STORE"],
    &["MIGRATE 127.0.0.1 1 %c 0"],
    // Sharded publish/subscribe.
    &["SPUBLISH %a m"],
    &["SSUBSCRIBE %a", "PING", "SUNSUBSCRIBE %a"],
    &["SSUBSCRIBE %a %b"],
    &["SSUBSCRIBE %a ^a"],
    &["SUNSUBSCRIBE %a"],
    &["SUNSUBSCRIBE"],
    &["MULTI", "SSUBSCRIBE %a", "EXEC"],
    &["MULTI", "SPUBLISH %a m", "GET %a", "GET %b", "EXEC"],
    &["MULTI", "SPUBLISH %a m", "SETRANGE %a 0 ''", "EXEC"],
    &["MULTI", "SPUBLISH %a m", "MOVE %c 1", "EXEC"],
    &["SUBSCRIBE %a", "GET &a", "UNSUBSCRIBE %a"],
    // Scripts.
    &["EVAL 'return 1' 0"],
    &["EVAL 'return 1' 1 %a"],
    &["EVAL 'return redis.call(\"GET\", KEYS[1])' 1 %a"],
    &["EVAL 'return redis.call(\"GET\", KEYS[1])' 2 %a %b"],
    &["EVAL 'return redis.call(\"GET\", ARGV[1])' 0 %a"],
    &["EVAL 'return redis.call(\"MGET\", ARGV[1], ARGV[2])' 0 %a %b"],
    &["EVAL 'return redis.pcall(\"GET\", ARGV[1])[\"err\"]' 0 %b"],
    &["EVAL 'return redis.call(\"SETRANGE\", KEYS[1], 0, \"\")' 1 %a"],
    &["EVAL 'return redis.call(\"SETRANGE\", ARGV[1], 0, \"\")' 0 %a"],
    &["EVAL '#!lua flags=no-writes\nreturn redis.call(\"GET\", KEYS[1])' 1 %a"],
    &["EVAL '#!lua flags=no-writes\nreturn redis.call(\"SETRANGE\", KEYS[1], 0, \"\")' 1 %a"],
    &["EVAL '#!lua\nreturn redis.call(\"GET\", KEYS[1])' 1 %a"],
    &["EVAL '#!lua flags=no-cluster\nreturn 1' 1 %a"],
    &["EVAL '#!lua flags=no-cluster\nreturn 1' 0"],
    &[
        "EVAL '#!lua flags=no-writes\nredis.call(\"GET\", ARGV[1]) return redis.call(\"GET\", ARGV[2])' 0 %a ^a",
    ],
    &[OF_TWO_SLOTS],
    &[
        "EVAL '#!lua flags=no-writes,allow-cross-slot-keys\nredis.call(\"GET\", ARGV[1]) return redis.call(\"GET\", ARGV[2])' 0 ^a %a",
    ],
    &["EVAL 'redis.call(\"GET\", ARGV[1]) return redis.call(\"GET\", ARGV[2])' 0 ^a %a"],
    &["EVAL 'return redis.call(\"SPUBLISH\", KEYS[1], \"m\")' 1 %a"],
    &["EVAL 'return redis.call(\"PUBLISH\", KEYS[1], \"m\")' 1 %a"],
    &["EVAL_RO 'return redis.call(\"GET\", KEYS[1])' 1 %a"],
    &["EVAL_RO 'return redis.call(\"SETRANGE\", KEYS[1], 0, \"\")' 1 %a"],
    &["EVALSHA ffffffffffffffffffffffffffffffffffffffff 1 %a"],
    &["EVALSHA_RO ffffffffffffffffffffffffffffffffffffffff 1 %a"],
    &["FCALL nosuch 1 %a"],
    &["FCALL_RO nosuch 1 %a"],
    &["FCALL reads 1 %a"],
    &["FCALL_RO reads 1 %a"],
    &["FCALL writes 1 %a"],
    &["FCALL_RO writes 1 %a"],
    &["FCALL writes 2 %a %b"],
    // Transactions.
    &["MULTI", "EXEC"],
    &["MULTI", "PING", "EXEC"],
    &["MULTI", "GET %a", "EXEC"],
    &["MULTI", "GET %a", "DISCARD"],
    &["MULTI", "GET %b", "EXEC"],
    &["MULTI", "GET %a", "GET %b", "EXEC"],
    &["MULTI", "GET %b", "PING", "GET %b", "EXEC"],
    &["MULTI", "SETRANGE %a 0 ''", "EXEC"],
    &["MULTI", "GET %a", "SETRANGE %c 0 ''", "EXEC"],
    &["MULTI", "GET %a", "GET ^a", "EXEC"],
    &["MULTI", "GET ^a", "GET %a", "EXEC"],
    &["MULTI", "MGET %a ^a", "EXEC"],
    &["MULTI", "SELECT 1", "GET %a", "EXEC"],
    &["MULTI", "SELECT 99", "GET %a", "EXEC"],
    &["MULTI", "GET %a", "SELECT 1", "GET %a", "EXEC", "GET %a"],
    &["MULTI", "ASKING", "GET %a", "EXEC", "GET %a"],
    &["MULTI", "READONLY", "GET %a", "EXEC", "GET %a"],
    &["MULTI", "MOVE %c 1", "EXEC"],
    &["MULTI", "COPY %c %d DB 1", "EXEC"],
    &["MULTI", "EVAL 'return redis.call(\"GET\", KEYS[1])' 1 %a", "EXEC"],
    &["MULTI", "EVAL 'return redis.call(\"GET\", ARGV[1])' 0 %a", "EXEC"],
    &["MULTI", "EVAL 'return redis.call(\"SETRANGE\", KEYS[1], 0, \"\")' 1 %a", "EXEC"],
    &["MULTI", "EVAL '#!lua\nreturn redis.call(\"GET\", KEYS[1])' 1 %a", "EXEC"],
    &["MULTI", "MIGRATE 127.0.0.1 1 %c 0 10", "EXEC"],
    &["MULTI", "RESTORE-ASKING %c 0 nothing", "EXEC"],
    &["MULTI", "NOSUCH", "GET %a", "EXEC"],
    &["MULTI", "GET %b", "NOSUCH", "EXEC"],
    &["MULTI", "GET %b", "GET", "EXEC"],
    &["MULTI", "GET %b", "GET &a", "EXEC"],
    &["MULTI", "GET %b", "GET ~a", "EXEC"],
    &["MULTI", "GET %b", "MGET %a ^a", "EXEC"],
    &["MULTI", "GET ^a", "GET %b", "GET", "EXEC"],
    &["WATCH %a", "MULTI", "GET %a", "EXEC"],
    &["WATCH %a ^a"],
    &["WATCH %a", "UNWATCH"],
    // The flags of a client last for one command, or until they are reset.
    &["GET %a", "GET %a"],
    &["ASKING", "PING", "GET %a"],
    &["ASKING", "NOSUCH", "GET %a"],
    &["ASKING", "GET &a", "GET %a"],
    &["ASKING", "MULTI", "GET %a", "EXEC", "GET %a"],
    &["READONLY", "READWRITE", "GET %a"],
    &["ASKING", "RESET", "GET %a"],
    &["CLIENT REPLY SKIP", "GET %a", "PING"],
    // Permissions are checked before slots.
    &["AUTH limited secret", "GET %a", "GET &a"],
];

/// A script that accesses a key of another slot than that of its declared keys; see [`is_meant`].
const OF_TWO_SLOTS: &str =
    "EVAL '#!lua flags=no-writes\nredis.call(\"GET\", KEYS[1]) return redis.call(\"GET\", ARGV[1])' 1 ^a %a";
const BEHIND_SELECT: &str = "MULTI; SELECT 1; COPY %c %d DB 1; COPY %c %d DB 0; EXEC";

/// A request that is sent once, at the end, because after a script has crossed slots, a node of the reference
/// refuses all scripts with keys until it is restarted (docs/compat.md).
const SPOILS: &str = "EVAL 'return redis.call(\"MGET\", ARGV[1], ARGV[2])' 0 %a ^a";

/// Requests that block for a moment, unless another node has their keys.
const WAITS: &[&[&str]] = &[
    &["BLPOP %c 0.001"],
    &["BLPOP %c %d 0.001"],
    &["BLPOP %c ^c 0.001"],
    &["XREAD BLOCK 1 STREAMS %c $"],
    &["MULTI", "BLPOP %c 0.001", "EXEC"],
];

/// Commands that a client sends before a request, to set its flags.
const FLAGS: &[&[&str]] = &[&[], &["ASKING"], &["READONLY"], &["READONLY", "ASKING"]];

/// The roles of the two nodes under test, on each side.
const ROLES: [&str; 2] = ["primary", "replica"];

/// A condition of the cluster: the parameters that are set, whether the cluster is then ok, and whether
/// clients with each entry of `FLAGS` are tested.
struct Health {
    parameters: &'static [(&'static str, &'static str)],
    is_ok: bool,
    all_flags: bool,
}

const WELL: &[(&str, &str)] = &[
    ("cluster-require-full-coverage", "no"),
    ("cluster-allow-reads-when-down", "no"),
    ("cluster-allow-pubsubshard-when-down", "yes"),
    ("cluster-preferred-endpoint-type", "ip"),
    ("maxmemory", "0"),
    ("min-replicas-to-write", "0"),
];

const HEALTH: &[Health] = &[
    Health { parameters: &[], is_ok: true, all_flags: true },
    Health { parameters: &[("cluster-preferred-endpoint-type", "hostname")], is_ok: true, all_flags: false },
    Health {
        parameters: &[("cluster-preferred-endpoint-type", "unknown-endpoint")],
        is_ok: true,
        all_flags: false,
    },
    Health { parameters: &[("maxmemory", "1")], is_ok: true, all_flags: false },
    Health { parameters: &[("min-replicas-to-write", "5")], is_ok: true, all_flags: false },
    // From here on the cluster is not ok, because a slot has no owner.
    Health { parameters: &[("cluster-require-full-coverage", "yes")], is_ok: false, all_flags: true },
    Health {
        parameters: &[
            ("cluster-require-full-coverage", "yes"),
            ("cluster-allow-pubsubshard-when-down", "no"),
        ],
        is_ok: false,
        all_flags: false,
    },
    Health {
        parameters: &[("cluster-require-full-coverage", "yes"), ("cluster-allow-reads-when-down", "yes")],
        is_ok: false,
        all_flags: true,
    },
    Health {
        parameters: &[
            ("cluster-require-full-coverage", "yes"),
            ("cluster-allow-reads-when-down", "yes"),
            ("cluster-allow-pubsubshard-when-down", "no"),
        ],
        is_ok: false,
        all_flags: false,
    },
];

/// A primary, its replica, and the primary of other slots.
struct Side([Member; 3]);

impl Side {
    /// Starts the nodes and gives them the states. Returns `None` if the environment names no reference.
    fn start(is_stock: bool, states: &[State]) -> Option<Side> {
        let start = |at: usize| {
            let mut more = vec!["--cluster-announce-client-port", PORTS[at], "--cluster-databases", "2"];
            more.extend(["--cluster-require-full-coverage", "no", "--cluster-replica-no-failover", "yes"]);
            // The timeout is long, so that no node is suspected on a busy machine.
            more.extend(["--repl-diskless-sync-delay", "0", "--cluster-node-timeout", "60000"]);
            if at == 2 {
                more.extend(["--cluster-announce-hostname", "other.example"]);
            }
            Member::start(is_stock || at == 2, &more)
        };
        let side = Side([start(0)?, start(1)?, start(2)?]);
        let [primary, replica, other] = &side.0;
        for (member, [first, last]) in [(primary, MINE), (other, FOREIGN)] {
            member.client().check(&format!("CLUSTER ADDSLOTSRANGE {first} {last}"), "+OK\r\n");
        }
        let mut client = primary.client();
        for member in [replica, other] {
            super::meet(&mut client, member.port(), member.bus());
        }
        let follow = format!("CLUSTER REPLICATE {}\r\n", primary.id());
        until("the primary to be known", || (replica.client().send(&follow).line() == "+OK").then_some(()));
        until("a replica that follows", || replica.follows().then_some(()));
        for member in &side.0 {
            until("a node that knows all", || {
                let lines = super::nodes(&mut member.client());
                let has = |part: &str| lines.iter().any(|line| line.contains(part));
                let info = member.client().bulk("CLUSTER INFO");
                let is_ok = info.starts_with(b"cluster_state:ok");
                (is_ok && has(" 0-8000") && has(" 8001-15999") && has("slave")).then_some(())
            });
        }
        until("the name of the other", || {
            let named = |member: &Member| {
                super::nodes(&mut member.client()).iter().any(|line| line.contains(",other.example"))
            };
            (named(primary) && named(replica)).then_some(())
        });
        side.give(states);
        Some(side)
    }

    /// Opens slots and puts keys into them. Creates a user at both nodes under test, and a library.
    fn give(&self, states: &[State]) {
        let [primary, replica, other] = &self.0;
        let (mut client, id) = (primary.client(), other.id());
        for member in [primary, replica] {
            let mut client = member.client();
            client.check("DEBUG SET-ACTIVE-EXPIRE 0", "+OK\r\n");
            client.check("ACL SETUSER limited on >secret +@all %RW~{tag*}a %RW~{tag*}b", "+OK\r\n");
        }
        let library = "#!lua name=lib\nserver.register_function{function_name=\"reads\", callback=function(k) \
                       return server.call(\"GET\", k[1]) end, flags={\"no-writes\"}} \
                       server.register_function{function_name=\"writes\", callback=function(k) return \
                       server.call(\"SETRANGE\", k[1], 0, \"\") end}";
        let request = crate::common::request(&[b"FUNCTION", b"LOAD", library.as_bytes()]);
        client.send(&request).expect("$3\r\nlib\r\n");
        for state in states {
            let how = match state.slot {
                Slot::Migrating => "MIGRATING",
                Slot::Importing | Slot::ImportingUnbound => "IMPORTING",
                Slot::Mine | Slot::Foreign | Slot::Unbound => "",
            };
            // The keys are set first, because a migrating slot accepts no new keys.
            if state.slot != Slot::Importing {
                self.fill(&mut client, state);
            }
            if !how.is_empty() {
                client.check(&format!("CLUSTER SETSLOT {} {how} {id}", state.number()), "+OK\r\n");
            }
            if state.slot == Slot::Importing {
                self.fill(&mut client, state);
            }
        }
        client.check("DEBUG SLEEP 0.01", "+OK\r\n");
        until("the replica to have all", || (client.send("WAIT 1 1000\r\n").line() == ":1").then_some(()));
    }

    fn fill(&self, client: &mut Client, state: &State) {
        let (names, how): (&[&str], &str) = match state.keys {
            Keys::None => (&[], ""),
            Keys::OnlyA => (&["a"], ""),
            Keys::Both => (&["a", "b"], ""),
            Keys::Expired => (&["a", "b"], " PX 1"),
        };
        for name in names {
            client.check("ASKING", "+OK\r\n");
            client.check(&format!("SET {}{name} 1{how}", state.tag), "+OK\r\n");
        }
    }

    /// Sets parameters of both nodes under test, and waits until the cluster is in the intended condition.
    fn become_as(&self, number: usize, health: &Health) {
        let mut parameters: BTreeMap<&str, &str> = WELL.iter().copied().collect();
        parameters.extend(health.parameters.iter().copied());
        for member in &self.0[..2] {
            let mut client = member.client();
            for (name, value) in &parameters {
                client.check(&format!("CONFIG SET {name} {value}"), "+OK\r\n");
            }
        }
        // While the cluster is ok, a node of the reference checks the cluster's state only at a change, so
        // one more slot gets an owner.
        let slot = usize::from(UNBOUND[1]) - number;
        self.0[0].client().check(&format!("CLUSTER ADDSLOTS {slot}"), "+OK\r\n");
        for member in &self.0[..2] {
            let mut client = member.client();
            let wanted = if health.is_ok { "cluster_state:ok" } else { "cluster_state:fail" };
            until(wanted, || client.bulk("CLUSTER INFO").starts_with(wanted.as_bytes()).then_some(()));
        }
    }

    /// A node's counters of the commands that were sent, and of the errors.
    fn counts(&self, role: usize, names: &[String]) -> Vec<String> {
        let text = self.0[role].client().info_text();
        let is_of_table = |line: &&str| {
            let name = line.strip_prefix("cmdstat_").and_then(|line| line.split(':').next());
            name.is_some_and(|name| names.iter().any(|known| known == name)) || line.starts_with("errorstat_")
        };
        let without_times = |line: &str| {
            let parts = line.split(',').filter(|part| !part.starts_with("usec"));
            parts.collect::<Vec<_>>().join(",")
        };
        let mut lines: Vec<String> = text.lines().filter(is_of_table).map(without_times).collect();
        lines.sort();
        lines
    }
}

/// A request in the form in which it is sent.
struct Case {
    /// The request as in `REQUESTS` or `WAITS`, with its placeholders.
    row: String,
    label: String,
    bytes: String,
}

/// All requests for one state, by clients that have sent these flags.
fn cases(state: &State, flags: &[&str], others: &[String; 3], with_waits: bool) -> Vec<Case> {
    let waits = WAITS.iter().filter(|_| with_waits);
    let make = |rows: &&[&str]| {
        let lines: Vec<String> = flags.iter().chain(*rows).map(|line| fill_in(line, state, others)).collect();
        let bytes =
            lines.iter().map(|line| crate::common::request(&words(line))).collect::<Vec<_>>().concat();
        Case { row: rows.join("; "), label: lines.join("; "), bytes: String::from_utf8(bytes).unwrap() }
    };
    REQUESTS.iter().chain(waits).map(make).collect()
}

fn fill_in(line: &str, state: &State, [mine, foreign, unbound]: &[String; 3]) -> String {
    line.replace('%', &state.tag).replace('^', mine).replace('&', foreign).replace('~', unbound)
}

/// The words of a line, of which some may be in single quotes.
fn words(line: &str) -> Vec<&[u8]> {
    let parts = line.split('\'').enumerate();
    parts
        .flat_map(|(at, part)| match at % 2 {
            1 => vec![part],
            _ => part.split(' ').filter(|word| !word.is_empty()).collect(),
        })
        .map(str::as_bytes)
        .collect()
}

/// The replies to the requests. A RESET before each request makes the requests independent of each other.
fn answers(client: &mut Client, cases: &[Case]) -> Vec<String> {
    const RESET: &str = "*1\r\n$5\r\nRESET\r\n";
    const END: &str = "*2\r\n$4\r\nECHO\r\n$11\r\nthat is all\r\n";
    const LAST: &[u8] = b"+RESET\r\n$11\r\nthat is all\r\n";
    let requests: Vec<&str> = cases.iter().flat_map(|case| [RESET, case.bytes.as_str()]).collect();
    client.send(requests.concat()).send(RESET).send(END);
    let (mut got, mut buffer) = (Vec::new(), [0; 65_536]);
    while !got.ends_with(LAST) {
        let count = client.stream.read(&mut buffer).unwrap();
        assert!(count > 0, "the server closed after {}", String::from_utf8_lossy(&got));
        got.extend_from_slice(&buffer[..count]);
    }
    let text = String::from_utf8(got).unwrap();
    let all: Vec<String> = text.split("+RESET\r\n").map(str::to_owned).collect();
    // One case contains a RESET.
    let mut parts = all[1..all.len() - 1].iter();
    let own = |case: &Case| 1 + case.bytes.matches(RESET).count();
    let joined =
        cases.iter().map(|case| parts.by_ref().take(own(case)).cloned().collect::<Vec<_>>().join("|"));
    let joined: Vec<String> = joined.collect();
    assert!(parts.next().is_none(), "more answers than requests");
    joined
}

/// Whether the difference between the replies is intended (docs/compat.md).
fn is_meant(health: &Health, case: &Case, ours: &str, stock: &str) -> bool {
    // Many clients fail after an ASK with an empty host or an invalid host name, so our server sends the
    // address.
    let is_of_names = health.parameters.iter().any(|(name, _)| *name == "cluster-preferred-endpoint-type");
    let with_address = |line: &str| match line.split_once(" :7003").or(line.split_once(" other.example:7003"))
    {
        Some((before, rest)) if line.starts_with("-ASK ") => format!("{before} 127.0.0.1:7003{rest}"),
        _ => line.to_owned(),
    };
    if is_of_names && stock.contains("-ASK ") {
        return ours == stock.split_inclusive(['\n', '|']).map(with_address).collect::<String>();
    }
    // If a script accesses a local key in another migrating slot than that of its declared keys, the
    // reference looks for the key in the slot of the declared keys.
    let is_of_two_slots = case.row == OF_TWO_SLOTS && stock.contains(" non local key ");
    // The servers differ in the database that they assume for a command that is queued after SELECT.
    is_of_two_slots && ours.contains(" do not hash to the same slot ")
        || case.row == BEHIND_SELECT && ours.contains("-TRYAGAIN ") && stock.contains("-TRYAGAIN ")
}

#[test]
fn cb_s1_to_s63_redirects_as_the_reference_has_them() {
    let states = states();
    let Some(stock) = Side::start(true, &states) else { return };
    let ours = Side::start(false, &states).unwrap();
    // Tags of slots that have none of the tested states.
    let others = [MINE, FOREIGN, UNBOUND].map(|bounds| tags(bounds, 9).pop().unwrap());
    let names: Vec<String> = REQUESTS
        .iter()
        .flat_map(|lines| lines.iter())
        .map(|line| line.split(' ').next().unwrap().to_lowercase())
        .filter(|name| !["ping", "select"].contains(&name.as_str()))
        .collect();
    for side in [&ours, &stock] {
        for member in &side.0[..2] {
            member.client().check("CONFIG RESETSTAT", "+OK\r\n");
        }
    }
    // For each `Case::row`: the first difference, and the number of differences.
    let mut differences: BTreeMap<String, (String, u32)> = BTreeMap::new();
    let (mut asked, mut meant) = (0, 0);
    for (number, health) in HEALTH.iter().enumerate() {
        ours.become_as(number, health);
        stock.become_as(number, health);
        for (role, name) in ROLES.iter().enumerate() {
            let (mut here, mut there) = (ours.0[role].client(), stock.0[role].client());
            for state in &states {
                for flags in FLAGS.iter().take(if health.all_flags { FLAGS.len() } else { 1 }) {
                    let with_waits = health.parameters.is_empty() && flags.len() < 2;
                    let cases = cases(state, flags, &others, with_waits);
                    let (got, wanted) = (answers(&mut here, &cases), answers(&mut there, &cases));
                    for (case, (got, wanted)) in cases.iter().zip(got.iter().zip(&wanted)) {
                        asked += 1;
                        if got == wanted {
                            continue;
                        }
                        if is_meant(health, case, got, wanted) {
                            meant += 1;
                            continue;
                        }
                        let place = format!("{name}, {:?}, {}", health.parameters, state.name());
                        let found = differences.entry(case.row.clone()).or_default();
                        found.1 += 1;
                        if found.0.is_empty() {
                            let label = &case.label;
                            found.0 = format!("{place}\n  {label}\n  ours:  {got:?}\n  stock: {wanted:?}");
                        }
                    }
                }
            }
        }
    }
    println!("{asked} requests, of which {meant} are to differ");
    let shown = differences.values().map(|(first, count)| format!("{count} times, first: {first}\n"));
    let shown: String = shown.collect();
    assert!(differences.is_empty(), "of {asked}, these rows differ:\n{shown}");
    // Refused commands must be counted as by the reference (S-30 to S-33).
    for (role, name) in ROLES.iter().enumerate() {
        let [got, wanted] = [&ours, &stock].map(|side| side.counts(role, &names));
        assert_eq!(got, wanted, "{name}");
        for counted in ["cmdstat_get:", "errorstat_MOVED:", "errorstat_CLUSTERDOWN:", "errorstat_TRYAGAIN:"] {
            assert!(got.iter().any(|line| line.starts_with(counted)), "{name}: no {counted} in {got:#?}");
        }
        let request = crate::common::request(&words(&fill_in(SPOILS, &states[0], &others)));
        let case =
            [Case { row: String::new(), label: String::new(), bytes: String::from_utf8(request).unwrap() }];
        let [got, wanted] = [&ours, &stock].map(|side| answers(&mut side.0[role].client(), &case));
        assert_eq!(got, wanted, "{name}");
    }
}
