//! Patterns whose match costs the product of two lengths that clients choose, in each command
//! that matches patterns.

use std::path::Path;
use std::time::Duration;

use crate::wire::Connection;
use crate::{Result, shell};

use super::program::Program;
use super::scene::{Measured, Scene, nothing, play};

/// Maximum memory that the server may take in addition, MiB.
const MEMORY_MAX_MIB: u64 = 100;
/// Lengths of the texts in bytes; the patterns are about as long or half as long.
const SIZES: [usize; 2] = [16 << 10, 60_000];
/// Time for which a command is tried with one pattern after another.
const TRIED_FOR: Duration = Duration::from_millis(1500);

/// Patterns of about `bytes` bytes or half of that; they do not match a text of `bytes` letters `a`, which
/// a matcher finds out late.
fn patterns(bytes: usize) -> Vec<Vec<u8>> {
    let of = |head: &str, part: &str, tail: &str| {
        [head, &part.repeat((bytes - head.len() - tail.len()) / part.len()), tail].concat().into_bytes()
    };
    let half = |head: &str, part: &str, tail: &str| {
        [head, &part.repeat(bytes / 2 / part.len()), tail].concat().into_bytes()
    };
    vec![
        of("*", "[a]", "b"),
        of("*", "[^b]", "b"),
        of("*", "[a-c]", "b"),
        of("*[", "b", "]"),
        of("*[^", "a", "]"),
        half("*", "a", "b"),
        half("*", "?", "b"),
        half("*", "\\a", "b"),
        of("", "*a", "b"),
        of("", "*[ab]", "c"),
        of("*", "?*", "b"),
        of("*", "*", "b"),
    ]
}

/// A command that matches patterns: how it is prepared for a text, and how it is called with a pattern.
struct Matcher {
    name: &'static str,
    prepare: fn(&Scene, &[u8]) -> Result<Vec<Connection>>,
    ask: fn(&mut Connection, &[u8], &[u8]) -> Result<()>,
}

const MATCHERS: [Matcher; 13] = [
    Matcher {
        name: "KEYS",
        prepare: |scene, text| asked(scene, &[b"SET", text, b"1"]),
        ask: |client, pattern, _| all(client, &[&[b"KEYS", pattern]]),
    },
    Matcher {
        name: "SCAN",
        prepare: |scene, text| asked(scene, &[b"SET", text, b"1"]),
        ask: |client, pattern, _| all(client, &[&[b"SCAN", b"0", b"MATCH", pattern]]),
    },
    Matcher {
        name: "HSCAN",
        prepare: |scene, text| asked(scene, &[b"HSET", b"h", text, b"1"]),
        ask: |client, pattern, _| all(client, &[&[b"HSCAN", b"h", b"0", b"MATCH", pattern]]),
    },
    Matcher {
        name: "SSCAN",
        prepare: |scene, text| asked(scene, &[b"SADD", b"s", text]),
        ask: |client, pattern, _| all(client, &[&[b"SSCAN", b"s", b"0", b"MATCH", pattern]]),
    },
    Matcher {
        name: "ZSCAN",
        prepare: |scene, text| asked(scene, &[b"ZADD", b"z", b"1", text]),
        ask: |client, pattern, _| all(client, &[&[b"ZSCAN", b"z", b"0", b"MATCH", pattern]]),
    },
    Matcher {
        name: "PUBLISH to a pattern",
        prepare: |_, _| Ok(Vec::new()),
        ask: |client, pattern, text| {
            all(
                client,
                &[
                    &[b"HELLO", b"3"],
                    &[b"PSUBSCRIBE", pattern],
                    &[b"PUBLISH", text, b"x"],
                    &[b"PUNSUBSCRIBE", pattern],
                ],
            )
        },
    },
    Matcher {
        name: "notifications to a pattern",
        prepare: |scene, _| asked(scene, &[b"CONFIG", b"SET", b"notify-keyspace-events", b"KEA"]),
        ask: |client, pattern, text| {
            let key = [b"*", pattern].concat();
            all(
                client,
                &[&[b"HELLO", b"3"], &[b"PSUBSCRIBE", &key], &[b"SET", text, b"x"], &[b"PUNSUBSCRIBE", &key]],
            )
        },
    },
    Matcher {
        name: "PUBSUB CHANNELS",
        prepare: |scene, text| asked(scene, &[b"SUBSCRIBE", text]),
        ask: |client, pattern, _| all(client, &[&[b"PUBSUB", b"CHANNELS", pattern]]),
    },
    Matcher {
        name: "CONFIG GET",
        prepare: |_, _| Ok(Vec::new()),
        ask: |client, pattern, _| all(client, &[&[b"CONFIG", b"GET", pattern]]),
    },
    Matcher {
        name: "COMMAND LIST",
        prepare: |_, _| Ok(Vec::new()),
        ask: |client, pattern, _| all(client, &[&[b"COMMAND", b"LIST", b"FILTERBY", b"PATTERN", pattern]]),
    },
    Matcher {
        name: "FUNCTION LIST",
        prepare: |scene, text| {
            let code = [b"#!lua name=", text, b"\nserver.register_function('f', function() end)"].concat();
            asked(scene, &[b"FUNCTION", b"LOAD", &code])
        },
        ask: |client, pattern, _| all(client, &[&[b"FUNCTION", b"LIST", b"LIBRARYNAME", pattern]]),
    },
    Matcher {
        name: "keys of a user",
        prepare: |_, _| Ok(Vec::new()),
        ask: |client, pattern, text| {
            let rule = [b"~", pattern].concat();
            all(
                client,
                &[
                    &[b"ACL", b"SETUSER", b"u", b"reset", b"on", b"nopass", b"+@all", &rule],
                    &[b"ACL", b"DRYRUN", b"u", b"GET", text],
                ],
            )
        },
    },
    Matcher {
        name: "channels of a user",
        prepare: |_, _| Ok(Vec::new()),
        ask: |client, pattern, text| {
            let rule = [b"&", pattern].concat();
            all(
                client,
                &[
                    &[
                        b"ACL",
                        b"SETUSER",
                        b"u",
                        b"reset",
                        b"on",
                        b"nopass",
                        b"+@all",
                        b"resetchannels",
                        &rule,
                    ],
                    &[b"ACL", b"DRYRUN", b"u", b"PUBLISH", text, b"x"],
                ],
            )
        },
    },
];

