//! Compares the small programs in PUC's sources of Lua 5.1 (`test/`) with the stock interpreter. `cargo xtask
//! deep lua` fetches both; a plain test run has neither, and skips the comparison.

use sluice_lua::{RunOutcome, Vm, compile};
use std::path::Path;
use std::process::Command;

/// The environment variable with the folder of the programs.
const PROGRAMS: &str = "SLUICE_LUA_PROGRAMS";
/// The environment variable with the stock interpreter of Lua 5.1.
const STOCK: &str = "SLUICE_LUA_STOCK";

/// Programs that need something that scripts of this server do not have, and what each of them needs.
const LEFT_OUT: [(&str, &str); 8] = [
    ("echo.lua", "its arguments are the command line's"),
    ("env.lua", "os.getenv"),
    ("globals.lua", "reads a listing of luac from standard input"),
    ("luac.lua", "string.dump, and io.open"),
    ("table.lua", "reads standard input"),
    ("trace-calls.lua", "debug.sethook"),
    ("trace-globals.lua", "debug"),
    ("xd.lua", "reads standard input"),
];

/// Puts substitutes in front of a program: `print` and `io.write` append to a table, and `os` and `arg` are
/// replaced. The program returns its whole output as a string that ends with the outcome.
fn wrapped(program: &str) -> String {
    format!(
        "local out = {{}}\n\
         local function put(...) for i = 1, select('#', ...) do out[#out + 1] = tostring((select(i, ...))) end end\n\
         local clock = 0\n\
         print = function(...) local n = select('#', ...) for i = 1, n do put((select(i, ...))) if i < n then put('\\t') end end put('\\n') end\n\
         io = {{ write = put, stdout = {{}}, stderr = {{ write = function(_, ...) put(...) end }} }}\n\
         os = {{ clock = function() clock = clock + 1 return clock end, date = function() return 'a date' end }}\n\
         arg = {{}}\n\
         local function program(...) {program}\n end\n\
         local ok, why = pcall(program)\n\
         put(tostring(ok), ' ', (string.gsub(tostring(why), '^[^:]*:%d+: ', '')))\n\
         return table.concat(out)\n"
    )
}

fn ours(source: &str) -> Vec<u8> {
    let mut vm = Vm::new(1 << 30).expect("room for the libraries");
    vm.open_insecure().expect("room for setfenv and its like");
    let proto = compile(source.as_bytes(), b"@program").expect("a program of Lua 5.1");
    let chunk = vm.load(&proto).expect("room for the chunk");
    let mut run = vm.start(chunk);
    loop {
        match run.resume_unwatched(1_000_000) {
            RunOutcome::OutOfBudget => {}
            RunOutcome::Done => break,
            other => panic!("{other:?}"),
        }
    }
    let result = run.results().first().copied();
    let text = result.and_then(|value| value.as_str()).expect("the output");
    vm.heap().bytes(text).to_vec()
}

fn stock(interpreter: &str, source: &str) -> Vec<u8> {
    let source =
        format!("local stdout = io.stdout\nlocal function all() {source} end\nstdout:write(all())\n");
    let done = Command::new(interpreter).args(["-e", &source]).output().expect("the interpreter runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    done.stdout
}

#[test]
fn programs_of_puc_print_what_they_print_there() {
    let (Ok(folder), Ok(interpreter)) = (std::env::var(PROGRAMS), std::env::var(STOCK)) else {
        println!("skipped: {PROGRAMS} and {STOCK} name no programs and no stock interpreter");
        return;
    };
    let mut names: Vec<String> = std::fs::read_dir(Path::new(&folder))
        .expect("the folder of programs")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".lua"))
        .collect();
    names.sort();
    let mut compared = 0;
    for name in names {
        if let Some((_, why)) = LEFT_OUT.iter().find(|(left_out, _)| *left_out == name) {
            println!("left out: {name}: {why}");
            continue;
        }
        let program = std::fs::read(Path::new(&folder).join(&name)).expect("a program");
        // Comments are in Latin-1, so both interpreters get the text with replacement characters.
        let program = String::from_utf8_lossy(&program);
        // A first line that begins with `#` is for the shell and is removed.
        let program = program
            .strip_prefix('#')
            .map_or(&*program, |rest| rest.split_once('\n').map_or("", |(_, rest)| rest));
        let source = wrapped(program);
        let (got, expected) = (ours(&source), stock(&interpreter, &source));
        assert!(!expected.is_empty(), "{name} prints nothing");
        assert_eq!(got.escape_ascii().to_string(), expected.escape_ascii().to_string(), "{name}");
        compared += 1;
    }
    assert!(compared >= 10, "{compared} programs were compared");
}
