//! Tests of the first lines of libraries, and of the functions that libraries register.

use super::*;

const LIMITS: MachineLimits = MachineLimits { bytes: 16 << 20, is_insecure: false, is_wish: true };

/// A clock that advances by a millisecond with each reading, and breaks the load off after a
/// number of readings.
pub(crate) struct CountedWatch {
    pub looks: u64,
    pub looks_max: u64,
    pub lines: Vec<String>,
}

impl CountedWatch {
    pub(crate) fn until(looks_max: u64) -> CountedWatch {
        CountedWatch { looks: 0, looks_max, lines: Vec::new() }
    }
}

impl LoadWatch for CountedWatch {
    fn now_ns(&mut self) -> u64 {
        self.looks += 1;
        if self.looks > self.looks_max { u64::MAX } else { self.looks * 1_000_000 }
    }

    fn log(&mut self, _: LogLevel, line: &str) {
        self.lines.push(line.to_owned());
    }
}

fn loaded(code: &str) -> Result<Library, String> {
    let load = || {
        let head = library_head(code.as_bytes())?;
        let images = &mut LibraryImages::default();
        load_library(head, code.as_bytes().into(), LIMITS, images, &mut CountedWatch::until(u64::MAX))
    };
    load().map_err(|text| String::from_utf8(text).unwrap())
}

#[test]
fn first_lines_name_libraries() {
    let name = |code: &str| library_head(code.as_bytes()).map(|head| String::from_utf8(head.name).unwrap());
    assert_eq!(name("#!lua name=lib_1\ncode"), Ok("lib_1".to_owned()));
    assert_eq!(name("#!LUA NAME=\"x\" \ncode"), Ok("x".to_owned()));
    let errors = [
        ("return 1", "Missing library metadata"),
        ("#!lua name=x", "Invalid library metadata"),
        ("#!lua name=x\0\n", "Invalid library metadata"),
        ("#!lua name=\"x\n", "Invalid library metadata"),
        ("#!lua\n", "Library name was not given"),
        ("#!lua name=a name=b\n", "Invalid metadata value, name argument was given multiple times"),
        ("#!lua name=a flags=no-writes\n", "Invalid metadata value given: flags=no-writes"),
        ("#!python name=a\n", "Engine 'python' not found"),
        ("#! name=a\n", "Engine '' not found"),
        (
            "#!lua name=a-b\n",
            "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long",
        ),
    ];
    for (code, wanted) in errors {
        assert_eq!(name(code), Err(wanted.as_bytes().to_vec()), "{code:?}");
    }
}

#[test]
fn programs_register_functions() {
    let library = loaded(
        "#!lua name=l\nserver.register_function('a', function() return 1 end)\n\
         redis.register_function{function_name='b', callback=function() end, description='what b does', \
         flags={'no-writes', 'ALLOW-STALE'}}",
    )
    .unwrap();
    let shown: Vec<_> = library.functions.iter().map(|function| (&*function.name, function.flags)).collect();
    let flags = ScriptFlags::NO_WRITES.or(ScriptFlags::ALLOW_STALE);
    assert_eq!(shown, [(&b"a"[..], ScriptFlags::default()), (b"b", flags)]);
    assert_eq!(library.functions[1].description.as_deref(), Some(&b"what b does"[..]));
}

#[test]
fn what_a_program_does_wrong_is_told() {
    let error = |program: &str| loaded(&format!("#!lua name=l\n{program}")).unwrap_err();
    assert_eq!(error("x ="), "Error compiling function: user_function:2: unexpected symbol near '<eof>'");
    assert_eq!(error(""), "No functions registered");
    assert_eq!(
        error("server.register_function('a', 1)"),
        "Error registering functions: ERR second argument to server.register_function must be a function"
    );
    assert_eq!(
        error("server.register_function('a b', function() end)"),
        "Function names can only contain letters, numbers, or underscores(_) and must be at least one character long"
    );
    let twice = "server.register_function('a', function() end) ";
    assert_eq!(error(&twice.repeat(2)), "Function already exists in the library");
    let missing = error("return math");
    assert!(missing.ends_with("Script attempted to access nonexistent global variable 'math'"), "{missing}");
    let call = error("server.call('ping')");
    assert!(call.ends_with("Script attempted to access nonexistent global variable 'call'"), "{call}");
}

