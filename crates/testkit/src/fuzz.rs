//! Entry points of fuzzers that need a whole engine.

use crate::Rig;
use sluice_cluster::BusTransport;

/// Values of every type and form, as commands that make the key `k`.
const RECIPES: &[&str] = &[
    "SET k hello",
    "SET k 12345",
    "SET k aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "RPUSH k a 1 bb 22 -7 70000 ccc",
    "SADD k 1 2 300 70000 5000000000",
    "SADD k a b c 1 2",
    "HSET k f v g 1 h -70000",
    "ZADD k 1 a 2.5 b -inf c",
    "XADD k 1-1 f v g w|XADD k 2-1 f v|XADD k 2-2 x y|XGROUP CREATE k g 0|XREADGROUP GROUP g c COUNT 2 STREAMS k >",
    "CONFIG SET list-max-listpack-size 1|RPUSH k a b c d e f",
    "CONFIG SET hash-max-listpack-entries 1|HSET k f v g 1 h 2|HPEXPIRE k 1000000 FIELDS 1 f",
    "CONFIG SET set-max-listpack-entries 1|SADD k a b c d",
    "CONFIG SET set-max-intset-entries 1|SADD k 1 2 3 4",
    "CONFIG SET zset-max-listpack-entries 1|ZADD k 1 a 2 b 3 c 4 d",
    "CONFIG SET stream-node-max-entries 2|XADD k 1-1 f v|XADD k 1-2 f v|XADD k 1-3 f v|XDEL k 1-2|XGROUP CREATE k g 1-1",
    "PFADD k a b c d e",
    "SETBIT k 1000 1",
    "GEOADD k 13.361389 38.115556 Palermo 15.087269 37.502669 Catania",
];

/// Commands on a restored value: every kind of read and write that accesses its content.
const USES: &str = "OBJECT ENCODING k|OBJECT FREQ k|TYPE k|MEMORY USAGE k|DEBUG DIGEST-VALUE k|DUMP k|COPY k c|COPY k c DB 1|STRLEN k|GET k|\
    GETRANGE k 1 -2|SETRANGE k 3 x|APPEND k yy|INCR k|INCRBYFLOAT k 0.5|BITCOUNT k|BITPOS k 1|GETBIT k 9|SETBIT k 77 1|\
    BITFIELD k GET u8 3 INCRBY i5 2 1|PFCOUNT k|PFADD k z|PFMERGE k c|LCS k c|LLEN k|LRANGE k 0 -1|LRANGE k -3 1|LINDEX k 1|\
    LINDEX k -1|LPOS k a RANK -1|LINSERT k BEFORE a n|LSET k 0 n|RPUSH k a|LPUSH k b|LREM k -1 a|LTRIM k 1 -2|LMOVE k k LEFT RIGHT|\
    LPOP k 2|RPOP k|SCARD k|SMEMBERS k|SISMEMBER k 1|SMISMEMBER k a 2|SRANDMEMBER k -5|SRANDMEMBER k 3|SSCAN k 0 COUNT 100|SINTER k c|\
    SUNION k c|SDIFF k c|SDIFFSTORE d c k|SADD k 9 zz|SREM k 1 a|SMOVE k c 2|SPOP k|SPOP k 2|HLEN k|HGETALL k|HGET k f|HMGET k f x|\
    HSTRLEN k f|HRANDFIELD k -4 WITHVALUES|HSCAN k 0 COUNT 100|HPTTL k FIELDS 2 f g|HPEXPIRE k 100000 FIELDS 1 g|HSET k g 2 n v|\
    HINCRBY k g 1|HINCRBYFLOAT k g 1.5|HPERSIST k FIELDS 1 g|HDEL k f|ZCARD k|ZRANGE k 0 -1 WITHSCORES|ZRANGE k -inf +inf BYSCORE|\
    ZRANGE k - + BYLEX REV|ZRANK k a|ZREVRANK k b WITHSCORE|ZSCORE k c|ZMSCORE k a q|ZCOUNT k -inf +inf|ZLEXCOUNT k - +|\
    ZRANDMEMBER k -4 WITHSCORES|ZSCAN k 0 COUNT 100|ZADD k 1.5 n|ZADD k XX INCR 2 a|ZINCRBY k -3 b|ZUNIONSTORE d 2 k c|ZINTER 2 k c|\
    ZREMRANGEBYRANK k 0 0|ZREMRANGEBYSCORE k 2 2|ZREM k a|ZPOPMIN k|ZPOPMAX k 2|GEOPOS k Palermo|GEODIST k Palermo Catania|\
    GEOSEARCH k FROMLONLAT 15 37 BYRADIUS 500 km|XLEN k|XRANGE k - +|XREVRANGE k + - COUNT 2|XINFO STREAM k FULL|XINFO GROUPS k|\
    XINFO CONSUMERS k g|XPENDING k g|XPENDING k g - + 10|XREAD STREAMS k 0|XADD k * f v|XREADGROUP GROUP g c STREAMS k >|\
    XREADGROUP GROUP g c STREAMS k 0|XACK k g 1-1|XCLAIM k g d 0 2-1|XAUTOCLAIM k g d 0 0|XDEL k 2-1|XSETID k 9999999999999-0|\
    XTRIM k MAXLEN 1|XGROUP DELCONSUMER k g c|XGROUP DESTROY k g|SORT k BY nosort|SORT k ALPHA|PEXPIRE k 100000|PERSIST k|\
    RENAME k r|RENAME r k|DEBUG RELOAD|GETEX k|GETDEL k|UNLINK k|DEL c d";

