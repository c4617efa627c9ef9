//! Tests of the stream that a replica gets for every write command and option, and of attaching a replica.

use sluice_base::quote::{Dialect, split_args};
use sluice_persist::rdb::{Item, Loaded, LoadedEntry, ReadOptions, Reader};
use sluice_testkit::{Rig, render};

/// A script, the stream of its last step, and why the stream gives a replica the same data.
pub(crate) struct Row(pub &'static str, pub &'static str, pub Why);

/// Why a receiver of the stream gets the same data, whatever its clock, encodings, hash seed, machine, and
/// expired keys are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Nothing has changed, and the stream is empty.
    Nothing,
    /// The command as the client sent it, because its result depends only on the arguments and the content of
    /// the keys.
    Content,
    /// A time in place of a duration, because the receiver's clock would turn the duration into another time.
    Moment,
    /// The deletion of keys that have expired by this server's clock.
    Expired,
    /// A value that this server has drawn at random or chosen.
    Drawn,
    /// The result, because it depends on order, encoding, rounding or an earlier state.
    Result,
    /// The names that the command has acted on, without those that it found expired.
    Acted,
    /// A plain command with the same effect: without a wait, skipped keys, conditions that held, options
    /// of the reply, and options that 9.1 does not know.
    Plain,
}

/// The streams that 9.1.2 sends, except for the differences in `docs/compat.md`. `@n` stands for a time n ms
/// from now; `!exp` lets keys with an expiry time of a few ms expire, `!wait` lets the expiry cycle run,
/// `!cycle` only says that the row needs that cycle; `!lazyuser`, `!lazyexp` and `!lazyserver` set one of the
/// configs `lazyfree-lazy-user-del`, `-expire`, `-server-del`, which are on without them.
#[rustfmt::skip]
pub(crate) const ROWS: &[Row] = &[
    Row(r##"FUNCTION LOAD "#!lua name=l\nserver.register_function('f',print)" "##, "", Why::Nothing),
    Row(r##"FUNCTION LOAD "#!lua name=l\nserver.register_function('f',function() end)""##, r"FUNCTION LOAD #!lua name=l\nserver.register_function(\'f\',function() end)", Why::Content),
    Row(r##"FUNCTION LOAD "#!lua name=l\nserver.register_function('f',function() end)" | FUNCTION DELETE l"##, "FUNCTION DELETE l", Why::Content),
    Row("FUNCTION DELETE l", "", Why::Nothing),
    Row("FUNCTION FLUSH", "FUNCTION FLUSH", Why::Content),
    Row("FUNCTION FLUSH x", "", Why::Nothing),
    Row(r#"FUNCTION RESTORE "P\x00\x92\xb1\x95\xd1\x91-\xc5." REPLACE"#, r"FUNCTION RESTORE P\x00\x92\xb1\x95\xd1\x91-\xc5. REPLACE", Why::Content),
    Row("FUNCTION RESTORE \"\\xf59#!lua\\x20name=l\\x0aserver.register_function(\\x27f\\x27,function()\\x20end)Q\\x00l\\xbc\\x11\\xcdnZ\\xa21\"", "FUNCTION RESTORE \\xf59#!lua name=l\\nserver.register_function(\\'f\\',function() end)P\\x00\\x05c\\xac\\xbe\\x93\\xc5K\\xb8 APPEND", Why::Result),
    Row("CONFIG SET rdb-version-check relaxed | FUNCTION RESTORE \"\\xf59#!lua\\x20name=l\\x0aserver.register_function(\\x27f\\x27,function()\\x20end)\\x0c\\x00\\x01?Q\\xef\\xf7\\xbd\\xb2\\x05\" FLUSH", "FUNCTION RESTORE \\xf59#!lua name=l\\nserver.register_function(\\'f\\',function() end)P\\x00\\x05c\\xac\\xbe\\x93\\xc5K\\xb8 FLUSH", Why::Result),
    Row("SET k v", "SET k v", Why::Content),
    Row("SET k v NX", "SET k v NX", Why::Content),
    Row("SET k v | SET k w NX", "", Why::Nothing),
    Row("SET k w XX", "", Why::Nothing),
    Row("SET k v | SET k w XX", "SET k w XX", Why::Content),
    Row("SET k v | SET k w GET", "SET k w", Why::Plain),
    Row("SET k w GET", "SET k w", Why::Plain),
    Row("SET k v | SET k w IFEQ v", "SET k w IFEQ v", Why::Content),
    Row("SET k v | SET k w IFEQ x", "", Why::Nothing),
    // The option IFNE of 9.2 is left out, because the condition held and replicas of 9.1 do not know the
    // option.
    Row("SET k v | SET k w IFNE x", "SET k w", Why::Plain),
    Row("SET k v | SET k w IFNE v", "", Why::Nothing),
    Row("SET k w ifne v GET", "SET k w", Why::Plain),
    Row("SET k v EX 9 | SET k w KEEPTTL IFNE v", "", Why::Nothing),
    Row("SET k v | SET k w IFNE x KEEPTTL", "SET k w KEEPTTL", Why::Plain),
    Row("SET k v | SET k w IFNE v PXAT @100000", "", Why::Nothing),
    Row("SET k v | SET k w IFNE x EX 100", "SET k w PXAT @100000", Why::Moment),
    Row("SET k v EX 100", "SET k v PXAT @100000", Why::Moment),
    Row("SET k v PX 100000", "SET k v PXAT @100000", Why::Moment),
    Row("SET k v EXAT 33177117420", "SET k v PXAT 33177117420000", Why::Moment),
    Row("SET k v PXAT 33177117420123", "SET k v PXAT 33177117420123", Why::Content),
    Row("SET k v EX 100 | SET k w KEEPTTL", "SET k w KEEPTTL", Why::Content),
    Row("SET k v NX EX 100", "SET k v PXAT @100000", Why::Moment),
    Row("SET k v EX 100 NX GET", "SET k v PXAT @100000", Why::Moment),
    Row("SET k v | SET k w XX GET PX 100000", "SET k w PXAT @100000", Why::Moment),
    Row("SET k v | SET k w XX GET PXAT 33177117420123", "SET k w XX GET PXAT 33177117420123", Why::Content),
    Row("SET k v | SET k w pxat 33177117420123", "SET k w pxat 33177117420123", Why::Content),
    Row("SET k v EXAT 1", "", Why::Nothing),
    Row("SET k v | SET k v EXAT 1", "UNLINK k", Why::Expired),
    Row("SET k v | SET k v PXAT 1", "UNLINK k", Why::Expired),
    Row("SET k v | SET k v PXAT 1 GET", "UNLINK k", Why::Expired),
    Row("set k v", "set k v", Why::Content),
    Row("SETNX k v", "SETNX k v", Why::Content),
    Row("SET k v | SETNX k w", "", Why::Nothing),
    Row("SETEX k 100 v", "SET k v PXAT @100000", Why::Moment),
    Row("PSETEX k 100000 v", "SET k v PXAT @100000", Why::Moment),
    Row("SET k v | GETSET k w", "SET k w", Why::Plain),
    Row("GETSET k w", "SET k w", Why::Plain),
    Row("SET k v | GETDEL k", "DEL k", Why::Plain),
    Row("GETDEL k", "", Why::Nothing),
    Row("SET k v | GETEX k", "", Why::Nothing),
    Row("SET k v | GETEX k EX 100", "PEXPIREAT k @100000", Why::Moment),
    Row("SET k v | GETEX k PX 100000", "PEXPIREAT k @100000", Why::Moment),
    Row("SET k v | GETEX k EXAT 33177117420", "PEXPIREAT k 33177117420000", Why::Moment),
    Row("SET k v | GETEX k PXAT 33177117420123", "PEXPIREAT k 33177117420123", Why::Moment),
    Row("SET k v | GETEX k PXAT 1", "UNLINK k", Why::Expired),
    Row("SET k v | GETEX k PERSIST", "", Why::Nothing),
    Row("SET k v EX 100 | GETEX k PERSIST", "PERSIST k", Why::Plain),
    Row("SET k v EX 100 | GETEX k", "", Why::Nothing),
    Row("GETEX k EX 100", "", Why::Nothing),
    Row("SET k v | DELIFEQ k v", "DEL k", Why::Plain),
    Row("SET k v | DELIFEQ k w", "", Why::Nothing),
    // DELEX is a command of 9.2, and is propagated as in 9.2.
    Row("SET k v | DELEX k IFEQ v", "DEL k", Why::Plain),
    Row("SET k v | DELEX k IFEQ w", "", Why::Nothing),
    Row("SET k v | DELEX k IFNE w", "DEL k", Why::Plain),
    Row("SET k v | DELEX k IFNE v", "", Why::Nothing),
    Row("MSET a 1 b 2", "MSET a 1 b 2", Why::Content),
    Row("MSETNX a 1 b 2", "MSETNX a 1 b 2", Why::Content),
    Row("SET a 1 | MSETNX a 1 b 2", "", Why::Nothing),
    Row("MSETEX 2 a 1 b 2 EX 100", "MSETEX 2 a 1 b 2 PXAT @100000", Why::Moment),
    Row("MSETEX 2 a 1 b 2 PX 100000", "MSETEX 2 a 1 b 2 PXAT @100000", Why::Moment),
    Row("MSETEX 2 a 1 b 2 EXAT 33177117420", "MSETEX 2 a 1 b 2 PXAT 33177117420000", Why::Moment),
    Row("MSETEX 2 a 1 b 2 PXAT 33177117420123", "MSETEX 2 a 1 b 2 PXAT 33177117420123", Why::Content),
    Row("MSETEX 2 a 1 b 2 PXAT 1", "MSETEX 2 a 1 b 2 PXAT 1", Why::Content),
    // Of two expiry options, the reference propagates the first one unchanged together with PXAT, and refuses
    // the resulting command when it loads the log.
    Row("MSETEX 1 a 1 EX 9 NX EX 100", "MSETEX 1 a 1 NX PXAT @100000", Why::Moment),
    Row("MSETEX 1 a 1 EXAT 5 exat 33177117420 NX", "MSETEX 1 a 1 PXAT 33177117420000 NX", Why::Moment),
    Row("MSETEX 2 a 1 b 2 KEEPTTL", "MSETEX 2 a 1 b 2 KEEPTTL", Why::Content),
    Row("MSETEX 2 a 1 b 2 NX", "MSETEX 2 a 1 b 2 NX", Why::Content),
    Row("SET a 1 | MSETEX 2 a 1 b 2 NX EX 100", "", Why::Nothing),
    Row("SET a 1 | MSETEX 1 a 1 XX EX 100", "MSETEX 1 a 1 XX PXAT @100000", Why::Moment),
    Row("MSETEX 2 a 1 b 2", "MSETEX 2 a 1 b 2", Why::Content),
    Row("APPEND k v", "APPEND k v", Why::Content),
    // These strings are longer than the lowest value of `proto-max-bulk-len`.
    Row("SETRANGE k 2000000 x", "SETRANGE k 2000000 x", Why::Content),
    Row("SETBIT k 16000000 1", "SETBIT k 16000000 1", Why::Content),
    Row("BITFIELD k SET u8 16000000 1", "BITFIELD k SET u8 16000000 1", Why::Content),
    Row("APPEND k \"\"", "APPEND k \"\"", Why::Content),
    Row("SET k v | APPEND k w", "APPEND k w", Why::Content),
    Row("SET k v | APPEND k \"\"", "APPEND k \"\"", Why::Content),
    Row("SET k 1 | INCR k", "INCR k", Why::Content),
    Row("INCR k", "INCR k", Why::Content),
    Row("INCRBY k 5", "INCRBY k 5", Why::Content),
    Row("DECR k", "DECR k", Why::Content),
    Row("DECRBY k 5", "DECRBY k 5", Why::Content),
    Row("INCRBY k 0", "INCRBY k 0", Why::Content),
    Row("INCRBYFLOAT k 1.5", "SET k 1.5 KEEPTTL", Why::Result),
    Row("SET k 1 EX 100 | INCRBYFLOAT k 1.5", "SET k 2.5 KEEPTTL", Why::Result),
    // INCREX is a command of 9.2, and is propagated as in 9.2, namely as SET with the sum.
    Row("INCREX k", "SET k 1 KEEPTTL", Why::Result),
    Row("SET k 1 EX 100 | INCREX k BYFLOAT 1.5", "SET k 2.5 KEEPTTL", Why::Result),
    Row("INCREX k BYINT 3 EX 100", "SET k 3 PXAT @100000", Why::Moment),
    Row("SET k 1 | INCREX k EXAT 33177117420 ENX", "SET k 2 PXAT 33177117420000", Why::Moment),
    Row("SET k 1 EX 100 | INCREX k PX 5 ENX", "SET k 2 KEEPTTL", Why::Result),
    Row("SET k 1 EX 100 | INCREX k PERSIST", "SET k 2", Why::Result),
    Row("SET k 1 | INCREX k EXAT 1", "UNLINK k", Why::Expired),
    Row("INCREX k EXAT 1", "", Why::Nothing),
    Row("SET k 1 | INCREX k NX EX 100", "", Why::Nothing),
    Row("SET k 1 | INCREX k UBOUND 1 EX 100", "", Why::Nothing),
    Row("SET k 1 | INCREX k UBOUND 1 SATURATE", "SET k 1 KEEPTTL", Why::Result),
    Row("INCREX k XX", "", Why::Nothing),
    Row("SETRANGE k 3 abc", "SETRANGE k 3 abc", Why::Content),
    Row("SETRANGE k 3 \"\"", "", Why::Nothing),
    Row("SET k v | DEL k", "DEL k", Why::Content),
    Row("SET k v | DEL k nokey", "DEL k nokey", Why::Content),
    Row("DEL nokey", "", Why::Nothing),
    Row("SET k v | UNLINK k nokey", "UNLINK k nokey", Why::Content),
    Row("SET k v | TOUCH k", "", Why::Nothing),
    Row("SET k v | RENAME k k2", "RENAME k k2", Why::Content),
    Row("SET k v | RENAME k k", "", Why::Nothing),
    Row("SET k v | RENAMENX k k2", "RENAMENX k k2", Why::Content),
    Row("MSET k v k2 w | RENAMENX k k2", "", Why::Nothing),
    Row("MSET k v k2 w | RENAME k k2", "RENAME k k2", Why::Content),
    Row("SET k v | COPY k k2", "COPY k k2", Why::Content),
    Row("SET k v | COPY k k2 DB 3", "COPY k k2 DB 3", Why::Content),
    Row("MSET k v k2 w | COPY k k2", "", Why::Nothing),
    Row("MSET k v k2 w | COPY k k2 REPLACE", "COPY k k2 REPLACE", Why::Content),
    Row("SET k v | MOVE k 3", "MOVE k 3", Why::Content),
    // The option REPLACE of 9.2 is left out, because 9.1 does not know it.
    Row("SET k v | MOVE k 3 REPLACE", "MOVE k 3", Why::Plain),
    Row("MOVE k 3 REPLACE", "", Why::Nothing),
    Row("SELECT 3 | SET k v | SELECT 0 | SET k w | MOVE k 3 replace", "MULTI; COPY k k DB 3 REPLACE; DEL k; EXEC", Why::Plain),
    Row("SET k v | EXPIRE k 100", "PEXPIREAT k @100000", Why::Moment),
    Row("SET k v | EXPIRE k 100 NX", "PEXPIREAT k @100000 NX", Why::Moment),
    Row("SET k v | EXPIRE k 100 XX", "", Why::Nothing),
    Row("SET k v EX 50 | EXPIRE k 100 XX GT", "PEXPIREAT k @100000 XX GT", Why::Moment),
    Row("SET k v | PEXPIRE k 100000", "PEXPIREAT k @100000", Why::Moment),
    Row("SET k v | EXPIREAT k 33177117420", "PEXPIREAT k 33177117420000", Why::Moment),
    Row("SET k v | PEXPIREAT k 33177117420123", "PEXPIREAT k 33177117420123", Why::Content),
    Row("SET k v | PEXPIREAT k 33177117420123 NX", "PEXPIREAT k 33177117420123 NX", Why::Content),
    Row("SET k v | pexpireat k 33177117420123", "pexpireat k 33177117420123", Why::Content),
    Row("SET k v | EXPIRE k -1", "UNLINK k", Why::Expired),
    Row("SET k v | EXPIRE k 0", "UNLINK k", Why::Expired),
    Row("SET k v | PEXPIREAT k 1", "UNLINK k", Why::Expired),
    Row("SET k v | PERSIST k", "", Why::Nothing),
    Row("SET k v EX 100 | PERSIST k", "PERSIST k", Why::Content),
    Row("EXPIRE k 100", "", Why::Nothing),
    Row("SET k v | FLUSHDB", "FLUSHDB", Why::Content),
    Row("FLUSHDB", "FLUSHDB", Why::Content),
    Row("SET k v | FLUSHALL", "FLUSHALL", Why::Content),
    Row("FLUSHALL", "FLUSHALL", Why::Content),
    Row("SET k v | FLUSHALL ASYNC", "FLUSHALL ASYNC", Why::Content),
    Row("SWAPDB 0 1", "SWAPDB 0 1", Why::Content),
    Row("SET k v | SWAPDB 0 1", "SWAPDB 0 1", Why::Content),
    Row("SELECT 3", "", Why::Nothing),
    Row("SET k v PX 1 | !exp | GET k", "UNLINK k", Why::Expired),
    Row("SET k v PX 1 | !exp | EXISTS k", "UNLINK k", Why::Expired),
    Row("SET k v PX 1 | !exp | TTL k", "UNLINK k", Why::Expired),
    Row("SET k v PX 1 | !exp | STRLEN k", "UNLINK k", Why::Expired),
    Row("MSET a 1 b 2 | PEXPIRE a 1 | PEXPIRE b 1 | !exp | MGET a b", "MULTI; UNLINK a; UNLINK b; EXEC", Why::Expired),
    Row("MSET a 1 b 2 | PEXPIRE a 1 | PEXPIRE b 1 | !exp | MGET a a", "UNLINK a", Why::Expired),
    Row("SET k v PX 1 | !exp | SET k w", "MULTI; UNLINK k; SET k w; EXEC", Why::Content),
    Row("SET k v PX 1 | !exp | SET k w NX", "MULTI; UNLINK k; SET k w NX; EXEC", Why::Content),
    Row("SET k v PX 1 | !exp | SET k w XX", "UNLINK k", Why::Expired),
    Row("SET k v PX 1 | !exp | SET k w EX 100", "MULTI; UNLINK k; SET k w PXAT @100000; EXEC", Why::Moment),
    Row("SET k v PX 1 | !exp | DEL k", "UNLINK k", Why::Expired),
    Row("MSET k v a 1 | PEXPIRE k 1 | !exp | DEL k a", "MULTI; UNLINK k; DEL k a; EXEC", Why::Content),
    Row("SET k v PX 1 | !exp | UNLINK k", "UNLINK k", Why::Content),
    Row("SET k v PX 1 | !exp | EXPIRE k 100", "UNLINK k", Why::Expired),
    Row("SET k v PX 1 | !exp | PERSIST k", "UNLINK k", Why::Expired),
    Row("SET k v PX 1 | !exp | RENAME k k2", "UNLINK k", Why::Expired),
    Row("MSET k v k2 w | PEXPIRE k2 1 | !exp | RENAME k k2", "MULTI; UNLINK k2; RENAME k k2; EXEC", Why::Content),
    Row("MSET k v k2 w | PEXPIRE k2 1 | !exp | RENAMENX k k2", "MULTI; UNLINK k2; RENAMENX k k2; EXEC", Why::Content),
    Row("MSET k v k2 w | PEXPIRE k2 1 | !exp | COPY k k2", "MULTI; UNLINK k2; COPY k k2; EXEC", Why::Content),
    Row("SET k v PX 1 | !exp | COPY k k2", "UNLINK k", Why::Expired),
    Row("SET k v PX 1 | !exp | MOVE k 3", "UNLINK k", Why::Expired),
    Row("SET k v PX 1 | !exp | INCR k", "MULTI; UNLINK k; INCR k; EXEC", Why::Content),
    Row("SET k v PX 1 | !exp | APPEND k x", "MULTI; UNLINK k; APPEND k x; EXEC", Why::Content),
    Row("SET k v PX 1 | !exp | GETSET k x", "MULTI; UNLINK k; SET k x; EXEC", Why::Plain),
    Row("SET k v PX 1 | !exp | GETDEL k", "UNLINK k", Why::Expired),
    Row("SET k v PX 1 | !exp | GETEX k EX 100", "UNLINK k", Why::Expired),
    Row("SET k v PX 1 | !exp | SETNX k x", "MULTI; UNLINK k; SETNX k x; EXEC", Why::Content),
    Row("SET k v PX 1 | !exp | SETRANGE k 1 x", "MULTI; UNLINK k; SETRANGE k 1 x; EXEC", Why::Content),
    Row("SET k v PX 1 | !exp | INCRBYFLOAT k 1", "MULTI; UNLINK k; SET k 1 KEEPTTL; EXEC", Why::Result),
    Row("MSET a 1 b 2 | PEXPIRE a 1 | PEXPIRE b 1 | !exp | MSET a 3 b 4", "MULTI; UNLINK a; UNLINK b; MSET a 3 b 4; EXEC", Why::Content),
    Row("MSET a 1 b 2 | PEXPIRE a 1 | PEXPIRE b 1 | !exp | MSETNX a 3 b 4", "MULTI; UNLINK a; UNLINK b; MSETNX a 3 b 4; EXEC", Why::Content),
    Row("MSET a 1 b 2 | PEXPIRE a 1 | PEXPIRE b 1 | !exp | DEL a b", "MULTI; UNLINK a; UNLINK b; EXEC", Why::Expired),
    Row("MSET a 1 b 2 | PEXPIRE a 1 | PEXPIRE b 1 | !exp | RENAME a b", "UNLINK a", Why::Expired),
    Row("MSET a 1 | PEXPIRE a 1 | !exp | KEYS *", "", Why::Nothing),
    Row("MSET a 1 b 2 | PEXPIRE a 1 | PEXPIRE b 1 | !exp | SCAN 0", "UNLINK a; UNLINK b", Why::Expired),
    Row("MSET a 1 | PEXPIRE a 1 | !exp | SCAN 0 TYPE list", "", Why::Nothing),
    Row("MSET a 1 | PEXPIRE a 1 | !exp | SCAN 0 MATCH zz", "", Why::Nothing),
    Row("MSET a 1 | PEXPIRE a 1 | !exp | SCAN 0 MATCH zz TYPE list", "", Why::Nothing),
    Row("MSET a 1 | PEXPIRE a 1 | !exp | RANDOMKEY", "UNLINK a", Why::Expired),
    Row("MSET a 1 | PEXPIRE a 1 | !exp | OBJECT ENCODING a", "UNLINK a", Why::Expired),
    Row("MSET a 1 | PEXPIRE a 1 | !exp | TYPE a", "UNLINK a", Why::Expired),
    Row("MSET a 1 | PEXPIRE a 1 | !exp | TOUCH a", "UNLINK a", Why::Expired),
    Row("MSET a 1 | PEXPIRE a 1 | !exp | DEBUG OBJECT a", "", Why::Nothing),
    Row("MSET a 1 | PEXPIRE a 1 | !exp | DBSIZE", "", Why::Nothing),
    Row("!lazyuser no | SET k v | DEL k", "DEL k", Why::Content),
    Row("!lazyuser no | SET k v | UNLINK k", "UNLINK k", Why::Content),
    Row("!lazyexp no | SET k v PX 1 | !exp | GET k", "DEL k", Why::Expired),
    Row("!lazyexp no | SET k v PX 1 | !exp | SET k w", "MULTI; DEL k; SET k w; EXEC", Why::Content),
    Row("!lazyexp no | SET k v | GETEX k PXAT 1", "DEL k", Why::Expired),
    Row("!lazyexp no | SET k v | EXPIRE k -1", "DEL k", Why::Expired),
    Row("!lazyexp no | SET k v | SET k v PXAT 1", "DEL k", Why::Expired),
    Row("!lazyserver no | SET k v | EXPIRE k -1", "UNLINK k", Why::Expired),
    Row("!lazyserver no | SET k v | GETEX k PXAT 1", "UNLINK k", Why::Expired),
    Row("!lazyserver no | SET k v | SET k w PXAT 1", "UNLINK k", Why::Expired),
    Row("!lazyserver no | SET k v | GETDEL k", "DEL k", Why::Plain),
    Row("!lazyserver no | SET k v | DELIFEQ k v", "DEL k", Why::Plain),
    Row("HSET h a 1", "HSET h a 1", Why::Content),
    Row("HMSET h a 1 b 2", "HMSET h a 1 b 2", Why::Content),
    Row("HSETNX h a 1", "HSETNX h a 1", Why::Content),
    Row("HSET h a 1 | HSETNX h a 1", "", Why::Nothing),
    Row("HSETEX h PX 1 FIELDS 1 a 1 | !exp | HSETNX h a 2", "HSET h a 2", Why::Plain),
    Row("HDEL h a", "", Why::Nothing),
    Row("HSET h a 1 | HDEL h a b", "HDEL h a b", Why::Content),
    Row("HINCRBY h a 1", "HINCRBY h a 1", Why::Content),
    Row("HSETEX h PXAT 33177117420123 FIELDS 1 a 1 | HINCRBY h a 1", "HSETEX h PXAT 33177117420123 FIELDS 1 a 2", Why::Moment),
    Row("HSETEX h PX 1 FIELDS 1 a 1 | !exp | HINCRBY h a 2", "HSET h a 2", Why::Result),
    Row("HINCRBYFLOAT h a 1.5", "HSET h a 1.5", Why::Result),
    Row("HSETEX h PXAT 33177117420123 FIELDS 1 a 1 | HINCRBYFLOAT h a 1", "HSETEX h PXAT 33177117420123 FIELDS 1 a 2", Why::Moment),
    Row("HSETEX h FIELDS 1 a 1", "HSETEX h FIELDS 1 a 1", Why::Content),
    Row("HSETEX h NX FNX EX 100 FIELDS 1 a 1", "HSETEX h PXAT @100000 FIELDS 1 a 1", Why::Moment),
    Row("HSETEX h KEEPTTL FIELDS 2 a 1 b 2", "HSETEX h KEEPTTL FIELDS 2 a 1 b 2", Why::Content),
    Row("HSETEX h PX 1 FIELDS 2 a 1 b 1 | HSET h c 1 | !exp | HSETEX h KEEPTTL FIELDS 3 a 2 b 2 c 2", "MULTI; HDEL h a b; HSETEX h KEEPTTL FIELDS 3 a 2 b 2 c 2; EXEC", Why::Content),
    Row("HSETEX h XX FIELDS 1 a 1", "", Why::Nothing),
    Row("HSETEX h PXAT 1 FIELDS 1 a 1", "", Why::Nothing),
    Row("HSET h a 1 c 2 | HSETEX h PXAT 1 FIELDS 2 a 1 b 1", "HDEL h a", Why::Expired),
    Row("HSETEX h PX 1 FIELDS 1 a 1 | HSET h c 1 d 1 | !exp | HSETEX h PXAT 1 FIELDS 3 a 2 b 1 c 1", "HDEL h a c", Why::Expired),
    Row("HSET h a 1 | HGETEX h FIELDS 1 a", "", Why::Nothing),
    Row("HSET h a 1 b 2 | HGETEX h EX 100 FIELDS 3 a b none", "HPEXPIREAT h @100000 FIELDS 2 a b", Why::Moment),
    Row("HSETEX h EX 100 FIELDS 2 a 1 b 2 | HGETEX h PERSIST FIELDS 1 b", "HPERSIST h FIELDS 1 b", Why::Plain),
    Row("HSET h a 1 b 2 | HGETEX h PXAT 1 FIELDS 1 b", "HDEL h b", Why::Expired),
    Row("HSET h a 1 b 2 | HGETDEL h FIELDS 2 b none", "HGETDEL h FIELDS 2 b none", Why::Content),
    Row("HSET h a 1 | HGETDEL h FIELDS 1 none", "", Why::Nothing),
    Row("HSET h a 1 b 2 | HEXPIRE h 100 NX FIELDS 2 a none", "HPEXPIREAT h @100000 NX FIELDS 2 a none", Why::Moment),
    Row("HSET h a 1 | HPEXPIREAT h 33177117420123 FIELDS 1 a", "HPEXPIREAT h 33177117420123 FIELDS 1 a", Why::Content),
    Row("HSET h a 1 | HEXPIREAT h 33177117420 FIELDS 1 a", "HPEXPIREAT h 33177117420000 FIELDS 1 a", Why::Moment),
    Row("HSET h a 1 | HPEXPIRE h 100000 FIELDS 1 a", "HPEXPIREAT h @100000 FIELDS 1 a", Why::Moment),
    Row("HSET h a 1 | HEXPIRE h 100 XX FIELDS 1 a", "", Why::Nothing),
    Row("HSET h a 1 b 2 | HEXPIRE h 0 FIELDS 2 a none", "HDEL h a", Why::Expired),
    Row("HSETEX h EX 100 FIELDS 1 a 1 | HPERSIST h FIELDS 2 a b", "HPERSIST h FIELDS 2 a b", Why::Content),
    Row("HSET h a 1 | HPERSIST h FIELDS 1 a", "", Why::Nothing),
    Row("!cycle | HSETEX h PX 1 FIELDS 1 a 1 | !wait", "HDEL h a", Why::Expired),
    Row("!cycle | SET k v PX 1 | !wait", "UNLINK k", Why::Expired),
    Row("!cycle | !lazyexp no | SET k v PX 1 | !wait", "DEL k", Why::Expired),
    Row("SELECT 2 | SET k v | EXPIRE k 100", "PEXPIREAT k @100000", Why::Moment),
    Row("SET k v | SET k w NX GET", "", Why::Nothing),
    Row("SET k w NX GET", "SET k w NX", Why::Plain),
    Row("SET k v | SET k w IFEQ v GET", "SET k w IFEQ v", Why::Plain),
    Row("SET GET v | SET GET GET IFEQ v GET", "SET GET GET IFEQ v", Why::Plain),
    Row("SET k v | SET k w IFEQ v EX 100", "SET k w PXAT @100000", Why::Moment),
    Row("SET k v | SET k w KEEPTTL GET", "SET k w KEEPTTL", Why::Plain),
    Row("SET k v EX 100 | SET k w XX KEEPTTL", "SET k w XX KEEPTTL", Why::Content),
    Row("SET k v | SET k w get", "SET k w", Why::Plain),
    Row("SET k v | GETEX k pxat 33177117420123", "PEXPIREAT k 33177117420123", Why::Moment),
    Row("SET k v | EXPIRE k 100 GT", "", Why::Nothing),
    Row("SET k v EX 50 | EXPIRE k 100 gt", "PEXPIREAT k @100000 gt", Why::Moment),
    Row("SET k v EX 50 | EXPIREAT k 33177117420 XX", "PEXPIREAT k 33177117420000 XX", Why::Moment),
    Row("SET k v EX 50 | PEXPIRE k 100000 GT XX", "PEXPIREAT k @100000 GT XX", Why::Moment),
    Row("SET k v EX 50 | EXPIRE k -1 LT", "UNLINK k", Why::Expired),
    Row("MSET a 1 b 2 | DEL a a b", "DEL a a b", Why::Content),
    Row("SET a 1 | UNLINK a a", "UNLINK a a", Why::Content),
    Row("SET k v EX 100 | RENAME k l", "RENAME k l", Why::Content),
    Row("SET k v EX 100 | COPY k l", "COPY k l", Why::Content),
    Row("SET k v EX 100 | MOVE k 3", "MOVE k 3", Why::Content),
    Row("SELECT 3 | SET k v | SELECT 0 | SET k w | MOVE k 3", "", Why::Nothing),
    Row("SELECT 3 | SET k v | FLUSHDB", "FLUSHDB", Why::Content),
    Row("SELECT 3 | SWAPDB 0 3", "SELECT 3; SWAPDB 0 3", Why::Content),
    Row("SET k v | FLUSHDB SYNC", "FLUSHDB SYNC", Why::Content),
    // Outside a cluster, FLUSHSLOT propagates nothing; for a cluster, see it/clusterscan.rs.
    Row("SET k v | CLUSTER FLUSHSLOT 7", "", Why::Nothing),
    Row("SET k v | FLUSHALL SYNC", "FLUSHALL SYNC", Why::Content),
    Row("MSET a 1 b 2 c 3 | PEXPIRE a 1 | PEXPIRE c 1 | !exp | MGET a b c", "MULTI; UNLINK a; UNLINK c; EXEC", Why::Expired),
    Row("MSET a 1 b 2 c 3 | PEXPIRE a 1 | PEXPIRE c 1 | !exp | EXISTS a b c", "MULTI; UNLINK a; UNLINK c; EXEC", Why::Expired),
    Row("SET k v PX 1 | !exp | FLUSHDB", "FLUSHDB", Why::Content),
    Row("SET k v PX 1 | !exp | SETEX k 100 w", "MULTI; UNLINK k; SET k w PXAT @100000; EXEC", Why::Moment),
    Row("SET k v PX 1 | !exp | MSETEX 1 k w EX 100", "MULTI; UNLINK k; MSETEX 1 k w PXAT @100000; EXEC", Why::Moment),
    Row("SET k v PX 1 | !exp | DELIFEQ k v", "UNLINK k", Why::Expired),
    Row("SET k v PX 1 | !exp | GETEX k", "UNLINK k", Why::Expired),
    Row("SET k v PX 1 | !exp | SET k w GET", "MULTI; UNLINK k; SET k w; EXEC", Why::Plain),
    Row("SET k v PX 1 | !exp | SET k w IFEQ v", "UNLINK k", Why::Expired),
    Row("SET k v PX 1 | !exp | LCS k k", "UNLINK k", Why::Expired),
    // Conditions of 9.2 are not propagated. A key that they have found expired is deleted
    // before the commands.
    Row("MULTI | SET o v | EXEC NX k", "SET o v", Why::Plain),
    Row("SET k v PX 1 | !exp | MULTI | SET o v | EXEC NX k", "MULTI; UNLINK k; SET o v; EXEC", Why::Plain),
    Row("SET k v PX 1 | !exp | MULTI | SET k w | EXEC IFNE k v", "MULTI; UNLINK k; SET k w; EXEC", Why::Plain),
    Row("SET k v PX 1 | !exp | MULTI | SET o v | EXEC XX k", "UNLINK k", Why::Expired),
    Row("SET k v PX 1 | !exp | GETRANGE k 0 1", "UNLINK k", Why::Expired),
    Row("SET k v PX 1 | !exp | INCRBY k 2", "MULTI; UNLINK k; INCRBY k 2; EXEC", Why::Content),
    Row("SET k v PX 1 | !exp | EXPIRE k -1", "UNLINK k", Why::Expired),
    Row("SET k v PX 1 | !exp | SWAPDB 0 1", "SWAPDB 0 1", Why::Content),
    Row("SET k v | MSETEX 1 k w PXAT 1", "MSETEX 1 k w PXAT 1", Why::Content),
    Row("MSETEX 1 k w EXAT 1", "MSETEX 1 k w PXAT 1000", Why::Moment),
    Row("XADD s 1-1 a b", "XADD s 1-1 a b", Why::Content),
    Row("XADD s 1-1 a b | XADD s 1-* a b", "XADD s 1-2 a b", Why::Drawn),
    Row("XADD s NOMKSTREAM 1-1 a b", "", Why::Nothing),
    Row("XADD s 1-1 a b | XADD s 1-1 a b", "", Why::Nothing),
    Row("XADD s 1-1 a b | XADD s MAXLEN 1 1-2 a b", "XADD s MAXLEN 1 1-2 a b", Why::Content),
    Row("XADD s 1-1 a b | XADD s maxlen ~ 1 1-2 a b", "XADD s maxlen = 2 1-2 a b", Why::Result),
    Row("XADD s 1-1 a b | XADD s MINID ~ 1-2 LIMIT 10 1-* a b", "XADD s MINID = 1-1 LIMIT 10 1-2 a b", Why::Result),
    // If no entry is left, the threshold is above all entries that there were.
    Row("XADD s MINID ~ 10-0 4-* a b", "XADD s MINID = 18446744073709551615-18446744073709551615 4-0 a b", Why::Result),
    Row("XADD s 1-1 a b | XTRIM s MINID ~ 6-0", "XTRIM s MINID = 18446744073709551615-18446744073709551615", Why::Result),
    Row("XADD s MAXLEN ~ 0 4-* a b", "XADD s MAXLEN = 0 4-0 a b", Why::Result),
    Row("XADD s 1-1 a b | XDEL s 1-1 2-2", "XDEL s 1-1 2-2", Why::Content),
    Row("XADD s 1-1 a b | XDEL s 2-2", "", Why::Nothing),
    Row("XADD s 1-1 a b | XTRIM s MAXLEN 0", "XTRIM s MAXLEN 0", Why::Content),
    Row("XADD s 1-1 a b | XTRIM s MAXLEN ~ 0 LIMIT 500", "XTRIM s MAXLEN = 0 LIMIT 500", Why::Result),
    Row("XADD s 1-1 a b | XTRIM s MAXLEN 1", "", Why::Nothing),
    Row("XADD s 1-1 a b | XSETID s 2-2", "XSETID s 2-2", Why::Content),
    Row("XADD s 1-1 a b | XGROUP CREATE s g $", "XGROUP CREATE s g $", Why::Content),
    Row("XGROUP CREATE s g $ MKSTREAM", "XGROUP CREATE s g $ MKSTREAM", Why::Content),
    Row("XGROUP CREATE s g $ MKSTREAM | XGROUP SETID s g 1", "XGROUP SETID s g 1", Why::Content),
    Row("XGROUP CREATE s g $ MKSTREAM | XGROUP DESTROY s g", "XGROUP DESTROY s g", Why::Content),
    Row("XGROUP CREATE s g $ MKSTREAM | XGROUP DESTROY s h", "", Why::Nothing),
    Row("XGROUP CREATE s g $ MKSTREAM | XGROUP CREATECONSUMER s g c", "XGROUP CREATECONSUMER s g c", Why::Content),
    Row("XGROUP CREATE s g $ MKSTREAM | XGROUP CREATECONSUMER s g c | XGROUP CREATECONSUMER s g c", "", Why::Nothing),
    Row("XGROUP CREATE s g $ MKSTREAM | XGROUP CREATECONSUMER s g c | XGROUP DELCONSUMER s g c", "XGROUP DELCONSUMER s g c", Why::Content),
    Row("XGROUP CREATE s g $ MKSTREAM | XGROUP DELCONSUMER s g c", "", Why::Nothing),
    Row("XADD s 1-1 a b | XADD s 1-2 a b | XGROUP CREATE s g 0 | XREADGROUP GROUP g c STREAMS s >", "MULTI; XCLAIM s g c 0 1-1 TIME @0 RETRYCOUNT 1 FORCE JUSTID LASTID 1-1; XCLAIM s g c 0 1-2 TIME @0 RETRYCOUNT 1 FORCE JUSTID LASTID 1-2; XGROUP SETID s g 1-2 ENTRIESREAD 2; EXEC", Why::Result),
    Row("XADD s 1-1 a b | XGROUP CREATE s g 0 | XREADGROUP GROUP g c NOACK STREAMS s >", "MULTI; XGROUP CREATECONSUMER s g c; XGROUP SETID s g 1-1 ENTRIESREAD 1; EXEC", Why::Result),
    Row("XADD s 1-1 a b | XGROUP CREATE s g 0 | XREADGROUP GROUP g c STREAMS s 0", "XGROUP CREATECONSUMER s g c", Why::Result),
    Row("XADD s 1-1 a b | XGROUP CREATE s g 0 | XREADGROUP GROUP g c STREAMS s > | XACK s g 1-1", "XACK s g 1-1", Why::Content),
    Row("XADD s 1-1 a b | XGROUP CREATE s g 0 | XACK s g 1-1", "", Why::Nothing),
    // XACKDEL and XDELEX are commands of 9.2, and are propagated as in 9.2, in commands that 9.1 knows.
    Row("XADD s 1-1 a b | XADD s 1-2 a b | XGROUP CREATE s g 0 | XGROUP CREATE s h 0 | XREADGROUP GROUP g c STREAMS s > | XREADGROUP GROUP h c STREAMS s > | XACKDEL s g IDS 3 1-1 1-2 9", "MULTI; XACK s g 1-1 1-2; XDEL s 1-1 1-2; EXEC", Why::Plain),
    Row("XADD s 1-1 a b | XADD s 1-2 a b | XGROUP CREATE s g 0 | XGROUP CREATE s h 0 | XREADGROUP GROUP g c STREAMS s > | XREADGROUP GROUP h c STREAMS s > | XACKDEL s g ACKED IDS 1 1-1", "XACK s g 1-1", Why::Plain),
    Row("XADD s 1-1 a b | XADD s 1-2 a b | XGROUP CREATE s g 0 | XGROUP CREATE s h 0 | XREADGROUP GROUP g c STREAMS s > | XREADGROUP GROUP h c STREAMS s > | XACK s h 1-1 | XACKDEL s g ACKED IDS 2 1-1 1-2", "MULTI; XACK s g 1-1 1-2; XDEL s 1-1; EXEC", Why::Plain),
    Row("XADD s 1-1 a b | XADD s 1-2 a b | XGROUP CREATE s g 0 | XGROUP CREATE s h 0 | XREADGROUP GROUP g c STREAMS s > | XREADGROUP GROUP h c STREAMS s > | XACKDEL s h DELREF IDS 1 1-1", "MULTI; XACK s g 1-1; XACK s h 1-1; XDEL s 1-1; EXEC", Why::Plain),
    Row("XADD s 1-1 a b | XADD s 1-2 a b | XGROUP CREATE s g 0 | XGROUP CREATE s h 0 | XREADGROUP GROUP g c STREAMS s > | XREADGROUP GROUP h c STREAMS s > | XDEL s 1-1 | XACKDEL s g IDS 1 1-1", "XACK s g 1-1", Why::Plain),
    Row("XADD s 1-1 a b | XADD s 1-2 a b | XGROUP CREATE s g 0 | XGROUP CREATE s h 0 | XREADGROUP GROUP g c STREAMS s > | XREADGROUP GROUP h c STREAMS s > | XACKDEL s g IDS 1 9-9", "", Why::Nothing),
    Row("XADD s 1-1 a b | XADD s 1-2 a b | XGROUP CREATE s g 0 | XGROUP CREATE s h 0 | XREADGROUP GROUP g c STREAMS s > | XREADGROUP GROUP h c STREAMS s > | XDELEX s IDS 2 1-1 9", "XDEL s 1-1", Why::Plain),
    Row("XADD s 1-1 a b | XADD s 1-2 a b | XGROUP CREATE s g 0 | XGROUP CREATE s h 0 | XREADGROUP GROUP g c STREAMS s > | XREADGROUP GROUP h c STREAMS s > | XDELEX s DELREF IDS 1 1-2", "MULTI; XACK s g 1-2; XACK s h 1-2; XDEL s 1-2; EXEC", Why::Plain),
    Row("XADD s 1-1 a b | XADD s 1-2 a b | XGROUP CREATE s g 0 | XGROUP CREATE s h 0 | XREADGROUP GROUP g c STREAMS s > | XREADGROUP GROUP h c STREAMS s > | XDEL s 1-1 | XDELEX s DELREF IDS 1 1-1", "MULTI; XACK s g 1-1; XACK s h 1-1; EXEC", Why::Plain),
    Row("XADD s 1-1 a b | XADD s 1-2 a b | XGROUP CREATE s g 0 | XGROUP CREATE s h 0 | XREADGROUP GROUP g c STREAMS s > | XREADGROUP GROUP h c STREAMS s > | XDELEX s ACKED IDS 2 1-1 1-2", "", Why::Nothing),
    Row("XADD s 1-1 a b | XADD s 1-2 a b | XGROUP CREATE s g 0 | XGROUP CREATE s h 0 | XREADGROUP GROUP g c STREAMS s > | XREADGROUP GROUP h c STREAMS s > | XDELEX s IDS 1 9-9", "", Why::Nothing),
    Row("XADD s 1-1 a b | XGROUP CREATE s g 0 | XCLAIM s g c 0 1-1", "XGROUP CREATECONSUMER s g c", Why::Result),
    Row("XADD s 1-1 a b | XGROUP CREATE s g 0 | XCLAIM s g c 0 1-1 FORCE TIME 7", "XCLAIM s g c 0 1-1 TIME 7 RETRYCOUNT 2 FORCE JUSTID LASTID 0-0", Why::Result),
    Row("XADD s 1-1 a b | XGROUP CREATE s g 0 | XCLAIM s g c 0 9 LASTID 1-1", "MULTI; XGROUP SETID s g 1-1 ENTRIESREAD -1; XGROUP CREATECONSUMER s g c; EXEC", Why::Result),
    Row("XADD s 1-1 a b | XGROUP CREATE s g 0 | XCLAIM s g c 0 1-1 FORCE TIME 7 | XAUTOCLAIM s g d 0 0 JUSTID", "XCLAIM s g d 0 1-1 TIME @0 RETRYCOUNT 2 FORCE JUSTID LASTID 0-0", Why::Moment),
    Row("XADD s 1-1 a b | XGROUP CREATE s g 0 | XAUTOCLAIM s g d 0 0", "XGROUP CREATECONSUMER s g d", Why::Result),
    Row("RPUSH k a b", "RPUSH k a b", Why::Content),
    Row("LPUSH k a", "LPUSH k a", Why::Content),
    Row("LPUSHX k a", "", Why::Nothing),
    Row("RPUSHX k a", "", Why::Nothing),
    Row("RPUSH k a | LPUSHX k b", "LPUSHX k b", Why::Content),
    Row("RPUSH k a | RPUSHX k b c", "RPUSHX k b c", Why::Content),
    Row("RPUSH k a | LINSERT k BEFORE a b", "LINSERT k BEFORE a b", Why::Content),
    Row("RPUSH k a | LINSERT k BEFORE x b", "", Why::Nothing),
    Row("LINSERT k BEFORE x b", "", Why::Nothing),
    Row("RPUSH k a | LSET k 0 b", "LSET k 0 b", Why::Content),
    Row("RPUSH k a | LSET k 3 b", "", Why::Nothing),
    Row("RPUSH k a b | LREM k 0 a", "LREM k 0 a", Why::Content),
    Row("RPUSH k a b | LREM k 0 x", "", Why::Nothing),
    Row("RPUSH k a b c | LTRIM k 1 1", "LTRIM k 1 1", Why::Content),
    Row("RPUSH k a b c | LTRIM k 0 -1", "", Why::Nothing),
    Row("LTRIM k 0 1", "", Why::Nothing),
    Row("RPUSH k a b | LTRIM k 5 6", "LTRIM k 5 6", Why::Content),
    Row("RPUSH k a b | LPOP k", "LPOP k", Why::Content),
    Row("RPUSH k a b | RPOP k", "RPOP k", Why::Content),
    Row("RPUSH k a b c | LPOP k 2", "LPOP k 2", Why::Content),
    Row("RPUSH k a b c | RPOP k 9", "RPOP k 9", Why::Content),
    Row("RPUSH k a | LPOP k 0", "", Why::Nothing),
    Row("LPOP k", "", Why::Nothing),
    Row("RPOP k 2", "", Why::Nothing),
    Row("RPUSH k a b c | LMPOP 2 none k LEFT COUNT 2", "LPOP k 2", Why::Plain),
    Row("RPUSH k a b c | LMPOP 1 k RIGHT", "RPOP k 1", Why::Plain),
    Row("RPUSH k a b c | LMPOP 1 k RIGHT COUNT 10", "RPOP k 3", Why::Plain),
    Row("LMPOP 1 k RIGHT", "", Why::Nothing),
    Row("RPUSH k a b | BLPOP none k 0", "LPOP k", Why::Plain),
    Row("RPUSH k a b | BRPOP k 0", "RPOP k", Why::Plain),
    Row("RPUSH k a b | BLMPOP 0 2 none k LEFT COUNT 5", "LPOP k 2", Why::Plain),
    Row("RPUSH k a b | BLMOVE k l left RIGHT 0", "LMOVE k l left RIGHT", Why::Plain),
    Row("RPUSH k a b | BRPOPLPUSH k l 0", "RPOPLPUSH k l", Why::Plain),
    Row("RPUSH k a b | LMOVE k l LEFT RIGHT", "LMOVE k l LEFT RIGHT", Why::Content),
    Row("RPUSH k a b | lmove k k left right", "lmove k k left right", Why::Content),
    Row("LMOVE k l LEFT RIGHT", "", Why::Nothing),
    Row("RPUSH k a b | RPOPLPUSH k l", "RPOPLPUSH k l", Why::Content),
    Row("RPUSH k a | RPOPLPUSH k k", "RPOPLPUSH k k", Why::Content),
    Row("RPOPLPUSH k l", "", Why::Nothing),
    Row("RPUSH k a | COPY k l", "COPY k l", Why::Content),
    Row("RPUSH k a | RENAME k l", "RENAME k l", Why::Content),
    // Deletions of a migration are in it/migrate.rs.
    Row("MIGRATE 10.0.0.1 6379 k 0 1000", "", Why::Nothing),
    Row("RESTORE k 0 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\"", "RESTORE k 0 \\x00\\x01vP\\x00^\\\"\\x07#\\x87j\\xed:", Why::Content),
    Row("RESTORE k 100000 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\"", "RESTORE k @100000 \\x00\\x01vP\\x00^\\\"\\x07#\\x87j\\xed: ABSTTL", Why::Moment),
    Row("restore k 100000 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\" replace", "restore k @100000 \\x00\\x01vP\\x00^\\\"\\x07#\\x87j\\xed: replace ABSTTL", Why::Moment),
    Row("RESTORE k 100000 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\" FREQ 5", "RESTORE k @100000 \\x00\\x01vP\\x00^\\\"\\x07#\\x87j\\xed: FREQ 5 ABSTTL", Why::Moment),
    Row("RESTORE k 33177117420123 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\" ABSTTL IDLETIME 5", "RESTORE k 33177117420123 \\x00\\x01vP\\x00^\\\"\\x07#\\x87j\\xed: ABSTTL IDLETIME 5", Why::Content),
    Row("SET k x | RESTORE k 0 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\"", "", Why::Nothing),
    Row("SET k x | RESTORE k 0 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\" REPLACE", "RESTORE k 0 \\x00\\x01vP\\x00^\\\"\\x07#\\x87j\\xed: REPLACE", Why::Content),
    Row("SET k x | RESTORE k 1 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\" REPLACE ABSTTL", "UNLINK k", Why::Expired),
    Row("!lazyserver no | SET k x | RESTORE k 1 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\" REPLACE ABSTTL", "DEL k", Why::Expired),
    Row("RESTORE k 1 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\" ABSTTL", "", Why::Nothing),
    Row("RESTORE k 1 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\" REPLACE ABSTTL", "", Why::Nothing),
    Row("SET k x PX 1 | !exp | RESTORE k 0 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\"", "MULTI; UNLINK k; RESTORE k 0 \\x00\\x01vP\\x00^\\\"\\x07#\\x87j\\xed:; EXEC", Why::Content),
    Row("SET k x PX 1 | !exp | RESTORE k 0 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\" REPLACE", "RESTORE k 0 \\x00\\x01vP\\x00^\\\"\\x07#\\x87j\\xed: REPLACE", Why::Content),
    Row("SET k x PX 1 | !exp | RESTORE k 1 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\" REPLACE ABSTTL", "UNLINK k", Why::Expired),
    // Payloads of several versions. Those that Valkey 9.1 refuses, or reads as another value, are propagated
    // in the version of 9.1.
    Row("RESTORE k 0 \"\\x00\\x01vQ\\x007\\xfd\\xbaPz\\xf5\\x04\\xb3\"", "RESTORE k 0 \\x00\\x01vP\\x00^\\\"\\x07#\\x87j\\xed:", Why::Result),
    Row("RESTORE k 100000 \"\\x00\\x01vQ\\x007\\xfd\\xbaPz\\xf5\\x04\\xb3\" FREQ 5 REPLACE", "RESTORE k @100000 \\x00\\x01vP\\x00^\\\"\\x07#\\x87j\\xed: FREQ 5 REPLACE ABSTTL", Why::Result),
    Row("RESTORE k 33177117420123 \"\\x00\\x01vQ\\x007\\xfd\\xbaPz\\xf5\\x04\\xb3\" ABSTTL", "RESTORE k 33177117420123 \\x00\\x01vP\\x00^\\\"\\x07#\\x87j\\xed: ABSTTL", Why::Result),
    Row("CONFIG SET rdb-version-check relaxed | RESTORE k 0 \"\\x00\\x01v\\x0c\\x00Z~\\xfar\\xe3\\x12\\x14\\x87\"", "RESTORE k 0 \\x00\\x01vP\\x00^\\\"\\x07#\\x87j\\xed:", Why::Result),
    Row("RESTORE k 0 \"\\x00\\x01v\\x0b\\x00\\xf8\\xd7s\\xc1\\xe4\\xa7cG\"", "RESTORE k 0 \\x00\\x01v\\x0b\\x00\\xf8\\xd7s\\xc1\\xe4\\xa7cG", Why::Content),
    Row("RESTORE k 0 \"\\x12\\x01\\x02\\x0d\\x0d\\x00\\x00\\x00\\x02\\x00\\x81\\x61\\x02\\x81\\x62\\x02\\xff\\x50\\x00\\xa7\\xc1\\xc3\\x18\\x8d\\x13\\xdc\\x45\"", "RESTORE k 0 \\x12\\x01\\x02\\r\\r\\x00\\x00\\x00\\x02\\x00\\x81a\\x02\\x81b\\x02\\xffP\\x00\\xa7\\xc1\\xc3\\x18\\x8d\\x13\\xdcE", Why::Content),
    Row("RESTORE k 0 \"\\x04\\x01\\x01\\x66\\x01\\x76\\x50\\x00\\x62\\xd8\\x8a\\xc7\\x2f\\xd4\\x69\\x08\"", "RESTORE k 0 \\x04\\x01\\x01f\\x01vP\\x00b\\xd8\\x8a\\xc7/\\xd4i\\x08", Why::Content),
    Row("RESTORE k 0 \"\\x02\\x01\\x01\\x6d\\x50\\x00\\x09\\xd6\\x7f\\xc6\\x7e\\xd4\\xc2\\x44\"", "RESTORE k 0 \\x02\\x01\\x01mP\\x00\\t\\xd6\\x7f\\xc6~\\xd4\\xc2D", Why::Content),
    Row("RESTORE k 0 \"\\x05\\x01\\x01\\x6d\\x00\\x00\\x00\\x00\\x00\\x00\\xf8\\x3f\\x50\\x00\\x49\\xc4\\x43\\xac\\x04\\x22\\x8e\\x8b\"", "RESTORE k 0 \\x05\\x01\\x01m\\x00\\x00\\x00\\x00\\x00\\x00\\xf8?P\\x00I\\xc4C\\xac\\x04\\\"\\x8e\\x8b", Why::Content),
    Row("RESTORE k 0 \"\\x11\\x16\\x16\\x00\\x00\\x00\\x06\\x00\\x81a\\x02\\x09\\x01\\x81b\\x02\\x02\\x01\\x81c\\x02\\x03\\x01\\xffP\\x00\\xe7Vc\\xe27\\x1ap\\x81\"", "RESTORE k 0 \\x11\\x16\\x16\\x00\\x00\\x00\\x06\\x00\\x81b\\x02\\x02\\x01\\x81c\\x02\\x03\\x01\\x81a\\x02\\t\\x01\\xffP\\x00\\x9b\\x11\\xd0$\\xb5A\\xc8\\x93", Why::Result),
    Row("RESTORE k 0 \"\\x11\\x16\\x16\\x00\\x00\\x00\\x06\\x00\\x81a\\x02\\x09\\x01\\x81b\\x02\\x02\\x01\\x81c\\x02\\x03\\x01\\xffQ\\x00\\x8e\\x89\\xde\\x91\\xca\\x85\\x99\\x08\"", "RESTORE k 0 \\x11\\x16\\x16\\x00\\x00\\x00\\x06\\x00\\x81b\\x02\\x02\\x01\\x81c\\x02\\x03\\x01\\x81a\\x02\\t\\x01\\xffP\\x00\\x9b\\x11\\xd0$\\xb5A\\xc8\\x93", Why::Result),
    Row("RESTORE k 0 \"\\x11\\x16\\x16\\x00\\x00\\x00\\x06\\x00\\x81b\\x02\\x02\\x01\\x81c\\x02\\x03\\x01\\x81a\\x02\\x09\\x01\\xffP\\x00\\x9b\\x11\\xd0$\\xb5A\\xc8\\x93\"", "RESTORE k 0 \\x11\\x16\\x16\\x00\\x00\\x00\\x06\\x00\\x81b\\x02\\x02\\x01\\x81c\\x02\\x03\\x01\\x81a\\x02\\t\\x01\\xffP\\x00\\x9b\\x11\\xd0$\\xb5A\\xc8\\x93", Why::Content),
    Row("CONFIG SET rdb-version-check relaxed | RESTORE k 0 \"\\x10\\x0d\\x0d\\x00\\x00\\x00\\x02\\x00\\x81f\\x02\\x81v\\x02\\xff\\x0c\\x00\\xeb\\x87\\x09\\x84\\xd9~\\x96\\xd4\" REPLACE", "RESTORE k 0 \\x10\\r\\r\\x00\\x00\\x00\\x02\\x00\\x81f\\x02\\x81v\\x02\\xffP\\x00\\xef\\xdb\\xf4\\xd5\\xbd\\x06oi REPLACE", Why::Result),
    Row("RESTORE-ASKING k 0 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\"", "RESTORE-ASKING k 0 \\x00\\x01vP\\x00^\\\"\\x07#\\x87j\\xed:", Why::Content),
    Row("RESTORE-ASKING k 100000 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\"", "RESTORE-ASKING k @100000 \\x00\\x01vP\\x00^\\\"\\x07#\\x87j\\xed: ABSTTL", Why::Moment),
    Row("SET k x | DUMP k", "", Why::Nothing),
    Row("ZADD z 1 a", "ZADD z 1 a", Why::Content),
    Row("ZADD z 1 a | ZADD z 1 a", "", Why::Nothing),
    Row("ZADD z 1 a | ZADD z NX 2 a", "", Why::Nothing),
    Row("ZADD z 1 a | ZADD z CH 2 a 3 b", "ZADD z CH 2 a 3 b", Why::Content),
    Row("ZADD z XX 1 a", "", Why::Nothing),
    Row("ZADD z INCR 1 a", "ZADD z INCR 1 a", Why::Content),
    Row("ZADD z 1 a | ZADD z XX INCR 5 a", "ZADD z XX INCR 5 a", Why::Content),
    Row("ZADD z 1 a | ZADD z INCR 0 a", "", Why::Nothing),
    Row("ZADD z 1 a 2 b | ZADD z GT 0 a", "", Why::Nothing),
    Row("ZINCRBY z 1 a", "ZINCRBY z 1 a", Why::Content),
    Row("ZADD z 1 a | ZINCRBY z 0 a", "", Why::Nothing),
    Row("ZADD z 1 a 2 b | ZREM z a none", "ZREM z a none", Why::Content),
    Row("ZADD z 1 a | ZREM z a", "ZREM z a", Why::Content),
    Row("ZADD z 1 a | ZREM z none", "", Why::Nothing),
    Row("ZREM z a", "", Why::Nothing),
    Row("ZADD z 1 a 2 b | ZREMRANGEBYRANK z 0 0", "ZREMRANGEBYRANK z 0 0", Why::Content),
    Row("ZADD z 1 a 2 b | ZREMRANGEBYRANK z 5 9", "", Why::Nothing),
    Row("ZADD z 1 a 2 b | ZREMRANGEBYSCORE z 2 3", "ZREMRANGEBYSCORE z 2 3", Why::Content),
    Row("ZADD z 1 a 2 b | ZREMRANGEBYSCORE z 7 9", "", Why::Nothing),
    Row("ZADD z 1 a 1 b | ZREMRANGEBYLEX z - +", "ZREMRANGEBYLEX z - +", Why::Content),
    Row("ZADD z 1 a 1 b | ZREMRANGEBYLEX z [x +", "", Why::Nothing),
    Row("ZADD z 1 a 2 b | ZPOPMIN z", "ZPOPMIN z", Why::Content),
    Row("ZADD z 1 a 2 b | ZPOPMAX z 5", "ZPOPMAX z 5", Why::Content),
    Row("ZADD z 1 a 2 b | ZPOPMIN z 0", "", Why::Nothing),
    Row("ZPOPMIN z", "", Why::Nothing),
    Row("ZADD z 1 a 2 b | ZMPOP 2 none z MAX COUNT 5", "ZPOPMAX z 2", Why::Plain),
    Row("ZMPOP 1 none MIN", "", Why::Nothing),
    Row("ZADD z 1 a 2 b | BZPOPMIN none z 0", "ZPOPMIN z", Why::Plain),
    Row("ZADD z 1 a 2 b | BZPOPMAX z 0", "ZPOPMAX z", Why::Plain),
    Row("ZADD z 1 a 2 b | BZMPOP 0 1 z MIN COUNT 2", "ZPOPMIN z 2", Why::Plain),
    Row("ZADD z 1 a 2 b | ZUNIONSTORE d 2 z none WEIGHTS 1 2", "ZUNIONSTORE d 2 z none WEIGHTS 1 2", Why::Content),
    Row("ZUNIONSTORE d 1 z", "", Why::Nothing),
    Row("ZADD z 1 a | ZADD d 1 b | ZUNIONSTORE d 1 none", "ZUNIONSTORE d 1 none", Why::Content),
    Row("ZADD z 1 a 2 b | ZINTERSTORE d 2 z z", "ZINTERSTORE d 2 z z", Why::Content),
    Row("ZADD z 1 a 2 b | ZDIFFSTORE d 2 z none", "ZDIFFSTORE d 2 z none", Why::Content),
    Row("ZADD z 1 a 2 b | ZDIFFSTORE d 2 z z", "", Why::Nothing),
    Row("ZADD z 1 a 2 b | ZRANGESTORE d z 0 -1", "ZRANGESTORE d z 0 -1", Why::Content),
    Row("ZRANGESTORE d z 0 -1", "", Why::Nothing),
    Row("ZADD d 1 a | ZRANGESTORE d z 0 -1", "ZRANGESTORE d z 0 -1", Why::Content),
    Row("GEOADD g 13.361389 38.115556 a", "ZADD g 3479099956230698 a", Why::Result),
    Row("GEOADD g NX CH 13.361389 38.115556 a 1 1 b", "ZADD g NX CH 3479099956230698 a 3377822707026402 b", Why::Result),
    Row("GEOADD g XX 13.361389 38.115556 a", "", Why::Nothing),
    Row("GEOADD g 13.361389 38.115556 a | GEOADD g 13.361389 38.115556 a", "", Why::Nothing),
    Row("GEOADD g 13 38 a | GEORADIUS g 13 38 1 km", "", Why::Nothing),
    Row("GEOADD g 13 38 a | GEORADIUS g 13 38 1 km STORE d", "ZADD d 3479065152021743 a", Why::Result),
    Row("GEOADD g 13 38 a | GEORADIUS g 1 1 1 km STORE d", "", Why::Nothing),
    Row("GEOADD g 13 38 a | GEOADD d 1 1 a | GEORADIUS g 1 1 1 km STORE d", "DEL d", Why::Result),
    Row("GEOADD g 13 38 a | GEORADIUSBYMEMBER g a 1 km STOREDIST d", "ZADD d 0 a", Why::Result),
    Row("GEOADD g 13 38 a | GEORADIUSBYMEMBER g a 1 km", "", Why::Nothing),
    Row("GEOADD g 13 38 a | GEOSEARCHSTORE d g FROMMEMBER a BYRADIUS 1 km", "ZADD d 3479065152021743 a", Why::Result),
    Row("GEOSEARCHSTORE d g FROMMEMBER a BYRADIUS 1 km", "", Why::Nothing),
    Row("SADD s a b", "SADD s a b", Why::Content),
    Row("SADD s a | SADD s a", "", Why::Nothing),
    Row("SADD s a b | SREM s a x", "SREM s a x", Why::Content),
    Row("SADD s a | SREM s a", "SREM s a", Why::Content),
    Row("SADD s a | SREM s x", "", Why::Nothing),
    Row("SADD s a | SMOVE s t a", "SMOVE s t a", Why::Content),
    Row("SADD s a | SMOVE s t x", "", Why::Nothing),
    Row("SADD s a | SPOP s", "SREM s a", Why::Drawn),
    Row("SADD s a | SPOP s 5", "UNLINK s", Why::Drawn),
    Row("SPOP s", "", Why::Nothing),
    Row("SADD s a | SADD t a b | SINTERSTORE d s t", "SINTERSTORE d s t", Why::Content),
    Row("SADD s a | SADD t b | SINTERSTORE d s t", "", Why::Nothing),
    Row("SADD d x | SADD s a | SADD t b | SINTERSTORE d s t", "SINTERSTORE d s t", Why::Content),
    Row("SADD s a | SUNIONSTORE d s t", "SUNIONSTORE d s t", Why::Content),
    Row("SUNIONSTORE d s t", "", Why::Nothing),
    Row("SADD d x | SUNIONSTORE d s t", "SUNIONSTORE d s t", Why::Content),
    Row("SADD s a | SDIFFSTORE d s t", "SDIFFSTORE d s t", Why::Content),
    Row("SADD d x | SDIFFSTORE d s t", "SDIFFSTORE d s t", Why::Content),
    Row("SETBIT k 7 1", "SETBIT k 7 1", Why::Content),
    Row("SETBIT k 7 1 | SETBIT k 7 1", "", Why::Nothing),
    Row("SET a x | SET b y | BITOP AND d a b", "BITOP AND d a b", Why::Content),
    Row("BITOP OR d a b", "", Why::Nothing),
    Row("SET d x | BITOP OR d a b", "BITOP OR d a b", Why::Content),
    Row("BITFIELD k SET u8 0 5", "BITFIELD k SET u8 0 5", Why::Content),
    Row("BITFIELD k GET u8 0", "", Why::Nothing),
    Row("BITFIELD k INCRBY u8 0 300 OVERFLOW FAIL INCRBY u8 0 300", "BITFIELD k INCRBY u8 0 300 OVERFLOW FAIL INCRBY u8 0 300", Why::Content),
    Row("PFADD h a", "PFADD h a", Why::Content),
    Row("PFADD h a | PFADD h a", "", Why::Nothing),
    Row("PFADD h", "PFADD h", Why::Content),
    Row("PFADD h a | PFMERGE d h", "PFMERGE d h", Why::Content),
    Row("PFADD h a | PFDEBUG TODENSE h", "PFDEBUG TODENSE h", Why::Content),
    Row("RPUSH l 2 1 | SORT l", "", Why::Nothing),
    Row("RPUSH l 2 1 | SORT l STORE d", "SORT l STORE d", Why::Content),
    Row("SORT l STORE d", "", Why::Nothing),
    Row("RPUSH d x | SORT l STORE d", "SORT l STORE d", Why::Content),
    Row("RPUSH d x | SORT l BY nosort STORE d", "DEL d", Why::Result),
    // These hash fields have expired here but still exist at the receiver.
    Row("HSETEX h PX 1 FIELDS 1 old 1 | HSETEX h EX 100 FIELDS 2 a 1 b 2 | HSET h c 3 | !exp | HPERSIST h FIELDS 3 old a c", "HPERSIST h FIELDS 1 a", Why::Acted),
    Row("HSETEX h PX 1 FIELDS 1 old 1 | HSETEX h EX 100 FIELDS 2 a 1 b 2 | HSET h c 3 | !exp | HPERSIST h FIELDS 2 old c", "", Why::Nothing),
    Row("HSETEX h PX 1 FIELDS 1 old 1 | HSETEX h EX 100 FIELDS 2 a 1 b 2 | HSET h c 3 | !exp | HEXPIRE h 200 FIELDS 3 old a none", "HPEXPIREAT h @200000 FIELDS 1 a", Why::Acted),
    Row("HSETEX h PX 1 FIELDS 1 old 1 | HSETEX h EX 100 FIELDS 2 a 1 b 2 | HSET h c 3 | !exp | HEXPIRE h 200 NX FIELDS 3 old a c", "HPEXPIREAT h @200000 FIELDS 1 c", Why::Acted),
    Row("HSETEX h PX 1 FIELDS 1 old 1 | HSETEX h EX 100 FIELDS 2 a 1 b 2 | HSET h c 3 | !exp | HEXPIRE h 50 LT FIELDS 3 old a c", "HPEXPIREAT h @50000 FIELDS 2 a c", Why::Acted),
    Row("HSETEX h PX 1 FIELDS 1 old 1 | HSETEX h EX 100 FIELDS 2 a 1 b 2 | HSET h c 3 | !exp | HPEXPIRE h 200000 GT FIELDS 3 old b c", "HPEXPIREAT h @200000 FIELDS 1 b", Why::Acted),
    Row("HSETEX h PX 1 FIELDS 1 old 1 | HSETEX h EX 100 FIELDS 2 a 1 b 2 | HSET h c 3 | !exp | HPEXPIREAT h 33177117420123 FIELDS 2 old b", "HPEXPIREAT h 33177117420123 FIELDS 1 b", Why::Acted),
    Row("HSETEX h PX 1 FIELDS 1 old 1 | HSETEX h EX 100 FIELDS 2 a 1 b 2 | HSET h c 3 | !exp | HEXPIREAT h 33177117420 XX FIELDS 2 old b", "HPEXPIREAT h 33177117420000 FIELDS 1 b", Why::Acted),
    Row("HSETEX h PX 1 FIELDS 1 old 1 | HSETEX h EX 100 FIELDS 2 a 1 b 2 | HSET h c 3 | !exp | HEXPIRE h 0 FIELDS 2 old b", "HDEL h b", Why::Expired),
    Row("HSETEX h PX 1 FIELDS 1 old 1 | HSETEX h EX 100 FIELDS 2 a 1 b 2 | HSET h c 3 | !exp | HEXPIRE h 100 FIELDS 1 old", "", Why::Nothing),
    Row("HSETEX h PX 1 FIELDS 1 old 1 | HSETEX h EX 100 FIELDS 2 a 1 b 2 | HSET h c 3 | !exp | HGETEX h EX 200 FIELDS 2 old b", "HPEXPIREAT h @200000 FIELDS 1 b", Why::Acted),
    Row("HSETEX h PX 1 FIELDS 1 old 1 | HSETEX h EX 100 FIELDS 2 a 1 b 2 | HSET h c 3 | !exp | HGETEX h PERSIST FIELDS 2 old b", "HPERSIST h FIELDS 1 b", Why::Acted),
    Row("HSETEX h PX 1 FIELDS 1 old 1 | HSETEX h EX 100 FIELDS 2 a 1 b 2 | HSET h c 3 | !exp | HGETDEL h FIELDS 2 old b", "HDEL h b", Why::Acted),
    Row("HSETEX h PX 1 FIELDS 1 old 1 | HSETEX h EX 100 FIELDS 2 a 1 b 2 | HSET h c 3 | !exp | HGETDEL h FIELDS 1 old", "", Why::Nothing),
    Row("HSETEX h PX 1 FIELDS 1 old 1 | HSETEX h EX 100 FIELDS 2 a 1 b 2 | HSET h c 3 | !exp | HDEL h old b none", "HDEL h b", Why::Acted),
    Row("HSETEX h PX 1 FIELDS 1 old 1 | HSETEX h EX 100 FIELDS 2 a 1 b 2 | HSET h c 3 | !exp | HDEL h old", "", Why::Nothing),
    Row("HSETEX h PX 1 FIELDS 1 old 1 | HSETEX h EX 100 FIELDS 2 a 1 b 2 | HSET h c 3 | !exp | HSET h old 2 b 3", "HSET h old 2 b 3", Why::Content),
    Row("HSETEX h PX 1 FIELDS 1 old 1 | HSETEX h EX 100 FIELDS 2 a 1 b 2 | HSET h c 3 | !exp | HMSET h old 2", "HMSET h old 2", Why::Content),
    Row("HSETEX h PX 1 FIELDS 1 old 1 | HSETEX h EX 100 FIELDS 2 a 1 b 2 | HSET h c 3 | !exp | HSETEX h FNX EX 100 FIELDS 1 old 2", "HSETEX h PXAT @100000 FIELDS 1 old 2", Why::Moment),
    Row("HSETEX h PX 1 FIELDS 1 old 1 | HSETEX h EX 100 FIELDS 2 a 1 b 2 | HSET h c 3 | !exp | HSETEX h FXX FIELDS 1 old 2", "", Why::Nothing),
    Row("HSETEX h PX 1 FIELDS 1 old 1 | HSETEX h EX 100 FIELDS 2 a 1 b 2 | HSET h c 3 | !exp | HSETEX h KEEPTTL FIELDS 2 old 2 a 3", "MULTI; HDEL h old; HSETEX h KEEPTTL FIELDS 2 old 2 a 3; EXEC", Why::Content),
    Row("HSETEX h PX 1 FIELDS 1 old 1 | HSETEX h EX 100 FIELDS 2 a 1 b 2 | HSET h c 3 | !exp | HINCRBY h c 1", "HINCRBY h c 1", Why::Content),
    Row("HSETEX h PX 1 FIELDS 1 old 1 | HSETEX h EX 100 FIELDS 2 a 1 b 2 | HSET h c 3 | !exp | HSETNX h c 1", "", Why::Nothing),
    Row("HSETEX h PX 1 FIELDS 1 old 1 | HSETEX h EX 100 FIELDS 2 a 1 b 2 | HSET h c 3 | !exp | RENAME h h2", "RENAME h h2", Why::Content),
    Row("HSETEX h PX 1 FIELDS 1 old 1 | HSETEX h EX 100 FIELDS 2 a 1 b 2 | HSET h c 3 | !exp | COPY h h2", "COPY h h2", Why::Content),
    Row("HSETEX h PX 1 FIELDS 1 old 1 | HSETEX h EX 100 FIELDS 2 a 1 b 2 | HSET h c 3 | !exp | MOVE h 2", "MOVE h 2", Why::Content),
    Row("HSETEX h PX 1 FIELDS 1 old 1 | HSET h a 1 | !exp | HDEL h old a", "HDEL h a", Why::Acted),
    Row("HSETEX h PX 1 FIELDS 1 old 1 | HSET h a 1 | !exp | HDEL h old a | RENAME h h2", "RENAME h h2", Why::Content),
    // Some of the keys have expired.
    Row("MSET a 1 b 2 | PEXPIRE a 1 | !exp | UNLINK a b", "MULTI; UNLINK a; UNLINK a b; EXEC", Why::Content),
    Row("MSET a 1 b 2 | PEXPIRE a 1 | !exp | MSETEX 2 a 3 b 4 XX", "UNLINK a", Why::Expired),
    Row("MSET a 1 b 2 | PEXPIRE a 1 | !exp | MSETEX 2 a 3 c 4 NX", "MULTI; UNLINK a; MSETEX 2 a 3 c 4 NX; EXEC", Why::Content),
    Row("SADD s a | SADD t b | PEXPIRE t 1 | !exp | SMOVE s t a", "MULTI; UNLINK t; SMOVE s t a; EXEC", Why::Content),
    Row("SADD s a | SADD t b | PEXPIRE t 1 | !exp | SUNIONSTORE d s t", "MULTI; UNLINK t; SUNIONSTORE d s t; EXEC", Why::Content),
    Row("ZADD z 1 a | ZADD d 1 x | PEXPIRE z 1 | !exp | ZRANGESTORE d z 0 -1", "MULTI; UNLINK z; ZRANGESTORE d z 0 -1; EXEC", Why::Content),
    Row("SADD s a | SADD t a | PEXPIRE t 1 | !exp | SINTERSTORE d s t", "UNLINK t", Why::Expired),
    Row("ZADD s 1 a | ZADD t 1 a | PEXPIRE t 1 | !exp | ZINTERSTORE d 2 s t", "UNLINK t", Why::Expired),
    Row("ZADD s 1 a | ZADD t 1 a | PEXPIRE t 1 | !exp | ZDIFFSTORE d 2 s t", "MULTI; UNLINK t; ZDIFFSTORE d 2 s t; EXEC", Why::Content),
    Row("SADD s a | SADD t a | PEXPIRE t 1 | !exp | SDIFFSTORE d s t", "MULTI; UNLINK t; SDIFFSTORE d s t; EXEC", Why::Content),
    Row("ZADD s 1 a | ZADD t 1 b | PEXPIRE t 1 | !exp | ZUNIONSTORE d 2 s t", "MULTI; UNLINK t; ZUNIONSTORE d 2 s t; EXEC", Why::Content),
    Row("SET s a | SET t b | PEXPIRE t 1 | !exp | BITOP OR d s t", "MULTI; UNLINK t; BITOP OR d s t; EXEC", Why::Content),
    Row("PFADD s a | PFADD t b | PEXPIRE t 1 | !exp | PFMERGE d s t", "MULTI; UNLINK t; PFMERGE d s t; EXEC", Why::Content),
    Row("RPUSH s a | RPUSH t b | PEXPIRE t 1 | !exp | LMOVE s t LEFT LEFT", "MULTI; UNLINK t; LMOVE s t LEFT LEFT; EXEC", Why::Content),
    Row("RPUSH s a | RPUSH t b | PEXPIRE s 1 | !exp | LMPOP 2 s t LEFT", "MULTI; UNLINK s; LPOP t 1; EXEC", Why::Plain),
    Row("RPUSH l a b | SET w_a 1 | SET w_b 2 | PEXPIRE w_b 1 | !exp | SORT l BY w_* DESC STORE d", "MULTI; UNLINK w_b; RPUSH d a b; EXEC", Why::Result),
    // In these rows, a result that depends on order, precision or encoding is propagated itself; other
    // commands are propagated as they were sent.
    Row("SADD t b a | SORT t BY nosort STORE d", "RPUSH d a b", Why::Result),
    Row("SADD t b a c | SORT t ALPHA DESC LIMIT 0 2 STORE d", "SORT t ALPHA DESC LIMIT 0 2 STORE d", Why::Content),
    Row("RPUSH l 1.0 01 1 +1 1e0 | SORT l DESC LIMIT 1 3 STORE d", "SORT l DESC LIMIT 1 3 STORE d", Why::Content),
    Row("SADD t b a c | SORT t ALPHA GET # STORE d", "RPUSH d a b c", Why::Result),
    Row("RPUSH s 1 | PEXPIRE s 1 | RPUSH d x | !exp | SORT s STORE d", "MULTI; UNLINK s; SORT s STORE d; EXEC", Why::Content),
    Row("HSETEX w PX 1 FIELDS 1 a 9 | HSET w b 1 | RPUSH l a b | !exp | SORT l BY nosort GET w->a GET # STORE d", "RPUSH d \"\" a \"\" b", Why::Result),
    Row("RPUSH d x | RPUSH l 2 1 | SORT l STORE d", "SORT l STORE d", Why::Content),
    Row("RPUSH d x | RPUSH l 2 1 | SORT l BY nosort STORE d", "MULTI; DEL d; RPUSH d 2 1; EXEC", Why::Result),
    Row("RPUSH l 2 1 | SORT l LIMIT 5 1 STORE d", "", Why::Nothing),
    Row("RPUSH l 2 1 | SORT l STORE l", "SORT l STORE l", Why::Content),
    Row("ZADD z 1 b 1 a | SORT z BY nosort DESC STORE d", "RPUSH d b a", Why::Result),
    Row("ZADD z 1 a 2 b 3 c 1 d 2 e | ZREMRANGEBYLEX z [b +", "ZREMRANGEBYRANK z 1 4", Why::Result),
    Row("ZADD z 1 a 2 b 3 c 1 d 2 e | ZREMRANGEBYLEX z (e +", "", Why::Nothing),
    Row("ZADD z 1 a 1 b 1 c | ZREMRANGEBYLEX z (a [b", "ZREMRANGEBYLEX z (a [b", Why::Content),
    Row("ZADD z 1 a 2 b 3 c 1 d 2 e | ZRANGESTORE d z [b + BYLEX", "ZRANGESTORE d z 1 4", Why::Result),
    Row("ZADD z 1 a 2 b 3 c 1 d 2 e | ZRANGESTORE d z + - BYLEX REV LIMIT 1 2", "ZRANGESTORE d z 2 3", Why::Result),
    Row("ZADD z 1 a 2 b 3 c 1 d 2 e | ZRANGESTORE d z -inf +inf BYSCORE LIMIT -2 2", "", Why::Nothing),
    Row("ZADD z 1 a 2 b 3 c 1 d 2 e | ZADD d 1 x | ZRANGESTORE d z -inf +inf BYSCORE LIMIT -2 2", "DEL d", Why::Result),
    Row("ZADD z 1 a 1 b 1 c | ZRANGESTORE d z - + BYLEX LIMIT 1 1", "ZRANGESTORE d z - + BYLEX LIMIT 1 1", Why::Content),
    Row("ZADD z 1 a 2 b 3 c 1 d 2 e | ZRANGESTORE d z 1 2 BYSCORE LIMIT 1 2", "ZRANGESTORE d z 1 2 BYSCORE LIMIT 1 2", Why::Content),
    Row("ZADD z 1 a 2 b 3 c 1 d 2 e | ZRANGESTORE d z 0 1 REV", "ZRANGESTORE d z 0 1 REV", Why::Content),
    Row("ZADD z 1 a 2 b 3 c 1 d 2 e | ZPOPMIN z 2", "ZPOPMIN z 2", Why::Content),
    Row("ZADD s 0.1 a | ZADD t 0.2 a | ZADD u 0.3 a | ZUNIONSTORE d 3 s t u WEIGHTS 1 2 3 AGGREGATE SUM", "ZUNIONSTORE d 3 s t u WEIGHTS 1 2 3 AGGREGATE SUM", Why::Content),
    Row("ZADD z 0.1 a | ZADD z INCR 0.2 a", "ZADD z INCR 0.2 a", Why::Content),
    Row("ZADD z 0.1 a | ZINCRBY z 0.2 a", "ZINCRBY z 0.2 a", Why::Content),
    Row("ZADD z 1 a 2 b | ZADD z GT CH 2 a 1 b", "ZADD z GT CH 2 a 1 b", Why::Content),
    Row("GEOADD g 13 38 a 13.1 38.1 b | GEORADIUS g 13 38 100 km COUNT 1 ANY STORE d", "ZADD d 3479065152021743 a", Why::Result),
    Row("GEOADD g 13 38 a 13.1 38.1 b | GEOADD d 1 1 x | GEOSEARCHSTORE d g FROMLONLAT 13 38 BYBOX 100 100 km ASC COUNT 1", "MULTI; DEL d; ZADD d 3479065152021743 a; EXEC", Why::Result),
    Row("HSET h a 0.1 | HINCRBYFLOAT h a 0.2", "HSET h a 0.3", Why::Result),
    Row("SET k 0.1 | INCRBYFLOAT k 0.2", "SET k 0.3 KEEPTTL", Why::Result),
    Row("BITFIELD k OVERFLOW FAIL INCRBY u2 6 9", "BITFIELD k OVERFLOW FAIL INCRBY u2 6 9", Why::Content),
    Row("PFADD h a | PFCOUNT h", "PFCOUNT h", Why::Content),
    Row("PFADD h a | PFCOUNT h | PFCOUNT h", "", Why::Nothing),
    Row("PFADD h a | PFADD i b | PFCOUNT h i", "", Why::Nothing),
    Row("EVAL \"redis.call('spop', KEYS[1]) return redis.call('sort', KEYS[2], 'store', 'd')\" 2 t l", "", Why::Nothing),
    Row("SADD t a | RPUSH l 2 1 | EVAL \"redis.call('spop', KEYS[1]) return redis.call('sort', KEYS[2], 'store', 'd')\" 2 t l", "MULTI; SREM t a; sort l store d; EXEC", Why::Plain),
    // These rows concern the state of consumer groups.
    Row("XADD s 1-1 a b | XADD s 1-2 a b | XADD s 1-3 a b | XGROUP CREATE s g 0 | XREADGROUP GROUP g c COUNT 2 STREAMS s > | XREADGROUP GROUP g c STREAMS s 0", "XCLAIM s g c 0 1-1 1-2 TIME @0 RETRYCOUNT 2 FORCE JUSTID LASTID 1-2", Why::Result),
    Row("XADD s 1-1 a b | XADD s 1-2 a b | XADD s 1-3 a b | XGROUP CREATE s g 0 | XREADGROUP GROUP g c COUNT 2 STREAMS s > | XREADGROUP GROUP g c STREAMS s 1-1 | XREADGROUP GROUP g c STREAMS s 0", "MULTI; XCLAIM s g c 0 1-1 TIME @0 RETRYCOUNT 2 FORCE JUSTID LASTID 1-2; XCLAIM s g c 0 1-2 TIME @0 RETRYCOUNT 3 FORCE JUSTID LASTID 1-2; EXEC", Why::Result),
    Row("XADD s 1-1 a b | XADD s 1-2 a b | XADD s 1-3 a b | XGROUP CREATE s g 0 | XREADGROUP GROUP g c COUNT 2 STREAMS s > | XDEL s 1-1 | XREADGROUP GROUP g c STREAMS s 0", "XCLAIM s g c 0 1-2 TIME @0 RETRYCOUNT 2 FORCE JUSTID LASTID 1-2", Why::Result),
    Row("XADD s 1-1 a b | XADD s 1-2 a b | XADD s 1-3 a b | XGROUP CREATE s g 0 | XREADGROUP GROUP g c COUNT 1 STREAMS s > | XDEL s 1-1 | XREADGROUP GROUP g c STREAMS s 0", "", Why::Nothing),
    Row("XADD s 1-1 a b | XADD s 1-2 a b | XADD s 1-3 a b | XGROUP CREATE s g 0 | XREADGROUP GROUP g c STREAMS s 0", "XGROUP CREATECONSUMER s g c", Why::Result),
    Row("XADD s 1-1 a b | XADD s 1-2 a b | XADD s 1-3 a b | XGROUP CREATE s g 0 | XREADGROUP GROUP g c NOACK STREAMS s 0", "XGROUP CREATECONSUMER s g c", Why::Result),
    Row("XGROUP CREATE s g $ MKSTREAM | XREADGROUP GROUP g c STREAMS s >", "XGROUP CREATECONSUMER s g c", Why::Result),
    Row("XGROUP CREATE s g $ MKSTREAM | XREADGROUP GROUP g c BLOCK 5 STREAMS s >", "XGROUP CREATECONSUMER s g c", Why::Result),
    Row("XGROUP CREATE s g $ MKSTREAM | XREADGROUP GROUP g c STREAMS s > | XREADGROUP GROUP g c STREAMS s >", "", Why::Nothing),
    Row("XADD s 1-1 a b | XADD s 1-2 a b | XADD s 1-3 a b | XGROUP CREATE s g 0 | XCLAIM s g c 0 1-1", "XGROUP CREATECONSUMER s g c", Why::Result),
    Row("XADD s 1-1 a b | XADD s 1-2 a b | XADD s 1-3 a b | XGROUP CREATE s g 0 | XCLAIM s g c 0 1-1 1-2 FORCE TIME 7 RETRYCOUNT 3", "MULTI; XCLAIM s g c 0 1-1 TIME 7 RETRYCOUNT 3 FORCE JUSTID LASTID 0-0; XCLAIM s g c 0 1-2 TIME 7 RETRYCOUNT 3 FORCE JUSTID LASTID 0-0; EXEC", Why::Result),
    Row("XADD s 1-1 a b | XADD s 1-2 a b | XADD s 1-3 a b | XGROUP CREATE s g 0 | XCLAIM s g c 0 1-1 FORCE TIME 7 | XDEL s 1-1 | XCLAIM s g d 0 1-1", "MULTI; XCLAIM s g c 0 1-1 TIME 7 RETRYCOUNT 2 FORCE JUSTID LASTID 0-0; XGROUP CREATECONSUMER s g d; EXEC", Why::Result),
    Row("XADD s 1-1 a b | XADD s 1-2 a b | XADD s 1-3 a b | XGROUP CREATE s g 0 | XCLAIM s g c 0 1-1 FORCE TIME 7 | XDEL s 1-1 | XAUTOCLAIM s g d 0 0", "MULTI; XCLAIM s g c 0 1-1 TIME 7 RETRYCOUNT 2 FORCE JUSTID LASTID 0-0; XGROUP CREATECONSUMER s g d; EXEC", Why::Result),
    Row("XADD s 1-1 a b | XADD s 1-2 a b | XADD s 1-3 a b | XGROUP CREATE s g 0 | XCLAIM s g c 0 1-1 FORCE RETRYCOUNT 9223372036854775807 TIME 7 | XCLAIM s g c 0 1-1 TIME 7", "XCLAIM s g c 0 1-1 TIME 7 RETRYCOUNT 9223372036854775807 FORCE JUSTID LASTID 0-0", Why::Result),
    Row("XADD s 1-1 a b | XADD s 1-2 a b | XADD s 1-3 a b | XGROUP CREATE s g 0 | XAUTOCLAIM s g d 0 0", "XGROUP CREATECONSUMER s g d", Why::Result),
    Row("XADD s 1-1 a b | XADD s 1-2 a b | XADD s 1-3 a b | XGROUP CREATE s g 0 | XREADGROUP GROUP g c STREAMS s > | XACK s g 1-1 9-9", "XACK s g 1-1 9-9", Why::Content),
    Row("XADD s 1-1 a b | XADD s NOMKSTREAM MAXLEN = 1 1-* a b", "XADD s NOMKSTREAM MAXLEN = 1 1-2 a b", Why::Drawn),
    Row("XADD s 1-1 a b | XADD s 1-2 a b | XADD s 1-3 a b | XGROUP CREATE s g 0 | XTRIM s MINID 1-2", "XTRIM s MINID 1-2", Why::Content),
    Row("XADD s 1-1 a b | XADD s 1-2 a b | XADD s 1-3 a b | XGROUP CREATE s g 0 | XSETID s 5-5 ENTRIESADDED 9 MAXDELETEDID 4-4", "XSETID s 5-5 ENTRIESADDED 9 MAXDELETEDID 4-4", Why::Content),
];

/// Executes a step of a row's script.
pub(crate) fn run_step(rig: &mut Rig, step: &str) {
    match step {
        "!exp" => rig.pass_ms(5),
        "!cycle" => {}
        "!wait" => {
            for _ in 0..5 {
                rig.pass_ms(100);
                rig.cron();
            }
        }
        step => match step.strip_prefix("!lazy").and_then(|words| words.split_once(' ')) {
            Some((name, value)) => {
                let name = match name {
                    "user" => "user-del",
                    "exp" => "expire",
                    _ => "server-del",
                };
                rig.check(&format!("CONFIG SET lazyfree-lazy-{name} {value}"), "+OK");
            }
            None => {
                rig.run(step);
            }
        },
    }
}

/// The text of a stream, with times near now written as `@n`, because they depend on the clock when the test
/// runs.
fn relative(fed: &str, now_ms: i64) -> String {
    let word = |word: &str| match word.parse::<i64>() {
        Ok(time) if word.len() == 13 && (time - now_ms).abs() < 10_000_000 => {
            format!("@{}", (time - now_ms + 500) / 1000 * 1000)
        }
        _ => word.to_owned(),
    };
    let command = |command: &str| command.split(' ').map(word).collect::<Vec<_>>().join(" ");
    fed.split("; ").filter(|text| *text != "ping").map(command).collect::<Vec<_>>().join("; ")
}

#[test]
fn every_write_is_fed_as_the_reference_feeds_it() {
    let mut wrong = Vec::new();
    for Row(script, wanted, _) in ROWS {
        let mut rig = Rig::new();
        let replica = rig.replica();
        rig.run("SET warm up");
        rig.run("FLUSHALL");
        let (before, last) = script.rsplit_once(" | ").unwrap_or(("", script));
        before.split(" | ").filter(|step| !step.is_empty()).for_each(|step| run_step(&mut rig, step));
        rig.fed(replica);
        let now_ms = rig.process.now.unix_ms();
        run_step(&mut rig, last);
        let fed = relative(&rig.fed(replica), now_ms);
        if fed != *wanted {
            wrong.push(format!("{script}\n    fed:    {fed}\n    wanted: {wanted}"));
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

/// A command split into words, as the stream's text shows them.
fn shown(line: &str) -> Vec<String> {
    let words = split_args(line.as_bytes(), Dialect::Config).expect("a row's words");
    let shown = |word: Vec<u8>| match word.is_empty() {
        true => "\"\"".to_owned(),
        // A word with spaces is several words in the stream's text.
        false => word.escape_ascii().to_string(),
    };
    words.into_iter().map(shown).collect::<Vec<_>>().join(" ").split(' ').map(str::to_owned).collect()
}

/// The commands of a row's stream, without MULTI and EXEC, each in words.
fn fed_commands(fed: &str) -> Vec<Vec<String>> {
    let bare = fed.strip_prefix("MULTI; ").and_then(|fed| fed.strip_suffix("; EXEC")).unwrap_or(fed);
    let commands = bare.split("; ").filter(|command| !command.is_empty());
    commands.map(|command| command.split(' ').map(str::to_owned).collect()).collect()
}

fn is_one_of(word: &str, words: &[&str]) -> bool {
    words.iter().any(|one| one.eq_ignore_ascii_case(word))
}

/// An objection to a row's reason, as far as a program can find one.
fn objection(Row(script, fed, why): &Row) -> Option<&'static str> {
    let written = shown(script.rsplit(" | ").next().unwrap_or(script));
    // A script's text, too, is split into words.
    let everything: Vec<&str> =
        script.split(|letter: char| !letter.is_ascii_graphic() || "'\"".contains(letter)).collect();
    let fed = fed_commands(fed);
    let Some((told, ahead)) = fed.split_last() else {
        return (*why != Why::Nothing).then_some("nothing is fed");
    };
    let is_deletion = |command: &Vec<String>| is_one_of(&command[0], &["UNLINK", "DEL", "HDEL"]);
    let is_known = |word: &String| everything.iter().any(|one| one.eq_ignore_ascii_case(word));
    let is_count = |word: &String| word.parse::<u64>().is_ok_and(|count| count < 100);
    let is_time = |word: &String| {
        let is_number = |text: &str| text.parse::<u64>().is_ok();
        word.strip_prefix('@').is_some_and(is_number) || is_number(word) && word.len() >= 4
    };
    // Arguments without the names of the commands.
    let arguments = || fed.iter().flat_map(|command| &command[1..]);
    let is_span = |word: &String| is_one_of(word, &["EX", "PX"]);
    let holds = |is_so: bool, otherwise: &'static str| (!is_so).then_some(otherwise);
    let is_as_written = *told == written;
    match why {
        Why::Nothing => Some("something is fed"),
        Why::Content => holds(is_as_written, "what is fed is not what was written").or(holds(
            ahead.iter().all(|command| is_deletion(command) || command[0] == "SELECT"),
            "more than deletions is fed ahead of what was written",
        )),
        _ if is_as_written && ahead.is_empty() && *why != Why::Expired => {
            Some("what is fed is what was written")
        }
        Why::Moment => holds(arguments().any(is_time), "no moment is fed").or(holds(
            !arguments().any(is_span)
                && !fed.iter().any(|fed| {
                    is_one_of(&fed[0], &["EXPIRE", "PEXPIRE", "SETEX", "PSETEX", "HEXPIRE", "HPEXPIRE"])
                }),
            "a span is fed",
        )),
        Why::Expired => holds(fed.iter().all(is_deletion), "more than deletions is fed")
            .or(holds(arguments().all(is_known), "a name is deleted that the row does not have")),
        Why::Drawn => {
            let is_open = |word: &String| word.ends_with('*');
            let draws = is_one_of(&written[0], &["SPOP"]) || written.iter().any(is_open);
            holds(draws, "nothing is drawn")
                .or(holds(!arguments().any(is_open), "the draw is left to the receiver"))
        }
        Why::Acted => {
            let names = |words: &[String]| {
                let names = match words.iter().position(|word| is_one_of(word, &["FIELDS"])) {
                    Some(at) => words.get(at + 2..),
                    None => words.get(2..),
                };
                names.unwrap_or_default().to_vec()
            };
            let (asked, acted) = (names(&written), names(told));
            holds(ahead.is_empty(), "more than one command is fed")
                .or(holds(
                    acted.iter().all(|name| asked.contains(name)),
                    "a name is fed that was not written",
                ))
                .or(holds(acted.len() < asked.len(), "no name is left out"))
        }
        Why::Plain => {
            let is_plain =
                |word: &String| is_known(word) || is_count(word) || is_one_of(word, &["DB", "REPLACE"]);
            holds(
                arguments().all(is_plain),
                "a word is fed that the row does not have: a result, or a moment",
            )
            .or(holds(written.len() >= told.len() || !ahead.is_empty(), "the plain form is the longer one"))
        }
        // The stream must have another command, or arguments that were not written.
        Why::Result => holds(
            !told[0].eq_ignore_ascii_case(&written[0])
                || told[1..].iter().any(|word| !written.contains(word)),
            "nothing in the feed is a result",
        ),
    }
}

/// The reasons are true as far as a program can check.
#[test]
fn a_row_says_why_it_is_fed_so() {
    let wrong: Vec<String> = ROWS
        .iter()
        .filter_map(|row| Some(format!("{:?}: {}: {}: {}", row.2, row.0, row.1, objection(row)?)))
        .collect();
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

/// Rows with a wrong reason, each with the objection to it.
#[test]
fn a_reason_that_is_not_so_is_noticed() {
    for (row, wanted) in [
        (Row("SET k v", "", Why::Content), "nothing is fed"),
        (Row("SET k v", "SET k v", Why::Nothing), "something is fed"),
        (Row("SET k v EX 100", "SET k v PXAT @100000", Why::Content), "what is fed is not what was written"),
        (Row("SET k \"a b\"", "SET k \"a c\"", Why::Content), "what is fed is not what was written"),
        (
            Row("SET k v", "MULTI; SET o v; SET k v; EXEC", Why::Content),
            "more than deletions is fed ahead of what was written",
        ),
        (Row("SET k v", "SET k v", Why::Plain), "what is fed is what was written"),
        (Row("RESTORE k 0 \"\\x00\"", "RESTORE k 0 \\x00", Why::Result), "what is fed is what was written"),
        (Row("GETSET k v", "SET k v", Why::Moment), "no moment is fed"),
        (Row("SETEX k 1000 v", "SET k v EX 1000", Why::Moment), "a span is fed"),
        (Row("EXPIRE k 1000", "PEXPIRE k 1000000", Why::Moment), "a span is fed"),
        (Row("GET k", "SET k v", Why::Expired), "more than deletions is fed"),
        (Row("GET k", "UNLINK o", Why::Expired), "a name is deleted that the row does not have"),
        (Row("GETDEL k", "DEL k", Why::Drawn), "nothing is drawn"),
        (Row("XADD s 1-* a b", "XADD s * a b", Why::Drawn), "the draw is left to the receiver"),
        (Row("HGETDEL h FIELDS 2 a b", "HDEL h c", Why::Acted), "a name is fed that was not written"),
        (Row("HGETDEL h FIELDS 2 a b", "HDEL h a b", Why::Acted), "no name is left out"),
        (
            Row("INCRBYFLOAT k 1.5", "SET k 1.5 KEEPTTL", Why::Plain),
            "a word is fed that the row does not have: a result, or a moment",
        ),
        (Row("SET k v GET", "SET k v", Why::Result), "nothing in the feed is a result"),
    ] {
        assert_eq!(objection(&row), Some(wanted), "{}: {}", row.0, row.1);
    }
}

#[test]
fn every_command_that_writes_has_a_row() {
    let named: Vec<String> = ROWS
        .iter()
        .map(|Row(script, ..)| script.rsplit(" | ").next().unwrap_or(script))
        .flat_map(|last| {
            let words: Vec<String> = last.split(' ').take(2).map(str::to_ascii_lowercase).collect();
            [words[0].clone(), words.join("|")]
        })
        .collect();
    for spec in &sluice_command::table::ALL {
        if spec.flags.has(sluice_command::Flags::WRITE) {
            assert!(named.iter().any(|name| name == spec.full_name), "a row for {}", spec.full_name);
        }
    }
}

#[test]
fn the_cycle_names_each_database_before_its_deletions() {
    let mut rig = Rig::new();
    rig.run("SET k v PX 1");
    rig.run("SELECT 3");
    rig.run("SET k v PX 1");
    rig.pass_ms(200);
    let replica = rig.replica();
    rig.cron();
    let fed = relative(&rig.fed(replica), 0);
    assert!(fed == "UNLINK k; SELECT 3; UNLINK k" || fed == "SELECT 3; UNLINK k; UNLINK k", "{fed}");
}

#[test]
fn regress_a_write_onto_a_key_that_import_mode_hides_is_fed_behind_its_deletion() {
    for (before, line) in [
        ("SET k 5", "INCR k"),
        ("RPUSH k x", "RPUSH k y"),
        ("SADD k a", "SADD k b"),
        ("HSET k a 1", "HINCRBY k a 1"),
        ("SET k 5", "APPEND k 5"),
        ("SET k 5", "RENAME other k"),
        ("SET k 5", "COPY other k REPLACE"),
    ] {
        let mut rig = Rig::with(&[("import-mode", "yes"), ("appendonly", "yes")]);
        rig.engine.begin_aof();
        let replica = rig.replica();
        let mut start = rig.run("SET other o");
        start.push_str(&rig.run(before));
        rig.run("PEXPIRE k 10");
        rig.pass_ms(50);
        rig.fed(replica);
        rig.appended();
        rig.run(line);
        assert_eq!(rig.fed(replica), format!("MULTI; UNLINK k; {line}; EXEC"), "{start}");
        assert_eq!(rig.appended(), format!("MULTI UNLINK k {line} EXEC"));
        assert!(rig.run("INFO stats").contains("expired_keys:1\\r"), "{line}");
        rig.check("TTL k", ":-1");
    }
}

#[test]
fn regress_a_write_onto_an_expired_key_of_a_writable_replica_is_appended_behind_its_deletion() {
    let mut rig = Rig::with(&[("replica-read-only", "no"), ("appendonly", "yes")]);
    rig.engine.begin_aof();
    rig.run("SET k 5 PX 10");
    rig.check("REPLICAOF 127.0.0.1 1", "+OK");
    rig.pass_ms(50);
    rig.appended();
    rig.check("INCR k", ":1");
    assert_eq!(rig.appended(), "MULTI UNLINK k INCR k EXEC");
}

/// Attaches a replica by `line`. Returns the lines before the snapshot, and the snapshot.
fn attach(rig: &mut Rig, client: sluice_base::SessionKey, line: &str) -> (Vec<String>, Vec<u8>) {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let sent = rig.argv(client, &words);
    let mut rest = &sent[..];
    let mut lines = Vec::new();
    loop {
        let end = rest.windows(2).position(|pair| pair == b"\r\n").expect("a line");
        let line = String::from_utf8_lossy(&rest[..end]).into_owned();
        rest = &rest[end + 2..];
        let length = line.strip_prefix('$').map(str::to_owned);
        lines.push(line);
        if let Some(length) = length {
            if let Some(mark) = length.strip_prefix("EOF:") {
                let file = rest.strip_suffix(mark.as_bytes()).expect("the mark ends it");
                return (lines, file.to_vec());
            }
            assert_eq!(length.parse(), Ok(rest.len()), "the length is the snapshot's");
            return (lines, rest.to_vec());
        }
    }
}

fn items(file: &[u8]) -> Vec<String> {
    let mut reader = Reader::of(file, ReadOptions::default());
    let mut items = Vec::new();
    while let Some(item) = reader.next_of_whole().expect("a good file") {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        items.push(match item {
            Item::Aux(name, value) => format!("{}={}", text(&name), text(&value)),
            Item::Db(number) => format!("db {number}"),
            Item::Sizes(keys, expires) => format!("sizes {keys} {expires}"),
            Item::LoadedEntry(LoadedEntry { key, value, expiry_ms, usage, .. }) => {
                let value = match value {
                    Loaded::Str(value) => text(&value),
                    Loaded::Pages(pages) => text(&pages.to_vec()),
                    Loaded::List(list) => {
                        let mut elements = Vec::new();
                        let mut iter = list.view().iter(0..usize::MAX);
                        while let Some(item) = iter.next() {
                            elements.push(text(item.bytes(&mut sluice_base::num::IntBuffer::new())));
                        }
                        format!("{elements:?}")
                    }
                    Loaded::Zset(zset) => {
                        let elements = zset.view().iter_all().map(|(member, score)| (text(member), score));
                        format!("{:?}", elements.collect::<Vec<_>>())
                    }
                    Loaded::Set(set) => format!("{:?}", set.view().len()),
                    Loaded::Hash(hash) => format!("{:?}", hash.view().len()),
                    Loaded::Stream(stream) => format!("{:?}", stream.log().len()),
                };
                format!("{} {value} {expiry_ms:?} {usage:?}", text(&key))
            }
            other => panic!("not expected: {other:?}"),
        });
    }
    items
}

#[test]
fn a_snapshot_has_lists() {
    let mut rig = Rig::new();
    rig.run("RPUSH k a 7");
    rig.run("PEXPIREAT k 33177117420123");
    let replica = rig.connect();
    let (_, file) = attach(&mut rig, replica, "SYNC");
    assert_eq!(items(&file).pop(), Some("k [\"a\", \"7\"] Some(33177117420123) Absent".to_owned()));
}

#[test]
fn sync_sends_a_snapshot_and_then_the_stream() {
    let mut rig = Rig::new();
    rig.run("SET a 1");
    rig.run("SELECT 2");
    rig.run("SET b v PXAT 33177117420123");
    let replica = rig.connect();
    let (lines, file) = attach(&mut rig, replica, "SYNC");
    assert_eq!(lines.len(), 1);
    let items = items(&file);
    let names: Vec<&str> = items.iter().map(|item| item.split('=').next().unwrap_or(item)).collect();
    assert_eq!(
        names[..8],
        [
            "valkey-ver",
            "redis-bits",
            "ctime",
            "used-mem",
            "repl-stream-db",
            "repl-id",
            "repl-offset",
            "aof-base"
        ]
    );
    assert_eq!(
        names[8..],
        ["db 0", "sizes 1 0", "a 1 None Absent", "db 2", "sizes 1 1", "b v Some(33177117420123) Absent"]
    );
    rig.run("SET c 3");
    rig.run("SELECT 0");
    rig.run("INCR a");
    assert_eq!(rig.fed(replica), "SELECT 2; SET c 3; INCR a");
    assert_eq!(rig.run("PING"), "+PONG");
    assert_eq!(rig.fed(replica), "");
}

#[test]
fn psync_names_the_history_and_the_offset() {
    let mut rig = Rig::new();
    let first = rig.connect();
    let (lines, _) = attach(&mut rig, first, "PSYNC ? -1");
    let replid =
        rig.run("INFO replication").split("master_replid:").nth(1).map(|rest| rest[..40].to_owned()).unwrap();
    assert_eq!(lines[0], format!("+FULLRESYNC {replid} 0"));
    rig.run("SET a 1");
    let offset = rig.output(first).len();
    let second = rig.connect();
    let (lines, file) = attach(&mut rig, second, "PSYNC xxxx 12");
    assert_eq!(lines[0], format!("+FULLRESYNC {replid} {offset}"));
    assert!(items(&file).contains(&format!("repl-offset={offset}")));
    let third = rig.connect();
    assert_eq!(rig.run_as(third, "PSYNC ? x"), "-ERR value is not an integer or out of range");
    assert_eq!(rig.run_as(third, "PSYNC a"), "-ERR wrong number of arguments for 'psync' command");
    assert_eq!(rig.run_as(third, "SYNC x"), "-ERR wrong number of arguments for 'sync' command");
}

#[test]
fn a_second_request_for_the_data_is_not_answered() {
    let mut rig = Rig::new();
    let replica = rig.connect();
    attach(&mut rig, replica, "SYNC");
    for line in ["SYNC", "PSYNC ? -1", "REPLCONF ACK 12", "REPLCONF GETACK *"] {
        assert_eq!(rig.run_as(replica, line), "", "{line}");
        assert!(!rig.is_closing(replica), "{line}");
    }
}

#[test]
fn a_replica_that_would_get_a_reply_is_sent_none_and_closed() {
    for line in [
        "PING",
        "GET k",
        "SET k v",
        "REPLCONF listening-port 12",
        "CLIENT ID",
        "SELECT 1",
        "NOSUCH",
        "GET",
        "RESET",
    ] {
        let mut rig = Rig::new();
        let replica = rig.connect();
        attach(&mut rig, replica, "SYNC");
        assert_eq!(rig.run_as(replica, line), "", "{line}");
        assert!(rig.is_closing(replica), "{line}");
        assert!(
            rig.process
                .log
                .iter()
                .any(|(_, text)| text.starts_with("Replica generated a reply to command '"))
        );
    }
}

#[test]
fn the_snapshot_follows_the_configuration() {
    for (policy, usage) in [
        ("allkeys-lru", "Idle(3)"),
        ("volatile-lru", "Idle(3)"),
        ("allkeys-lfu", "Frequency(5)"),
        ("volatile-lfu", "Frequency(5)"),
        ("volatile-ttl", "Absent"),
        ("noeviction", "Absent"),
    ] {
        let mut rig =
            Rig::with(&[("maxmemory-policy", policy), ("rdbcompression", "no"), ("rdbchecksum", "no")]);
        rig.run("SET key aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
        rig.pass_ms(3000);
        let replica = rig.connect();
        let (_, file) = attach(&mut rig, replica, "SYNC");
        assert!(items(&file).last().unwrap().ends_with(usage), "{policy}");
        assert!(file.ends_with(&[0; 8]), "no checksum");
        assert!(file.windows(46).any(|window| window == [b'a'; 46]), "no compression");
    }
}

#[test]
fn replicas_of_old_get_an_old_file() {
    for (said, magic) in [
        ("", b"VALKEY080"),
        ("capa eof capa psync2", b"REDIS0011"),
        ("capa eof version 8.1.0", b"REDIS0011"),
        ("capa eof version 9.1.2", b"VALKEY080"),
    ] {
        let mut rig = Rig::new();
        let replica = rig.connect();
        assert_eq!(rig.run_as(replica, &format!("REPLCONF {said}")), "+OK");
        let (_, file) = attach(&mut rig, replica, "SYNC");
        assert!(file.starts_with(magic), "{said}");
    }
}

#[test]
fn replicas_get_what_they_read_compressed_as_repl_compression_allows() {
    let both = "capa eof capa lz4 capa zstd version 9.1.2";
    for (setting, said, codec) in [
        ("no", both, None),
        ("yes", both, Some(1)),
        ("lz4", both, Some(1)),
        ("zstd", both, Some(2)),
        ("zstd", "capa eof capa lz4 version 9.2.0", Some(1)),
        ("zstd", "capa eof version 9.1.2", None),
        // This replica needs the length of the snapshot in advance.
        ("zstd", "capa lz4 capa zstd version 9.1.2", None),
    ] {
        // The compression of files does not matter.
        for kept in ["yes", "zstd"] {
            let mut rig = Rig::with(&[("repl-compression", setting), ("rdbcompression", kept)]);
            rig.run(&format!("SET key {}", "a".repeat(1000)));
            let replica = rig.connect();
            assert_eq!(rig.run_as(replica, &format!("REPLCONF {said}")), "+OK");
            let (_, file) = attach(&mut rig, replica, "SYNC");
            let wanted = codec.map(|codec| vec![b'V', b'C', b'S', 1, codec, 0, 1]);
            assert!(file.starts_with(&wanted.unwrap_or(b"VALKEY080".to_vec())), "{setting}: {said}");
            let last = items(&file).pop().unwrap();
            assert!(last.contains(&"a".repeat(1000)), "{last}");
            rig.run("SET later 1");
            rig.argv_unread(replica, &[b"REPLCONF", b"ACK", b"0"]);
            assert!(rig.fed(replica).ends_with("SET later 1"), "the stream is plain");
        }
    }
}

#[test]
fn replconf_rdb_only_ends_after_the_snapshot() {
    let mut rig = Rig::new();
    let replica = rig.connect();
    assert_eq!(rig.run_as(replica, "REPLCONF rdb-only 1"), "+OK");
    let (_, file) = attach(&mut rig, replica, "SYNC");
    assert!(file.starts_with(b"VALKEY080"));
    assert!(rig.is_closing(replica));
    rig.run("SET a 1");
    assert_eq!(rig.output(replica), b"");
}

#[test]
fn replconf_rdb_filter_only_leaves_the_keys_out() {
    let mut rig = Rig::new();
    rig.run("SET a 1");
    let replica = rig.connect();
    assert_eq!(rig.run_as(replica, "REPLCONF rdb-filter-only functions"), "+OK");
    assert_eq!(rig.run_as(replica, "SYNC"), "-ERR Filtered replica requires EOF capability");
    assert_eq!(rig.run_as(replica, "REPLCONF capa eof"), "+OK");
    let (lines, file) = attach(&mut rig, replica, "SYNC");
    assert!(lines[0].starts_with("$EOF:"));
    assert!(!items(&file).iter().any(|item| item.starts_with("db ")));
    rig.run("SET b 2");
    assert_eq!(rig.fed(replica), "", "the stream waits for its word");
    rig.argv_unread(replica, &[b"REPLCONF", b"ACK", b"0"]);
    rig.run("SET c 3");
    assert_eq!(rig.fed(replica), "SET b 2; SET c 3");
}

#[test]
fn replconf_options_and_errors() {
    let long = "a".repeat(347);
    let long_line = format!("REPLCONF ip-address {long}");
    sluice_testkit::check(&[
        ("REPLCONF", "+OK"),
        ("REPLCONF a", "-ERR syntax error"),
        ("REPLCONF foo bar", "-ERR Unrecognized REPLCONF option: foo"),
        ("REPLCONF listening-port abc", "-ERR value is not an integer or out of range"),
        ("REPLCONF LISTENING-PORT 99999999999", "+OK"),
        ("REPLCONF listening-port 1 foo bar", "-ERR Unrecognized REPLCONF option: foo"),
        ("REPLCONF capa foo capa eof", "+OK"),
        ("REPLCONF ip-address 1.2.3.4", "+OK"),
        ("REPLCONF ip-address ::1%eth0", "+OK"),
        ("REPLCONF ip-address \"\"", "+OK"),
        (
            "REPLCONF ip-address a,port=1",
            "-ERR REPLCONF ip-address provided by replica instance is no address",
        ),
        (
            "REPLCONF ip-address \"a\\r\\nrole:x\"",
            "-ERR REPLCONF ip-address provided by replica instance is no address",
        ),
        (&long_line, "-ERR REPLCONF ip-address provided by replica instance is too long: 347 bytes"),
        ("REPLCONF version 9.1.2", "+OK"),
        ("REPLCONF version 255.255.255", "+OK"),
        ("REPLCONF version 256.0.0", "-ERR Unrecognized version format: 256.0.0"),
        ("REPLCONF version 9.1", "-ERR Unrecognized version format: 9.1"),
        ("REPLCONF version 9.1.2.3", "-ERR Unrecognized version format: 9.1.2.3"),
        ("REPLCONF version 9.-1.2", "-ERR Unrecognized version format: 9.-1.2"),
        ("REPLCONF rdb-only x", "-ERR value is not an integer or out of range"),
        ("REPLCONF rdb-only 2", "-ERR value is out of range, value must between 0 and 1"),
        ("REPLCONF rdb-only 1 rdb-only 0", "+OK"),
        ("REPLCONF rdb-filter-only \"functions functions\"", "+OK"),
        ("REPLCONF rdb-filter-only \"functions foo\"", "-ERR Unsupported rdb-filter-only option: foo"),
        ("REPLCONF rdb-filter-only 'a\"'", "-ERR Missing rdb-filter-only values"),
        ("REPLCONF rdb-channel 0", "+OK"),
        ("REPLCONF rdb-channel x", "-ERR value is not an integer or out of range"),
        ("REPLCONF set-rdb-client-id 12", "-ERR Unrecognized RDB client id 12"),
        ("REPLCONF set-rdb-client-id x", "-ERR value is not an integer or out of range"),
        ("REPLCONF set-cluster-node-id x", "-ERR This instance has cluster support disabled"),
        ("REPLCONF ack 12", ""),
        ("REPLCONF ack abc", ""),
        ("REPLCONF ack 1 fack 12", ""),
        ("REPLCONF getack *", ""),
        ("REPLCONF ack 1 foo", "-ERR syntax error"),
    ]);
}

#[test]
fn info_and_role_show_the_replica() {
    let mut rig = Rig::new();
    let replica = rig.connect();
    assert_eq!(rig.run_as(replica, "REPLCONF listening-port 7777 ip-address 10.0.0.9"), "+OK");
    assert_eq!(rig.run("ROLE"), "[\"master\", :0, []]");
    attach(&mut rig, replica, "PSYNC ? -1");
    rig.run("SET a 1");
    let offset = rig.output(replica).len();
    assert_eq!(rig.run("ROLE"), format!("[\"master\", :{offset}, [[\"10.0.0.9\", \"7777\", \"0\"]]]"));
    rig.pass_ms(2000);
    let info = rig.run("INFO replication");
    assert!(info.contains("connected_slaves:1"));
    assert!(info.contains("slave0:ip=10.0.0.9,port=7777,state=online,offset=0,lag=2,type=replica"), "{info}");
    assert!(info.contains(&format!("master_repl_offset:{offset}")));
    rig.run_as(replica, "REPLCONF ACK 20");
    rig.run_as(replica, "REPLCONF ACK 10");
    let info = rig.run("INFO replication");
    assert!(info.contains("state=online,offset=20,lag=0,type=replica"), "{info}");
    let list = rig.run("CLIENT LIST TYPE replica");
    assert!(list.contains("flags=S") && list.contains("cmd=replconf"), "{list}");
    rig.engine.disconnect(replica, &mut rig.process);
    assert!(rig.run("INFO replication").contains("connected_slaves:0"));
}

#[test]
fn replicas_are_pinged() {
    let mut rig = Rig::with(&[("repl-ping-replica-period", "5")]);
    rig.cron();
    let replica = rig.connect();
    attach(&mut rig, replica, "SYNC");
    let mut pings = 0;
    for _ in 0..20 {
        rig.pass_ms(1000);
        rig.cron();
        let sent = rig.output(replica);
        assert!(sent.is_empty() || sent == b"*1\r\n$4\r\nping\r\n");
        pings += sent.len() / 14;
    }
    assert!((4..=5).contains(&pings), "{pings}");
}

/// In a cluster a replica at offset 0 counts as one without data. So the reference sends a PING within a
/// second if the stream is at offset 0, whatever the period is, and at no other offset.
#[test]
fn a_stream_at_its_beginning_is_pinged_at_once() {
    let mut rig = Rig::with(&[("repl-ping-replica-period", "3600")]);
    rig.cron();
    let replica = rig.connect();
    attach(&mut rig, replica, "SYNC");
    for wanted in [&b"*1\r\n$4\r\nping\r\n"[..], b"", b""] {
        rig.pass_ms(1000);
        rig.cron();
        assert_eq!(rig.output(replica), wanted);
    }
    assert!(rig.run("INFO replication").contains("master_repl_offset:14"));
}

#[test]
fn pending_output_forbids_a_synchronisation() {
    let mut rig = Rig::new();
    let client = rig.connect();
    let replies = rig.bytes(client, b"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nSYNC\r\n");
    assert_eq!(render(&replies), "+PONG\n-ERR SYNC and PSYNC are invalid with pending output");
}

#[test]
fn a_wall_clock_that_was_set_back_does_not_keep_pings_from_replicas() {
    let mut rig = Rig::with(&[("repl-ping-replica-period", "5")]);
    rig.cron();
    let replica = rig.connect();
    attach(&mut rig, replica, "SYNC");
    for _ in 0..10 {
        rig.pass_ms(1000);
        rig.cron();
    }
    rig.output(replica);
    rig.process.now.unix_us -= 3_600_000_000;
    let mut sent = 0;
    for _ in 0..20 {
        rig.pass_ms(1000);
        rig.cron();
        sent += rig.output(replica).len();
    }
    assert!(sent > 0);
}

/// A server with a snapshot of some megabytes, which no replica takes in one piece.
fn rig_with_data() -> Rig {
    let mut rig = Rig::with(&[("rdbcompression", "no"), ("repl-timeout", "10")]);
    assert_eq!(rig.run("DEBUG POPULATE 8000 key 2000"), "+OK");
    rig
}

/// Number of bytes that the server has queued for a client and not sent.
fn owed(rig: &Rig, client: sluice_base::SessionKey) -> usize {
    rig.engine.session(client).map_or(0, sluice_session::Session::output_bytes)
}

#[test]
fn replicas_that_ask_together_share_a_snapshot_and_later_ones_wait() {
    let mut rig = rig_with_data();
    let (a, b, c) = (rig.connect(), rig.connect(), rig.connect());
    for replica in [a, b] {
        rig.argv_unread(replica, &[b"SYNC"]);
    }
    rig.end_iteration();
    rig.argv_unread(c, &[b"SYNC"]);
    rig.end_iteration();
    // Pieces are queued some megabytes ahead, and both replicas share the bytes.
    for replica in [a, b] {
        assert!((1 << 20..6 << 20).contains(&owed(&rig, replica)), "{}", owed(&rig, replica));
    }
    assert_eq!(owed(&rig, c), 0, "one snapshot at a time");
    assert!(rig.run("INFO stats").contains("sync_full:2\\r\\n"));
    rig.run("SET late 1");
    let read = |rig: &mut Rig, replica| {
        let mut bytes = Vec::new();
        loop {
            let piece = rig.output(replica);
            if piece.is_empty() {
                return bytes;
            }
            bytes.extend_from_slice(&piece);
        }
    };
    let (first, second) = (read(&mut rig, a), read(&mut rig, b));
    assert!(first.len() > 15 << 20 && first == second);
    assert!(first.ends_with(b"SET\r\n$4\r\nlate\r\n$1\r\n1\r\n"), "the stream follows the snapshot");
    let third = read(&mut rig, c);
    assert!(third.len() > 15 << 20 && third.windows(4).any(|four| four == b"late"));
}

#[test]
fn a_replica_that_takes_nothing_of_its_snapshot_is_closed_after_repl_timeout() {
    let mut rig = rig_with_data();
    let (idle, slow, waiting) = (rig.connect(), rig.connect(), rig.connect());
    for replica in [idle, slow] {
        rig.argv_unread(replica, &[b"SYNC"]);
    }
    rig.end_iteration();
    rig.argv_unread(waiting, &[b"SYNC"]);
    for _ in 0..12 {
        rig.pass_ms(1000);
        rig.cron();
        rig.output(slow);
        assert!(!rig.is_closing(waiting));
    }
    assert!(rig.is_closing(idle));
    assert!(!rig.is_closing(slow));
    assert!(
        rig.process
            .log
            .iter()
            .any(|(_, line)| line.starts_with("Disconnecting timedout replica (full sync)"))
    );
    rig.engine.disconnect(idle, &mut rig.process);
    let newlines = rig.output(waiting);
    assert!(newlines.starts_with(b"\n\n\n"), "it is told that it is not forgotten");
    while !rig.output(slow).is_empty() {}
    rig.end_iteration();
    assert!(owed(&rig, waiting) > 1 << 20);
}

#[test]
fn a_replica_that_stops_acknowledging_is_closed_after_repl_timeout() {
    let mut rig = Rig::with(&[("repl-timeout", "10")]);
    let (by_psync, by_sync) = (rig.connect(), rig.connect());
    attach(&mut rig, by_psync, "PSYNC ? -1");
    attach(&mut rig, by_sync, "SYNC");
    for second in 0..25 {
        rig.pass_ms(1000);
        rig.cron();
        if second < 8 {
            rig.run_as(by_psync, "REPLCONF ACK 0");
        }
        assert_eq!(rig.is_closing(by_psync), second >= 18, "{second}");
        rig.output(by_sync);
    }
    assert!(!rig.is_closing(by_sync), "one that never acknowledges is not expected to");
}

/// A rig with a replica that reads up to a mark and waits for a snapshot whose thread does not run.
fn stalled_sync() -> (Rig, sluice_base::SessionKey) {
    let mut rig = Rig::with(&[("repl-timeout", "10")]);
    rig.run("DEBUG POPULATE 2000 key 100");
    rig.process.background_room.set(0);
    let replica = rig.connect();
    assert_eq!(rig.run_as(replica, "REPLCONF capa eof version 9.1.2"), "+OK");
    rig.argv_unread(replica, &[b"SYNC"]);
    rig.end_iteration();
    assert!(rig.engine.has_job());
    (rig, replica)
}

/// Reads the output of a client until there is no more.
fn read_all(rig: &mut Rig, client: sluice_base::SessionKey) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let piece = rig.output(client);
        if piece.is_empty() {
            return bytes;
        }
        bytes.extend_from_slice(&piece);
    }
}

/// The snapshot in these bytes, without its header and the mark at its end.
fn up_to_mark(bytes: &[u8]) -> &[u8] {
    let (header, rest) = bytes.split_at(b"$EOF:".len() + 42);
    let mark = header.strip_prefix(b"$EOF:").and_then(|rest| rest.strip_suffix(b"\r\n")).expect("a header");
    rest.strip_suffix(mark).expect("the mark ends it")
}

#[test]
fn a_full_sync_sends_one_moment_while_commands_change_everything() {
    let (mut rig, replica) = stalled_sync();
    rig.run("SET key:7 changed");
    rig.run("DEL key:8");
    rig.run("RENAME key:9 key:10");
    rig.run("FLUSHDB");
    rig.run("SET late 1");
    assert_eq!(rig.run("INFO persistence").matches("rdb_bgsave_in_progress:1").count(), 1);
    // This ACK is too early to be an acknowledgement of the snapshot.
    rig.argv_unread(replica, &[b"REPLCONF", b"ACK", b"0"]);
    rig.process.background_room.set(usize::MAX);
    let bytes = read_all(&mut rig, replica);
    let items = items(up_to_mark(&bytes));
    assert_eq!(items.iter().filter(|item| item.starts_with("key:")).count(), 2000);
    for key in ["key:7", "key:8", "key:9", "key:10"] {
        let value = format!("{key} value:{}", &key[4..]);
        assert!(items.iter().any(|item| item.starts_with(&value)), "{key}");
    }
    assert!(!rig.engine.has_job());
    assert_eq!(rig.fed(replica), "", "the stream waits for the replica's word");
    rig.argv_unread(replica, &[b"REPLCONF", b"ACK", b"0"]);
    rig.run("SET later 1");
    let stream = rig.fed(replica);
    assert!(stream.starts_with("SET key:7 changed; DEL key:8; RENAME key:9 key:10; FLUSHDB"), "{stream}");
    assert!(stream.ends_with("SET late 1; SET later 1"), "{stream}");
}

#[test]
fn a_snapshot_for_replicas_excludes_others_and_can_be_cancelled() {
    let (mut rig, replica) = stalled_sync();
    rig.check("BGSAVE", "-ERR Background save already in progress");
    rig.check("SAVE", "-ERR Background save already in progress");
    rig.check("BGREWRITEAOF", "+Background append only file rewriting scheduled");
    let later = rig.connect();
    rig.argv_unread(later, &[b"SYNC"]);
    rig.end_iteration();
    assert_eq!(owed(&rig, later), 0, "one cut at a time");
    rig.check("BGSAVE CANCEL", "+Background saving cancelled");
    assert!(!rig.engine.has_job());
    rig.end_iteration();
    assert!(rig.is_closing(replica), "it has to ask again");
    rig.process.background_room.set(usize::MAX);
    rig.engine.disconnect(replica, &mut rig.process);
    assert!(read_all(&mut rig, later).starts_with(b"$"));
    assert!(rig.process.log.iter().any(|(_, line)| line == "Background full synchronization was stopped"));
}

#[test]
fn the_log_is_told_once_what_slows_a_snapshot_down() {
    let (mut rig, _) = stalled_sync();
    *rig.process.background_warning.borrow_mut() = Some("the disk is full".to_owned());
    rig.end_iteration();
    rig.end_iteration();
    let told = rig.process.log.iter().filter(|(_, line)| line == "the disk is full");
    assert_eq!(told.count(), 1);
}

#[test]
fn a_replica_that_wants_the_length_is_closed_where_the_snapshot_has_no_room() {
    let mut rig = rig_with_data();
    rig.process.background_room.set(0);
    let (by_mark, by_length) = (rig.connect(), rig.connect());
    assert_eq!(rig.run_as(by_mark, "REPLCONF capa eof version 9.1.2"), "+OK");
    for replica in [by_mark, by_length] {
        rig.argv_unread(replica, &[b"SYNC"]);
    }
    rig.end_iteration();
    assert!(rig.engine.has_job() && !rig.is_closing(by_length), "there may be room");
    *rig.process.replicas_lack_room.borrow_mut() = Some("the disk is full".to_owned());
    rig.end_iteration();
    assert!(rig.is_closing(by_length) && !rig.is_closing(by_mark));
    rig.end_iteration();
    let told =
        rig.process.log.iter().filter(|(_, line)| line.ends_with("to a scratch file: the disk is full"));
    assert_eq!(told.count(), 1);
    rig.engine.disconnect(by_length, &mut rig.process);
    rig.process.background_room.set(usize::MAX);
    assert!(read_all(&mut rig, by_mark).starts_with(b"$EOF:"), "the other one has its snapshot");
    assert!(!rig.engine.has_job());
}

#[test]
fn a_snapshot_that_no_replica_waits_for_any_more_is_broken_off() {
    let (mut rig, replica) = stalled_sync();
    rig.engine.disconnect(replica, &mut rig.process);
    assert!(!rig.engine.has_job());
    rig.check("BGSAVE", "+Background saving started");
}

#[test]
fn a_replica_that_asks_during_a_save_waits_for_its_end() {
    let mut rig = rig_with_data();
    rig.process.background_room.set(0);
    rig.run("BGSAVE");
    let (replica, filtered) = (rig.connect(), rig.connect());
    rig.run_as(filtered, "REPLCONF capa eof rdb-filter-only functions");
    for client in [replica, filtered] {
        rig.argv_unread(client, &[b"SYNC"]);
    }
    rig.end_iteration();
    assert!(rig.output(filtered).starts_with(b"$EOF:"), "one that wants no keys waits for nothing");
    rig.pass_ms(1000);
    rig.cron();
    assert_eq!(rig.output(replica), b"\n");
    rig.process.background_room.set(usize::MAX);
    while rig.engine.has_job() {
        rig.engine.save_slice(1_000_000, &mut rig.process);
    }
    let sent = read_all(&mut rig, replica);
    let header = sent.split(|byte| *byte == b'\n').next().expect("a line");
    assert!(header.starts_with(b"$") && sent.len() > 15 << 20);
}

#[test]
fn one_that_wants_to_know_the_length_waits_until_the_snapshot_is_whole() {
    let mut rig = Rig::with(&[("repl-timeout", "10")]);
    rig.run("DEBUG POPULATE 2000 key 100");
    rig.process.background_room.set(0);
    let (by_mark, by_length) = (rig.connect(), rig.connect());
    rig.run_as(by_mark, "REPLCONF capa eof version 8.1.0");
    for client in [by_mark, by_length] {
        rig.argv_unread(client, &[b"PSYNC", b"?", b"-1"]);
    }
    rig.end_iteration();
    let greeting = rig.output(by_length);
    assert!(greeting.starts_with(b"+FULLRESYNC ") && greeting.ends_with(b" 0\r\n"), "{greeting:?}");
    assert!(rig.run("INFO replication").contains("state=wait_bgsave"));
    let begun = rig.output(by_mark);
    assert!(begun.starts_with(b"+FULLRESYNC ") && begun.windows(5).any(|five| five == b"$EOF:"));
    // Replicas do not count as late while there is nothing for them to read.
    for _ in 0..15 {
        rig.pass_ms(1000);
        rig.cron();
        assert_eq!(rig.output(by_length), b"\n");
        assert_eq!(rig.output(by_mark), b"");
    }
    assert!(!rig.is_closing(by_mark) && !rig.is_closing(by_length));
    rig.process.background_room.set(usize::MAX);
    let (first, second) = (read_all(&mut rig, by_mark), read_all(&mut rig, by_length));
    let end = second.windows(2).position(|two| two == b"\r\n").expect("a header") + 2;
    let header = String::from_utf8_lossy(&second[..end]).into_owned();
    let len: usize = header.trim_end().strip_prefix('$').and_then(|len| len.parse().ok()).expect("a length");
    assert_eq!(first[..first.len() - 40], second[end..end + len], "they share it");
    assert!(second[end + len..].starts_with(b"*1\r\n$4\r\nping\r\n"), "the stream follows at once");
    assert!(first.starts_with(b"REDIS0011"), "the oldest of them can read it");
}

/// As in the reference, the success is logged once for each replica, when the replica has received
/// everything, as far as that can be known.
#[test]
fn the_log_says_once_that_a_synchronization_succeeded() {
    let name = "127.0.0.1:<unknown-replica-port>";
    let streamed = format!(
        "Streamed RDB transfer with replica {name} succeeded (socket). Waiting for REPLCONF ACK from replica to enable streaming"
    );
    let succeeded = format!("Synchronization with replica {name} succeeded");
    let alone = format!("RDB transfer completed, rdb only replica ({name}) should be disconnected asap");
    for (announced, diskless, at_the_end, behind_the_acknowledgement) in [
        ("capa eof", "yes", vec![&streamed], vec![&streamed, &succeeded]),
        ("capa eof", "no", vec![&succeeded], vec![&succeeded]),
        ("capa psync2", "yes", vec![&succeeded], vec![&succeeded]),
        ("rdb-only 1", "no", vec![&alone], vec![&alone]),
    ] {
        let mut rig = Rig::with(&[("repl-diskless-sync", diskless)]);
        rig.run("SET a 1");
        let replica = rig.connect();
        rig.check_as(replica, &format!("REPLCONF {announced}"), "+OK");
        rig.argv_unread(replica, &[b"PSYNC", b"?", b"-1"]);
        read_all(&mut rig, replica);
        let said = |rig: &Rig| {
            let lines = rig.process.log.iter().map(|(_, line)| line);
            let ends = |line: &&String| [&streamed, &succeeded, &alone].contains(line);
            lines.filter(ends).cloned().collect::<Vec<_>>()
        };
        assert!(said(&rig).iter().eq(at_the_end), "{announced} {diskless}: {:?}", said(&rig));
        if !rig.is_closing(replica) {
            rig.argv_unread(replica, &[b"REPLCONF", b"ACK", b"0"]);
            rig.end_iteration();
        }
        assert!(said(&rig).iter().eq(behind_the_acknowledgement), "{announced} {diskless}: {:?}", said(&rig));
    }
}

#[test]
fn replicas_are_told_that_no_snapshot_can_be_begun() {
    let mut rig = Rig::new();
    rig.process.refuse_snapshots = Some("No thread".to_owned());
    let replica = rig.connect();
    let sent = rig.argv(replica, &[b"SYNC"]);
    assert_eq!(render(&sent), "-BGSAVE failed, replication can't continue");
    assert!(rig.is_closing(replica));
    assert!(!rig.engine.has_job());
}