/// Programs that never end. Each gives control back to the host in a different way within its loop. A library
/// that is being loaded has neither `pcall` nor `coroutine`, so an error ends its program.
const ENDLESS: [&str; 7] = [
    "while true do end",
    "while true do server.log(server.LOG_NOTICE, 'x') end",
    "local i = 0 while true do i = i + 1 server.register_function('f' .. i, function() end) end",
    "while true do local text = ('x'):rep(100):gsub('x', function() end) end",
    "while true do local at = ('x'):rep(10000):find('.-y') end",
    "local f f = function() return f() end f()",
    "while true do local x = {} x[1] = x end",
];

#[test]
fn a_load_ends_where_whoever_waits_for_it_says_so() {
    let head = library_head(b"#!lua name=l\n").unwrap();
    for (program, is_wish) in ENDLESS.iter().flat_map(|program| [(program, true), (program, false)]) {
        let code = format!("#!lua name=l\n{program}").into_bytes();
        let mut watch = CountedWatch::until(50);
        let limits = MachineLimits { is_wish, ..LIMITS };
        let result =
            load_library(head.clone(), code.into(), limits, &mut LibraryImages::default(), &mut watch);
        let error = String::from_utf8(result.unwrap_err()).unwrap();
        assert_eq!(error.as_bytes(), BROKEN_OFF, "{error}: {program}");
        assert!(watch.lines.len() <= LINES_MAX as usize + 2, "{} lines: {program}", watch.lines.len());
    }
}

#[test]
fn lists_that_a_library_fills_are_bounded() {
    let rows = [
        (
            "for i = 1, 10001 do server.register_function('f' .. i, function() end) end",
            "at most 10000 functions",
        ),
        (
            "local t = {} for i = 1, 1001 do t[i] = 'no-writes' end \
             server.register_function{function_name='a', callback=function() end, flags=t}",
            "too many flags given to server.register_function",
        ),
        (
            "local t = {function_name='a', callback=function() end} for i = 1, 1001 do t['flags\\0' .. i] = {} end \
             server.register_function(t)",
            "too many arguments given to server.register_function",
        ),
    ];
    for (program, wanted) in rows {
        // A library that is being loaded has no string functions, but the operator `..` needs none.
        let error = loaded(&format!("#!lua name=l\n{program}")).unwrap_err();
        assert!(error.contains(wanted), "{error}");
        let code: Arc<[u8]> = format!("#!lua name=l\n{program}").into_bytes().into();
        let head = library_head(&code).unwrap();
        // A library that was accepted elsewhere has no limits on its functions and words.
        let (images, watch) = (&mut LibraryImages::default(), &mut CountedWatch::until(u64::MAX));
        let accepted = load_library(head, code, LIMITS.of_accepted(), images, watch);
        assert!(accepted.is_ok(), "{accepted:?}");
    }
}

#[test]
fn names_outside_of_the_machine_are_bounded() {
    let error = loaded(
        "#!lua name=l\nlocal text = ('x'):rep(1000000) while true do \
         server.register_function{function_name='a', callback=function() end, description=text} end",
    );
    assert_eq!(error.unwrap_err(), "Error registering functions: ERR not enough memory");
}

/// If the program of a library that is loaded from a file never ends, the log says so after 10 s, 20 s, 40 s
/// and so on.
#[test]
fn a_load_that_goes_on_is_said_at_doubling_intervals() {
    let code = b"#!lua name=l\nwhile true do end";
    let head = library_head(code).unwrap();
    let mut watch = CountedWatch::until(100_000);
    let error =
        load_library(head, code[..].into(), LIMITS.of_accepted(), &mut LibraryImages::default(), &mut watch)
            .unwrap_err();
    assert_eq!(error, BROKEN_OFF);
    let seconds: Vec<&str> = watch
        .lines
        .iter()
        .map(|line| {
            let line = line.strip_prefix("The library 'l' has been running for ").expect("it is named");
            line.split_once(" s while it is loaded.").expect("and how long").0
        })
        .collect();
    assert_eq!(seconds, ["10", "20", "40", "80"]);
}
