//! Each instruction and native function whose time may grow with its operand runs in an endless loop on a
//! text of 20 or 64 MiB or a table of a million keys, until SCRIPT KILL ends the script.

use std::path::Path;
use std::time::Duration;

use crate::wire::encode;
use crate::{Result, shell};

use super::bystander::PATIENCE;
use super::program::Program;
use super::scene::{Measured, Scene, nothing, play};

/// Time for which a script runs before it is killed.
const RUNS_FOR: Duration = Duration::from_millis(400);
/// Memory limit of the scripts of one run together.
const SCRIPT_MEMORY: &str = "600mb";
/// Maximum memory that the process may take in addition, MiB. Besides the Lua state, it holds the reply and
/// text for its log.
const MEMORY_MAX_MIB: u64 = 800;

/// A text of digits, from which numbers are parsed.
const DIGITS: &str = "local s = string.rep('1', N)";
/// A text without the characters that patterns search for.
const LETTERS: &str = "local s = string.rep('x', N)";
/// A table of a million numbers.
const NUMBERS: &str = "local t = {} for i = 1, 1000000 do t[i] = i % 1000 end";
/// A table whose million keys were all removed.
const EMPTIED: &str =
    "local t = {} for i = 1, 1000000 do t['k' .. i] = 1 end for k in pairs(t) do t[k] = nil end";
/// Length `N` of the texts of most programs, in bytes.
const LARGE: usize = 20 << 20;
/// Length `N` of the texts of [`LARGER_ONES`], in bytes.
const LARGER: usize = 64 << 20;

/// Programs: the code that makes the operand, and the code that uses it repeatedly.
const SCRIPTS: [(&str, &str); 96] = [
    (DIGITS, "local x = s + 1"),
    (DIGITS, "local x = 1 - s"),
    (DIGITS, "local x = s * s"),
    (DIGITS, "local x = s / 3"),
    (DIGITS, "local x = s % 7"),
    (DIGITS, "local x = s ^ 2"),
    (DIGITS, "local x = -s"),
    (DIGITS, "for i = s, s do break end"),
    (DIGITS, "for i = 1, s do break end"),
    (DIGITS, "for i = 1, 2, s do break end"),
    (DIGITS, "local x = tonumber(s)"),
    (DIGITS, "local x = tonumber(s, 16)"),
    (DIGITS, "local x = tonumber(s, 2)"),
    (DIGITS, "local x = tostring(s)"),
    (DIGITS, "pcall(string.format, '%d', s)"),
    (DIGITS, "pcall(string.format, '%g', s)"),
    (DIGITS, "pcall(string.format, '%c', s)"),
    (DIGITS, "pcall(string.format, '%x', s)"),
    (DIGITS, "pcall(bit.tobit, s)"),
    (DIGITS, "pcall(bit.tohex, s)"),
    (DIGITS, "pcall(bit.band, s, s)"),
    (DIGITS, "pcall(bit.lshift, 1, s)"),
    (DIGITS, "local x = math.floor(s)"),
    (DIGITS, "local x = math.max(s, s, s)"),
    (DIGITS, "pcall(math.ldexp, s, s)"),
    (DIGITS, "pcall(math.random, s)"),
    (DIGITS, "pcall(string.rep, 'x', s)"),
    (DIGITS, "pcall(string.sub, 'x', s, s)"),
    (DIGITS, "pcall(string.char, s)"),
    (DIGITS, "pcall(select, s, 1)"),
    (DIGITS, "pcall(unpack, {}, s, s)"),
    (DIGITS, "pcall(table.concat, {}, ',', s, s)"),
    (DIGITS, "pcall(error, 'x', s)"),
    (DIGITS, "pcall(loadstring, s)"),
    (DIGITS, "pcall(cjson.decode, s)"),
    (DIGITS, "pcall(redis.setresp, s)"),
    (DIGITS, "pcall(redis.log, s, 'x')"),
    (LETTERS, "local x = s .. 'y'"),
    (LETTERS, "local x = s .. s .. s"),
    (LETTERS, "local x = s == s .. 'y'"),
    (LETTERS, "local x = s < s"),
    (LETTERS, "local a, b = s .. 'a', s .. 'b' for i = 1, 100 do local x = a < b end"),
    (LETTERS, "local t = {} t[s .. 'y'] = 1"),
    (LETTERS, "local x = string.rep(s, 3)"),
    (LETTERS, "local x = string.rep('', 1e9)"),
    (LETTERS, "local x = s:sub(2)"),
    (LETTERS, "local x = s:upper()"),
    (LETTERS, "local x = s:lower()"),
    (LETTERS, "local x = s:reverse()"),
    (LETTERS, "pcall(string.byte, s, 1, -1)"),
    (LETTERS, "local x = s:find('y', 1, true)"),
    (LETTERS, "local x = s:find('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxy', 1, true)"),
    (LETTERS, "local x = s:find('y')"),
    (LETTERS, "local x = s:find('x*x*x*y')"),
    (LETTERS, "local x = s:find('.-.-.-y')"),
    (LETTERS, "local x = s:match('^(x*)$')"),
    (LETTERS, "local x = s:find('[' .. ('a'):rep(10000) .. ']')"),
    (LETTERS, "local x = s:match('%b()')"),
    (LETTERS, "local x = s:gsub('x', 'yy')"),
    (LETTERS, "local x = s:gsub('', '-')"),
    (LETTERS, "local x = s:gsub('x', {x = 'y'})"),
    (LETTERS, "local x = s:gsub('x', function(c) return c end)"),
    (LETTERS, "for c in s:gmatch('x-y') do end"),
    (LETTERS, "for c in s:gmatch('x') do end"),
    (LETTERS, "pcall(string.find, s, s)"),
    (LETTERS, "local x = string.format('%s%s', s, s)"),
    (LETTERS, "local x = string.format('%q', s)"),
    (LETTERS, "local x = string.format('%.5s', s)"),
    (LETTERS, "pcall(string.format, s)"),
    (LETTERS, "local x = table.concat({s, s, s}, s)"),
    (LETTERS, "local x = cjson.encode(s)"),
    (LETTERS, "local x = cjson.decode('\"' .. s .. '\"')"),
    (LETTERS, "local x = cmsgpack.pack(s)"),
    (LETTERS, "local x = cmsgpack.unpack(cmsgpack.pack(s))"),
    (LETTERS, "local x = struct.pack('s', s)"),
    (LETTERS, "local x = struct.unpack('s', s .. '\\0')"),
    (LETTERS, "pcall(struct.size, s)"),
    (LETTERS, "local x = redis.sha1hex(s)"),
    (LETTERS, "local x = redis.error_reply(s)"),
    (LETTERS, "local x = redis.status_reply(s)"),
    (LETTERS, "redis.log(redis.LOG_DEBUG, s)"),
    (LETTERS, "local x = redis.call('ECHO', s)"),
    (LETTERS, "local x = redis.pcall(s)"),
    (LETTERS, "pcall(error, s)"),
    (LETTERS, "pcall(assert, false, s)"),
    (LETTERS, "pcall(loadstring, 'return ' .. s)"),
    (NUMBERS, "local x = table.concat(t, ',')"),
    (NUMBERS, "table.sort(t, function(a, b) return a % 7 < b % 7 end)"),
    (NUMBERS, "table.insert(t, 1, 0) table.remove(t, 1)"),
    (NUMBERS, "local x = table.maxn(t)"),
    (NUMBERS, "local x = cjson.decode(cjson.encode(t))"),
    (NUMBERS, "local x = cmsgpack.unpack(cmsgpack.pack(t))"),
    (NUMBERS, "pcall(unpack, t)"),
    (NUMBERS, "collectgarbage()"),
    (EMPTIED, "local k = next(t)"),
    (EMPTIED, "table.foreach(t, print) for k in pairs(t) do end"),
];