pub(super) fn programs() -> Vec<Program> {
    let of = |matcher: &'static Matcher, bytes: usize| {
        Program::new(format!("globs: {}, {bytes} bytes", matcher.name), MEMORY_MAX_MIB, move |binary| {
            run(binary, matcher, bytes)
        })
    };
    MATCHERS.iter().flat_map(|matcher| SIZES.map(|bytes| of(matcher, bytes))).collect()
}

fn run(binary: &Path, matcher: &'static Matcher, bytes: usize) -> Result<Measured> {
    play(binary, &[], &nothing, &|scene| {
        let text = vec![b'a'; bytes];
        let _kept = (matcher.prepare)(scene, &text)?;
        let mut client = scene.client()?;
        let (began, all) = (shell::now(), patterns(bytes));
        // Each pattern is tried at least once, however long this takes, because a pattern that was left out
        // would not be measured.
        for (tried, pattern) in all.iter().chain(&all).enumerate() {
            if tried >= all.len() && began.elapsed() > TRIED_FOR {
                break;
            }
            (matcher.ask)(&mut client, pattern, &text)?;
        }
        Ok(())
    })
}

/// A client that has sent a request.
fn asked(scene: &Scene, request: &[&[u8]]) -> Result<Vec<Connection>> {
    let mut client = scene.client()?;
    all(&mut client, &[request])?;
    Ok(vec![client])
}

/// Sends requests, none of which may fail, because a refused request matches nothing. The replies to
/// SUBSCRIBE and its relatives are not awaited, because in RESP3 they are pushes.
fn all(client: &mut Connection, requests: &[&[&[u8]]]) -> Result<()> {
    for request in requests {
        let name = String::from_utf8_lossy(request[0]).into_owned();
        if name.ends_with("SUBSCRIBE") {
            let mut bytes = Vec::new();
            crate::wire::encode(request, &mut bytes);
            client.send(&bytes);
            continue;
        }
        let reply = client.ask(request)?;
        if reply.is_error() {
            return Err(format!("{name} was answered {}", reply.string()).into());
        }
    }
    Ok(())
}
