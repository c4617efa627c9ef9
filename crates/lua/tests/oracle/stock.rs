//! Compares this machine with PUC's own interpreter of Lua 5.1, a child process: without a server in between,
//! more programs run in the same time. The interpreter's results depend on the order of its tables, so
//! programs get a `pairs` that sorts, and a `next` that only reports whether the call succeeds.
//!
//! `SLUICE_LUA_STOCK` names the interpreter; without it this test reports that it was skipped.
//! `SLUICE_ORACLE_STOCK` is the number of programs.

use std::fmt::Write as _;
use std::process::Command;

use super::{grammar, report};
use sluice_base::Rng;
use sluice_lua::{RunOutcome, Vm, compile};

/// Number of programs if `SLUICE_ORACLE_STOCK` is not set.
const PROGRAMS: u64 = 2_000;

/// Number of programs that one child process runs.
const BATCH: u64 = 1_000;

/// A prefix on the first line of each program. It makes `pairs` use an order that does not depend on hashes,
/// and has substitutes for libraries that PUC lacks.
const ORDER: &str = "local rawnext, next = next, function(...) return (pcall(next, ...)) end \
    local bit = {band = function(a, b) return type(a) .. type(b) end} \
    local function pairs(t) if type(t) ~= 'table' then error('no table', 0) end local a = {} for k in rawnext, t do a[#a + 1] = k end \
    table.sort(a, function(x, y) local p, q = type(x), type(y) if p ~= q then return p < q end \
    if p == 'number' or p == 'string' then return x < y end return tostring(x) < tostring(y) end) \
    local i = 0 return function() repeat i = i + 1 until a[i] == nil or rawget(t, a[i]) ~= nil \
    if a[i] ~= nil then return a[i], rawget(t, a[i]) end end end ";

/// The interpreter's main program. It runs the programs of a file, in which each program stands after its
/// length, and writes the results in the same form.
const DRIVER: &str = "local file = io.open(arg[1], 'rb')
while true do
  local len = file:read('*n') if not len then break end
  file:read(1)
  local f, e = loadstring(file:read(len), '@user_script')
  local ok, v = false, e
  if f then ok, v = pcall(f) end
  if type(v) ~= 'string' and type(v) ~= 'number' then v = type(v) end
  v = (ok and '+' or '-') .. v
  io.write(#v, '\\n', v)
end
";

/// Results with one of these texts are not compared, because the interpreter's own frames count as nested
/// calls.
const DEPTHS: [&[u8]; 4] = [b"stack overflow", b"HC sta", b"error in error", b"Herror"];

fn ours(vm: &mut Vm, source: &[u8]) -> Vec<u8> {
    let proto = match compile(source, b"@user_script") {
        Ok(proto) => proto,
        Err(text) => return [b"-", &*text].concat(),
    };
    let chunk = vm.load(&proto).expect("room for the chunk");
    let mut run = vm.start(chunk);
    let outcome = run.resume_unwatched(u64::MAX / 4);
    let first = run.results().first().copied().unwrap_or_default();
    let (sign, value) = match outcome {
        RunOutcome::Failed(value) => (b"-", value),
        _ => (b"+", first),
    };
    let text = match (value.as_number(), value.as_str()) {
        (Some(number), _) => vm.heap().number_string(number).expect("room").as_str(),
        (_, text) => text,
    };
    let text =
        text.map_or_else(|| value.type_name().as_bytes().to_vec(), |text| vm.heap().bytes(text).to_vec());
    drop(vm.end());
    vm.unload(chunk);
    [sign, &*text].concat()
}

/// Removes the driver's position from a text. An error whose call level lies outside of the program has this
/// position.
fn without(text: &[u8], position: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.windows(position.len()).position(|part| part == position) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + position.len()..];
    }
    out.extend_from_slice(rest);
    out
}

/// The interpreter's results for some programs.
fn stock(interpreter: &str, sources: &[String]) -> Vec<Vec<u8>> {
    let folder = std::env::temp_dir().join(format!("sluice-lua-stock-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the programs");
    let (driver, programs) = (folder.join("driver.lua"), folder.join("programs"));
    std::fs::write(&driver, DRIVER).expect("the driver is written");
    let text: String = sources.iter().map(|source| format!("{}\n{source}", source.len())).collect();
    std::fs::write(&programs, text).expect("the programs are written");
    let output = Command::new(interpreter).args([&driver, &programs]).output().expect("the interpreter runs");
    let mut rest = &output.stdout[..];
    let mut answers = Vec::new();
    let position = format!("{}:7: ", driver.display()).into_bytes();
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let len: usize = std::str::from_utf8(&rest[..end]).expect("digits").parse().expect("a length");
        answers.push(without(&rest[end + 1..end + 1 + len], &position));
        rest = &rest[end + 1 + len..];
    }
    let _ = std::fs::remove_dir_all(&folder);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(answers.len(), sources.len(), "{error}");
    answers
}

#[test]
fn random_programs_answer_as_in_the_stock_interpreter() {
    let Ok(interpreter) = std::env::var("SLUICE_LUA_STOCK") else {
        println!("skipped: SLUICE_LUA_STOCK names no interpreter of Lua 5.1");
        return;
    };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let programs = number("SLUICE_ORACLE_STOCK").unwrap_or(PROGRAMS);
    let seed = number("SLUICE_ORACLE_SEED").unwrap_or(1);
    let (mut left_out, mut wrong, mut wrongs) = (0, 0, String::new());
    for batch in 0..programs.div_ceil(BATCH) {
        let seeds: Vec<u64> = (seed + batch * BATCH..seed + (batch + 1) * BATCH).collect();
        let program = |seed: &u64| format!("{ORDER}{}", grammar::program(&mut Rng::new(*seed)));
        let sources: Vec<String> = seeds.iter().map(program).collect();
        let mut vm = Vm::new(256 << 20).expect("room for the libraries");
        vm.seal(false);
        for ((seed, source), expected) in seeds.iter().zip(&sources).zip(stock(&interpreter, &sources)) {
            let got = ours(&mut vm, source.as_bytes());
            let is_deep = |answer: &[u8]| {
                DEPTHS.iter().any(|text| answer.windows(text.len()).any(|part| part == *text))
            };
            if is_deep(&got) || is_deep(&expected) {
                left_out += 1;
            } else if got != expected {
                wrong += 1;
                report(&mut wrongs, *seed, source, &got, &expected);
            }
        }
    }
    let mut counts = String::new();
    write!(counts, "{wrong} of {programs} programs differ, {left_out} were left out").expect("a string");
    assert!(wrong == 0, "{counts}\n{wrongs}");
    assert!(left_out * 20 < programs, "{counts}");
}