/// Programs that are also run with a text of [`LARGER`] bytes.
const LARGER_ONES: [(&str, &str); 9] = [
    (DIGITS, "local x = s + 1"),
    (DIGITS, "local x = tonumber(s, 16)"),
    (DIGITS, "pcall(string.format, '%d', s)"),
    (LETTERS, "local x = s .. 'y'"),
    (LETTERS, "local x = s:upper()"),
    (LETTERS, "local x = s:find('y', 1, true)"),
    (LETTERS, "local x = redis.error_reply(s)"),
    (LETTERS, "local x = redis.sha1hex(s)"),
    (LETTERS, "local x = cjson.encode(s)"),
];

/// Errors with which a script may end as intended: it was killed, or had no more memory.
const EXPECTED_ENDS: [&str; 2] = ["Script killed by user", "not enough memory"];

pub(super) fn programs() -> Vec<Program> {
    let large = SCRIPTS.iter().map(|script| (script, LARGE));
    let larger = LARGER_ONES.iter().map(|script| (script, LARGER));
    large.chain(larger).map(|(script, bytes)| program(*script, bytes)).collect()
}

fn program((operand, body): (&'static str, &'static str), bytes: usize) -> Program {
    let shown = match operand {
        DIGITS | LETTERS => format!("s of {} MiB", bytes >> 20),
        EMPTIED => "t emptied".to_owned(),
        _ => "t of a million".to_owned(),
    };
    let script = format!("{} while true do {body} end", operand.replace('N', &bytes.to_string()));
    Program::new(format!("natives: {shown}: {body}"), MEMORY_MAX_MIB, move |binary| run(binary, &script))
}

fn run(binary: &Path, script: &str) -> Result<Measured> {
    let options = ["--busy-reply-threshold", "5", "--script-memory-limit", SCRIPT_MEMORY];
    play(binary, &options, &nothing, &|scene| kill(scene, script))
}

/// Runs a script, and kills it.
fn kill(scene: &mut Scene, script: &str) -> Result<()> {
    let (mut caller, mut killer) = (scene.client()?, scene.client()?);
    let mut request = Vec::new();
    encode(&["EVAL", script, "0"], &mut request);
    caller.send(&request);
    if let Some(early) = caller.next_within(RUNS_FOR)? {
        return ended(scene, &early);
    }
    let began = shell::now();
    let reply = Scene::ask(&mut killer, &[b"SCRIPT", b"KILL"])?;
    let end = caller.next_within(PATIENCE)?.unwrap_or_default();
    scene.measured.killed = Some(began.elapsed());
    // The script may have failed before the kill.
    scene.check(!reply.is_error() || reply.string().starts_with("NOTBUSY"), || {
        format!("SCRIPT KILL was answered {}", reply.string())
    });
    ended(scene, &end)
}

fn ended(scene: &mut Scene, end: &[u8]) -> Result<()> {
    let end = String::from_utf8_lossy(&end[..end.len().min(200)]).trim_end().to_owned();
    scene.check(EXPECTED_ENDS.iter().any(|text| end.contains(text)), || {
        format!("the script ended with {end:?}")
    });
    Ok(())
}
