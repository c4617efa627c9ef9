//! Libraries of functions whose programs loop, log, register or take memory without end: loaded, restored,
//! and loaded from an RDB file at the start.

use std::path::Path;
use std::time::Duration;

use crate::differential::crc64;
use crate::wire::{Connection, encode};
use crate::{Result, shell};

use super::bystander::PATIENCE;
use super::program::Program;
use super::scene::{Measured, Scene, nothing, play};

/// Maximum time until the load of a library is answered. Its program may run for 500 ms, and pauses for other
/// clients in between.
const LOAD_MAX: Duration = Duration::from_secs(2);
/// Time after which the second load is killed, within its 500 ms.
const KILLED_AFTER: Duration = Duration::from_millis(150);
/// Bytes that two loads may add to the log.
const LOG_MAX_BYTES: u64 = 256 << 20;
/// Maximum memory that the server may take in addition, MiB, for two loads, whose Lua states have a limit
/// each ([`MACHINE_MEMORY`]).
const MEMORY_MAX_MIB: u64 = 250;
const MACHINE_MEMORY: &str = "100mb";
/// Maximum memory that a start may take in addition, MiB. The Lua state of a library from a file may take 2
/// GiB, and an eighth of that for names and descriptions (`MachineLimits::FILE_BYTES_MIN`); in addition a
/// text of 16 MiB and its copies.
const START_MEMORY_MAX_MIB: u64 = 2048 + 256 + 64;
/// Time for which a server is watched while it loads a library that never ends from a file.
const WATCHED_FOR: Duration = Duration::from_secs(2);
/// Time in which a start must refuse a library that takes memory without end.
const REFUSED_WITHIN: Duration = Duration::from_secs(30);
/// Maximum time from SHUTDOWN NOSAVE to the server's end during such a load.
const SHUTDOWN_MAX: Duration = Duration::from_secs(2);

/// RDB version of the payloads and files that are made here.
const RDB_VERSION: u16 = 11;
const OPCODE_FUNCTION: u8 = 245;
const OPCODE_EOF: u8 = 255;

/// A library that is to be refused.
#[derive(Clone, Copy)]
struct Body {
    what: &'static str,
    code: &'static str,
    /// Text of a refusal for a reason other than the limit of time or memory.
    refusal: Option<&'static str>,
    /// Whether the program takes memory without end, so that a start refuses the library.
    grows: bool,
}

/// One of the ways in which a library is loaded.
type Way = fn(&Path, Body) -> Result<Measured>;

/// A program that never ends.
const fn endless(what: &'static str, code: &'static str) -> Body {
    Body { what, code, refusal: None, grows: false }
}

/// A program that takes memory without end.
const fn growing(what: &'static str, code: &'static str) -> Body {
    Body { grows: true, ..endless(what, code) }
}

/// The programs of the libraries. While a library is loaded, its program may use the language and `server`,
/// but none of Lua's standard libraries.
const BODIES: [Body; 12] = [
    endless("logs without end", "while true do server.log(server.LOG_WARNING, 'x') end"),
    endless(
        "logs large lines without end",
        "local s = 'x' for i = 1, 20 do s = s .. s end while true do server.log(server.LOG_WARNING, s) end",
    ),
    endless("loops", "while true do end"),
    endless("loops by calls", "local function f() return f() end f()"),
    growing("makes tables without end", "local t = {} while true do t[#t + 1] = {} end"),
    endless(
        "joins large texts",
        "local s = 'x' for i = 1, 24 do s = s .. s end while true do local t = s .. 'y' end",
    ),
    endless(
        "reads large numbers",
        "local s = '1' for i = 1, 24 do s = s .. s end while true do local t = s + 1 end",
    ),
    endless(
        "loops to a large number",
        "local s = '1' for i = 1, 24 do s = s .. s end while true do for i = s, s do end end",
    ),
    Body {
        refusal: Some("a library registers at most 10000 functions"),
        ..growing(
            "registers without end",
            "local i = 0 while true do i = i + 1 server.register_function('f' .. i, function() end) end",
        )
    },
    Body {
        refusal: Some("too many flags given to server.register_function"),
        ..endless(
            "registers one function of many flags",
            "local f = {} for i = 1, 1000000 do f[i] = 'no-writes' end \
             server.register_function{function_name = 'f', callback = function() end, flags = f} while true do end",
        )
    },
    growing(
        "registers a large name again and again",
        "local s = 'x' for i = 1, 24 do s = s .. s end \
         while true do server.register_function(s, function() end) end",
    ),
    growing(
        "registers a large description again and again",
        "local s = 'x' for i = 1, 24 do s = s .. s end \
         while true do server.register_function{function_name = 'f', callback = function() end, description = s} end",
    ),
];

/// Errors with which a library's program may end as intended.
const EXPECTED_ENDS: [&str; 3] = ["timeout", "killed", "not enough memory"];

/// The line of the log about a library that a start refuses for its memory.
const REFUSED_LINE: &str = "the library 'hostile' needs more than 2048 MiB";

