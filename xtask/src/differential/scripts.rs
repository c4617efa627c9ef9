//! Scripts and functions around drawn commands.
//!
//! Invariant: no script here makes the reference end its process. It would end if a library logged while it
//! is loaded, or if a library was deleted whose functions' names differ only in case.

use super::generator::Generator;

/// Scripts, each with the SHA-1 of its text, by which EVALSHA calls it.
const SCRIPTS: &[(&str, &str)] = &[
    ("3c44b7a40779a5c68a6e3920550ff76660a813aa", "return redis.call(unpack(ARGV))"),
    ("b72d50ecdcafd5e07f3fca2060a111de46c547f9", "return redis.pcall(unpack(ARGV))"),
    ("7294943da872465176d5feebb5235052fc6d2840", "redis.setresp(3) return redis.call(unpack(ARGV))"),
    ("274b929372f31fe6ef5845c72e7222395e4e5614", "return {redis.pcall(unpack(ARGV)), KEYS[1], #ARGV}"),
    ("999db89b7f911fb4c7717f92c8a034c0a3f58567", "#!lua\nreturn redis.call(unpack(ARGV))"),
    (
        "aacfb951c4831eeb7f9ce4a1a8e2465cacac9144",
        "#!lua flags=no-writes,allow-stale\nreturn redis.call(unpack(ARGV))",
    ),
    (
        "e649556f8a68fce737f2fee44c5646184b651756",
        "local r = redis.pcall(unpack(ARGV)) return type(r) == 'table' and r.err or r",
    ),
    (
        "134dab0d9731c206cd16a670d151eddb40182f9e",
        "redis.setresp(3) return cjson.encode(redis.pcall(unpack(ARGV)))",
    ),
    ("206c3a1d5fb40975775ce8d5edbed5149258ac9c", "redis.setresp(3) return type(redis.call(unpack(ARGV)))"),
    (
        "d3e75ae6f88052393d10273024a0a2133fdbf9f8",
        "redis.call('SET', KEYS[1], ARGV[1]) redis.call('APPEND', KEYS[1], 'x') return redis.call('GET', KEYS[1])",
    ),
];

/// Names of the libraries that are loaded.
const LIBRARIES: &[&str] = &["l0", "l1", "l2", "L2"];

/// Functions, of which each library has one. Their names are in lower case, so that no two differ only in
/// case.
const FUNCTIONS: &[&str] = &["f0", "f1", "f2", "f3"];

/// Programs of the libraries' functions.
const BODIES: &[&str] = &[
    "return redis.call(unpack(args))",
    "return redis.pcall(unpack(args))",
    "redis.setresp(3) return redis.call(unpack(args))",
    "return {keys[1], #keys, #args}",
    "redis.call('SET', keys[1], 1) return redis.pcall(unpack(args))",
    "return nosuchglobal",
    "error('boom')",
];

/// Flags with which functions are registered.
const FLAGS: &[&str] = &["", "'no-writes'", "'allow-oom'", "'no-writes','allow-stale'", "'nosuch'"];

/// Whether the command runs a script or function that gets a drawn command as its arguments.
pub(super) fn is_call(name: &str) -> bool {
    ["eval", "evalsha", "fcall"].contains(&name.trim_end_matches("_ro"))
}

/// Arguments of a command about scripts or functions; `None` for any other. For a call ([`is_call`]), these
/// are the arguments before the drawn command.
pub(super) fn arguments(generator: &mut Generator, name: &str) -> Option<Vec<Vec<u8>>> {
    let words = match name {
        "eval" | "eval_ro" => called(generator, |generator| script(generator).1.into()),
        "evalsha" | "evalsha_ro" => called(generator, sha),
        "fcall" | "fcall_ro" => called(generator, |generator| {
            let name = FUNCTIONS[generator.below(FUNCTIONS.len())];
            generator.token(name)
        }),
        "script|load" => vec![script(generator).1.into()],
        "script|exists" => vec![sha(generator), sha(generator)],
        "script|show" => vec![script(generator).0.into()],
        "script|flush" | "function|flush" => vec![generator.pick(&["SYNC", "async", "x"])],
        "function|load" if generator.chance(70) => vec![generator.token("REPLACE"), library(generator)],
        "function|load" => vec![library(generator)],
        "function|delete" => vec![generator.pick(LIBRARIES)],
        "function|list" if generator.chance(50) => {
            vec![generator.token("LIBRARYNAME"), generator.pick(&["l*", "L1", "?2", "x"])]
        }
        "function|list" => vec![generator.token("WITHCODE")],
        _ => return None,
    };
    Some(words)
}

fn script(generator: &mut Generator) -> (&'static str, &'static str) {
    SCRIPTS[generator.below(SCRIPTS.len())]
}

/// The SHA-1 of a script's text, in any letter case.
fn sha(generator: &mut Generator) -> Vec<u8> {
    let name = script(generator).0;
    generator.token(name)
}

/// The script or function to call, and its keys.
fn called(generator: &mut Generator, what: impl FnOnce(&mut Generator) -> Vec<u8>) -> Vec<Vec<u8>> {
    let mut words = vec![what(generator)];
    let key = super::values::watched_key(&mut generator.rng);
    match generator.chance(60) {
        true => words.extend([b"1".to_vec(), key]),
        false => words.push(b"0".to_vec()),
    }
    words
}

fn library(generator: &mut Generator) -> Vec<u8> {
    let at = generator.below(LIBRARIES.len());
    let (library, function) = (LIBRARIES[at], FUNCTIONS[generator.below(FUNCTIONS.len())]);
    let body = BODIES[generator.below(BODIES.len())];
    let flags = FLAGS[generator.below(FLAGS.len())];
    format!(
        "#!lua name={library}\nredis.register_function{{function_name='{function}',flags={{{flags}}},callback=function(keys, \
         args) {body} end}}"
    )
    .into_bytes()
}