/// Restores a payload, and runs all of `USES` on an accepted value. `data` is either the byte 255 and a
/// payload without its footer, or the number of a recipe and changes of the recipe's payload, each a
/// position and a byte.
pub fn fuzz_restored(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let mut rig = Rig::new();
    rig.check("DEBUG SET-SKIP-CHECKSUM-VALIDATION 1", "+OK");
    let mut payload = match usize::from(*first) {
        255 => rest.to_vec(),
        number => recipe(RECIPES[number % RECIPES.len()], rest),
    };
    payload.extend_from_slice(FOOTER);
    let client = rig.client;
    if rig.argv(client, &[b"RESTORE", b"k", b"0", &payload]) != b"+OK\r\n" {
        return;
    }
    rig.argv(client, &[b"RESTORE", b"c", b"0", &payload]);
    for line in USES.split('|') {
        rig.run(line);
    }
    rig.check("PING", "+PONG");
}

/// The payload of a recipe without its footer, with changes applied.
fn recipe(lines: &str, changes: &[u8]) -> Vec<u8> {
    let mut rig = Rig::new();
    for line in lines.split('|') {
        rig.run(line);
    }
    let client = rig.client;
    let reply = rig.argv(client, &[b"DUMP", b"k"]);
    let begins = reply.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let mut payload = reply[begins..reply.len().saturating_sub(FOOTER.len() + 2)].to_vec();
    for [position, value] in changes.as_chunks::<2>().0 {
        let at = usize::from(*position) % payload.len().max(1);
        if let Some(byte) = payload.get_mut(at) {
            *byte = *value;
        }
    }
    payload
}

/// The footer of a payload: the RDB version, and a placeholder for the checksum.
const FOOTER: &[u8] = b"\x50\0\0\0\0\0\0\0\0\0";

/// Sends the commands of replicas to a primary, with arbitrary arguments, one command for each line of
/// `data`; the first letter of a line selects the command. An attached replica must continue to work.
pub fn fuzz_replica(data: &[u8]) {
    let mut rig = Rig::with(&[("dual-channel-replication-enabled", "yes")]);
    rig.run("SET a 1");
    let replica = rig.replica();
    let mut client = rig.connect();
    for line in data.split(|byte| *byte == b'\n').take(32) {
        let mut words: Vec<&[u8]> = line.split(|byte| *byte == b' ').take(16).collect();
        words[0] = match words[0].first() {
            Some(b'P') => b"PSYNC",
            Some(b'S') => b"SYNC",
            Some(b'I') => b"INFO",
            Some(b'W') => b"SET",
            Some(b'C') => {
                rig.engine.disconnect(client, &mut rig.process);
                client = rig.connect();
                continue;
            }
            Some(_) | None => b"REPLCONF",
        };
        if rig.engine.session(client).is_none() {
            client = rig.connect();
        }
        rig.argv_unread(client, &words);
        rig.end_iteration();
        rig.output(client);
        rig.pass_ms(500);
        rig.cron();
    }
    rig.run("SET b 2");
    assert!(rig.output(replica).ends_with(b"b\r\n$1\r\n2\r\n"), "the stream goes on");
}

/// The other node of a fuzzed cluster.
const OTHER_NODE: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

/// A rig whose node owns half of the slots, and knows another node that owns the other half. Keys are in
/// three slots of the first half.
fn node_of_two() -> Rig {
    let file = format!(
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 10.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-8191\n\
         {OTHER_NODE} 10.0.0.2:7001@17001 master - 0 0 2 connected 8192-16383\n\
         vars currentEpoch 2 lastVoteEpoch 0\n"
    );
    let read = sluice_cluster::conf::read(file.as_bytes(), BusTransport::Tcp).expect("a file of ours");
    let mut rig = Rig::node(Some(&read.saved), &[("port", "7000")]);
    rig.pass_ms(2_100);
    rig.end_iteration();
    for key in 0..30 {
        for tag in ["06S", "b", "c"] {
            rig.run(&format!("SET {{{tag}}}{key} v"));
        }
    }
    rig
}

/// Sends lines that begin with CLUSTERSCAN or CLUSTER. The node must accept the cursors that it has
/// returned; a failed command must not change the slots in CLUSTER NODES.
pub fn fuzz_cluster_words(data: &[u8]) {
    let mut rig = node_of_two();
    for line in data.split(|byte| *byte == b'\n').take(16) {
        let mut words: Vec<&[u8]> = line.split(|byte| *byte == b' ').take(24).collect();
        let scans = words[0].first() == Some(&b'S');
        words[0] = if scans { b"CLUSTERSCAN" } else { b"CLUSTER" };
        let before = slots_shown(&mut rig);
        let client = rig.connect();
        let reply = rig.argv(client, &words);
        if reply.starts_with(b"-") {
            assert_eq!(slots_shown(&mut rig), before, "{:?}", line.escape_ascii().to_string());
        }
        if scans && reply.starts_with(b"*2\r\n$") {
            let cursor =
                reply.split(|byte| *byte == b'\n').nth(2).map_or(&b""[..], |line| line.trim_ascii_end());
            let next = rig.argv(client, &[b"CLUSTERSCAN", cursor]);
            assert!(!next.starts_with(b"-ERR"), "{:?}", next.escape_ascii().to_string());
        }
        rig.engine.disconnect(client, &mut rig.process);
        rig.pass_ms(100);
        rig.end_iteration();
    }
    rig.check("PING", "+PONG");
}

/// The columns of slots in CLUSTER NODES, the only columns that a command alone can change.
fn slots_shown(rig: &mut Rig) -> Vec<String> {
    let text = rig.run("CLUSTER NODES");
    let columns = |line: &str| line.split(' ').skip(8).collect::<Vec<_>>().join(" ");
    let mut shown: Vec<String> = text.split("\\n").map(columns).collect();
    shown.sort();
    shown
}
