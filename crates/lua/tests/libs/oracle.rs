//! Random library calls, compared with the reference. For each family, `SLUICE_ORACLE_CALLS` programs of
//! thirty calls are run; `SLUICE_ORACLE_SEED` is the first seed.

use std::fmt::Write as _;

use sluice_base::Rng;

use super::calls::{FAMILIES, Family};
use super::peer::Peer;
use super::{machine, run};

/// Number of programs of each family if `SLUICE_ORACLE_CALLS` is not set.
const PROGRAMS: u64 = 20;

/// Number of calls in a program.
const CALLS: u64 = 30;

/// Lua functions that show values so that every bit is visible, and that call functions so that errors become
/// values.
const PRELUDE: &str = r#"local R = {}
local show
local function quoted(v) return '"' .. string.gsub(v, '[^%w%p ]', function(c) return '\\' .. string.byte(c) end) .. '"' end
function show(v, d)
  d = d or 0
  if type(v) == 'table' then
    if d > 8 then return '...' end
    local o = {}
    -- Where tables are keys, the order is that of their addresses.
    local sorted
    for k, w in pairs(v) do o[#o + 1] = show(k, d + 1) .. '=' .. show(w, d + 1) sorted = sorted or type(k) == 'table' end
    if sorted then table.sort(o) end
    return '{' .. table.concat(o, ',') .. '}'
  end
  if type(v) == 'string' then return quoted(v) end
  if type(v) == 'number' then return string.format('%.17g', v) end
  if v == cjson.null then return 'null' end
  if type(v) == 'function' then return 'function' end
  return tostring(v)
end
local function all(...) local o = {} for i = 1, select('#', ...) do o[i] = show((select(i, ...))) end R[#R + 1] = table.concat(o, '|') end
local function e(f, ...) all(pcall(f, ...)) end
local function iterate(s, p) local n = 0 for a, b in string.gmatch(s, p) do all(a, b) n = n + 1 if n > 20 then break end end end
local function deep(n, v) for i = 1, n do v = i % 2 == 0 and {v} or {k = v} end return v end
"#;

fn program(family: &Family, rng: &mut Rng) -> String {
    let mut source = PRELUDE.to_string();
    for _ in 0..CALLS {
        writeln!(source, "{}", (family.call)(rng)).expect("a string");
    }
    source.push_str("return table.concat(R, '\\n')");
    source
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn random_calls_answer_as_in_the_reference() {
    let Some(mut peer) = Peer::start() else { return };
    let programs = number("SLUICE_ORACLE_CALLS").unwrap_or(PROGRAMS);
    let seed = number("SLUICE_ORACLE_SEED").unwrap_or(1);
    let mut wrong = String::new();
    let mut differences = 0;
    for family in FAMILIES {
        for index in 0..programs {
            let source = program(family, &mut Rng::new(seed + index));
            let expected = peer.eval(source.as_bytes());
            let slice = if index % 4 == 0 { 1 + index } else { u64::MAX / 4 };
            let got = run(&mut machine(), source.as_bytes(), slice);
            if got != expected {
                differences += 1;
                report(&mut wrong, family.name, &source, &got, &expected);
            }
        }
    }
    assert!(wrong.is_empty(), "{differences} programs differ\n{wrong}");
}

/// Records the first line in which two results differ, and its call if that is known. Does nothing once the
/// record is longer than 8,000 bytes.
fn report(out: &mut String, family: &str, source: &str, got: &[u8], expected: &[u8]) {
    if out.len() > 8_000 {
        return;
    }
    let (ours, theirs) = (got.split(|byte| *byte == b'\n'), expected.split(|byte| *byte == b'\n'));
    let Some((line, (ours, theirs))) = ours.zip(theirs).enumerate().find(|(_, (a, b))| a != b) else {
        writeln!(out, "{family}: {} and {} bytes", got.len(), expected.len()).expect("a string");
        return;
    };
    let part = |text: &[u8]| text[..text.len().min(600)].escape_ascii().to_string();
    let calls: Vec<&str> = source.lines().skip(PRELUDE.lines().count()).collect();
    let call = if calls.iter().any(|call| call.starts_with("iterate")) {
        ""
    } else {
        calls.get(line).unwrap_or(&"")
    };
    writeln!(out, "{family}: {call}\n  ours      {}\n  reference {}", part(ours), part(theirs))
        .expect("a string");
}
