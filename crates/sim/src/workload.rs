//! The commands of clients: writes of many kinds, and some reads, on a few keys.

use sluice_base::Rng;

/// A command: its name and its arguments.
pub type Words = Vec<Vec<u8>>;

fn words(parts: &[&str]) -> Words {
    parts.iter().map(|part| part.as_bytes().to_vec()).collect()
}

/// The state of a client's session, as far as the simulation knows it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SessionState {
    /// Whether the session may be within a transaction.
    in_transaction: bool,
    /// Whether the session has certainly selected a database other than 0.
    is_beside: bool,
}

/// Draws the next command of a client. Database 0 is never emptied, because it holds the promised writes.
pub fn command(rng: &mut Rng, session: &mut SessionState, step: u64) -> Words {
    let key = |rng: &mut Rng, kind: &str| format!("{kind}{}", rng.below(4));
    let number = rng.below(100).to_string();
    let ms = (20 + rng.below(1500)).to_string();
    let text = format!("v{step}");
    let kind = ["s", "n", "l", "h", "t", "z"][rng.below(6) as usize];
    let choice = rng.below(30);
    match choice {
        0 | 1 => {
            let db = rng.below(4);
            session.is_beside = db != 0 && !session.in_transaction;
            words(&["SELECT", &db.to_string()])
        }
        2 => words(&["SET", &key(rng, "s"), &text]),
        3 => words(&["SET", &key(rng, "s"), &number, "PX", &ms]),
        4 => words(&["APPEND", &key(rng, "s"), "x"]),
        5 | 6 => words(&["INCR", &key(rng, "n")]),
        7 => words(&["INCRBYFLOAT", &key(rng, "n"), "1.5"]),
        8 => words(&["PEXPIRE", &key(rng, kind), &ms]),
        9 => words(&["DEL", &key(rng, kind)]),
        10 => words(&["RPUSH", &key(rng, "l"), &text]),
        11 => words(&["LPOP", &key(rng, "l")]),
        12 => words(&["LMOVE", &key(rng, "l"), &key(rng, "l"), "LEFT", "RIGHT"]),
        13 => words(&["HSET", &key(rng, "h"), &number, &text]),
        14 => words(&["HDEL", &key(rng, "h"), &number]),
        15 => words(&["SADD", &key(rng, "t"), &number, &text]),
        16 => words(&["SPOP", &key(rng, "t")]),
        17 => words(&["ZADD", &key(rng, "z"), &number, &text]),
        18 => words(&["ZPOPMIN", &key(rng, "z")]),
        19 => words(&["RENAME", &key(rng, "s"), &key(rng, "s")]),
        20 => words(&["GETEX", &key(rng, "s"), "PX", &ms]),
        21 => {
            session.in_transaction = true;
            words(&["MULTI"])
        }
        22 | 23 => {
            session.in_transaction = false;
            words(&["EXEC"])
        }
        // This command makes the transaction take several event loop iterations.
        28 | 29 if session.in_transaction => words(&["DEBUG", "STAND-STILL", &rng.below(80).to_string()]),
        24 if session.is_beside => words(&["FLUSHDB"]),
        25 => words(&["COPY", &key(rng, "l"), &key(rng, "l"), "DB", &rng.below(4).to_string()]),
        26 => words(&["SET", &key(rng, "s"), &"y".repeat(rng.below(1500) as usize)]),
        27 => words(&["PSETEX", &key(rng, "n"), &ms, &number]),
        _ => words(&["GET", &key(rng, "s")]),
    }
}
