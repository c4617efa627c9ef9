//! First lines of libraries, and what they register.

use super::*;

const LIMITS: MachineLimits = MachineLimits { bytes: 16 << 20, is_insecure: false };

fn loaded(code: &str) -> Result<Library, String> {
    let load = || {
        let head = library_head(code.as_bytes())?;
        load_library(head, code.as_bytes().into(), LIMITS, &mut || Ok(()), &mut |_, _| {})
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

#[test]
fn a_load_ends_where_whoever_waits_for_it_says_so() {
    let head = library_head(b"#!lua name=l\n").unwrap();
    let mut looks = 0;
    let mut look = || {
        looks += 1;
        if looks > 3 { Err(b"enough".to_vec()) } else { Ok(()) }
    };
    for program in ["while true do end", "while true do server.register_function('a', function() end) end"] {
        let code = format!("#!lua name=l\n{program}").into_bytes();
        let result = load_library(head.clone(), code.into(), LIMITS, &mut look, &mut |_, _| {});
        assert_eq!(result.unwrap_err(), b"enough");
    }
}

#[test]
fn names_outside_of_the_machine_are_bounded() {
    let error = loaded("#!lua name=l\nwhile true do server.register_function('a', function() end) end");
    assert_eq!(error.unwrap_err(), "Error registering functions: ERR not enough memory");
}