pub(super) fn programs() -> Vec<Program> {
    let mut programs = Vec::new();
    for body in BODIES {
        let ways: [(&str, u64, Way); 3] = [
            ("FUNCTION LOAD", MEMORY_MAX_MIB, load),
            ("FUNCTION RESTORE", MEMORY_MAX_MIB, restore),
            ("start", START_MEMORY_MAX_MIB, start),
        ];
        for (way, memory_max_mib, run) in ways {
            let name = format!("functions: {way}: {}", body.what);
            programs.push(Program::new(name, memory_max_mib, move |binary| run(binary, body)));
        }
    }
    programs
}

impl Body {
    fn text(self) -> String {
        format!("#!lua name=hostile\n{}", self.code)
    }
}

fn options() -> [&'static str; 4] {
    ["--busy-reply-threshold", "5", "--script-memory-limit", MACHINE_MEMORY]
}

fn load(binary: &Path, body: Body) -> Result<Measured> {
    let code = body.text();
    play(binary, &options(), &nothing, &|scene| {
        refused(scene, body, &[b"FUNCTION", b"LOAD", code.as_bytes()])
    })
}

fn restore(binary: &Path, body: Body) -> Result<Measured> {
    let mut payload = library(&body.text());
    payload.extend_from_slice(&RDB_VERSION.to_le_bytes());
    let sum = crc64(&payload);
    payload.extend_from_slice(&sum.to_le_bytes());
    play(binary, &options(), &nothing, &|scene| refused(scene, body, &[b"FUNCTION", b"RESTORE", &payload]))
}

/// A library as in files and payloads.
fn library(code: &str) -> Vec<u8> {
    let length = u32::try_from(code.len()).unwrap_or(u32::MAX);
    [&[OPCODE_FUNCTION, 0x80][..], &length.to_be_bytes(), code.as_bytes()].concat()
}

/// Sends a request twice whose library must not be loaded. The first load ends at a limit, the second by
/// FUNCTION KILL unless it has ended earlier.
fn refused(scene: &mut Scene, body: Body, request: &[&[u8]]) -> Result<()> {
    let (mut caller, mut killer) = (scene.client()?, scene.client()?);
    let log_before = scene.log_bytes();
    let mut bytes = Vec::new();
    encode(request, &mut bytes);
    let began = shell::now();
    caller.send(&bytes);
    let reply = caller.next_within(PATIENCE)?.unwrap_or_default();
    let took = began.elapsed();
    scene.check(took <= LOAD_MAX, || format!("the library was answered after {} ms", took.as_millis()));
    check_refusal(scene, body, &reply);
    caller.send(&bytes);
    let early = caller.next_within(KILLED_AFTER)?;
    let asked = shell::now();
    // An error that no script is running counts, too, because only a reply is required.
    Scene::ask(&mut killer, &[b"FUNCTION", b"KILL"])?;
    let reply = match early {
        Some(reply) => reply,
        None => caller.next_within(PATIENCE)?.unwrap_or_default(),
    };
    scene.measured.killed = Some(asked.elapsed());
    check_refusal(scene, body, &reply);
    let logged = scene.log_bytes() - log_before;
    scene.check(logged <= LOG_MAX_BYTES, || format!("the log grew by {logged} bytes of {LOG_MAX_BYTES}"));
    Ok(())
}

fn check_refusal(scene: &mut Scene, body: Body, reply: &[u8]) {
    let reply = String::from_utf8_lossy(&reply[..reply.len().min(200)]).trim_end().to_owned();
    let is_expected = EXPECTED_ENDS.iter().chain(&body.refusal).any(|text| reply.contains(text));
    scene.check(is_expected, || format!("the library was answered {reply:?}"));
}

/// Starts a server whose RDB file has the library. A library that takes memory without end is refused, and
/// the log names it; while any other library loads without end, clients are answered, and SHUTDOWN NOSAVE
/// ends the server.
fn start(binary: &Path, body: Body) -> Result<Measured> {
    let prepare = |folder: &Path| {
        let mut file = b"REDIS0011".to_vec();
        file.extend_from_slice(&library(&body.text()));
        file.push(OPCODE_EOF);
        let sum = crc64(&file);
        file.extend_from_slice(&sum.to_le_bytes());
        Ok(std::fs::write(folder.join("dump.rdb"), file)?)
    };
    let mut scene = Scene::begin(binary, &options(), &prepare)?;
    if scene.is_answered()? {
        scene = scene.play(&|scene| {
            let patience = if body.grows { REFUSED_WITHIN } else { WATCHED_FOR };
            let ended = scene.has_ended(patience);
            if ended { Ok(()) } else { shut_down(scene) }
        })?;
    }
    if body.grows {
        let is_refused = !scene.server.is_alive() && scene.server.log_tail().contains(REFUSED_LINE);
        scene.check(is_refused, || "the start has not refused the library by its name".to_owned());
    }
    let logged = scene.log_bytes();
    scene.check(logged <= LOG_MAX_BYTES, || format!("the log grew to {logged} bytes of {LOG_MAX_BYTES}"));
    Ok(scene.measured)
}

fn shut_down(scene: &mut Scene) -> Result<()> {
    scene.note_memory();
    let mut client: Connection = scene.client()?;
    let mut request = Vec::new();
    encode(&["SHUTDOWN", "NOSAVE"], &mut request);
    client.send(&request);
    let ended = scene.has_ended(SHUTDOWN_MAX);
    scene.check(ended, || "SHUTDOWN NOSAVE did not end the server".to_owned());
    Ok(())
}
