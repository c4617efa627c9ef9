//! Tests that add, replace, join and find libraries.

use super::*;
use crate::library::tests::CountedWatch;

const LIMITS: MachineLimits = MachineLimits { bytes: 16 << 20, is_insecure: false, is_wish: true };

fn code(library: &str, functions: &[&str]) -> Arc<[u8]> {
    let register = |name: &&str| format!("server.register_function('{name}', function() end)\n");
    let program: String = functions.iter().map(register).collect();
    format!("#!lua name={library}\n{program}").into_bytes().into()
}

fn registry(libraries: &[(&str, &[&str])]) -> Functions {
    let codes: Vec<_> = libraries.iter().map(|(name, functions)| code(name, functions)).collect();
    Functions::of_codes(codes.iter(), LIMITS, &mut CountedWatch::until(u64::MAX)).unwrap()
}

fn shown(functions: &Functions) -> Vec<String> {
    let name = |text: &[u8]| String::from_utf8(text.to_vec()).unwrap();
    functions
        .iter()
        .map(|library| {
            let names: Vec<_> = library.functions.iter().map(|function| name(&function.name)).collect();
            format!("{}: {}", name(&library.name), names.join(" "))
        })
        .collect()
}

#[test]
fn functions_are_found_in_any_case() {
    let functions = registry(&[("l", &["Get", "set"]), ("M", &["x"])]);
    let found = functions.find(b"gEt").unwrap();
    assert_eq!(&*functions.function(found).unwrap().name, b"Get");
    assert_eq!(functions.find(b"set\0x"), functions.find(b"SET"));
    assert_eq!(functions.find(b"l"), None);
    assert_eq!((functions.libraries(), functions.count()), (2, 3));
    let matching: Vec<_> = functions.matching(Some(b"L")).map(|library| &*library.name).collect();
    assert_eq!(matching, [b"l"]);
}

#[test]
fn names_that_differ_in_case_are_two_functions_and_one_is_called() {
    let mut functions = registry(&[("l", &["f", "F"])]);
    assert_eq!(functions.count(), 2);
    assert_eq!(functions.find(b"F").map(|found| found.index), Some(0));
    assert!(functions.remove(b"l").is_some());
    assert_eq!((functions.count(), functions.find(b"f")), (0, None));
    assert_eq!(functions.bytes, 0);
}

#[test]
fn a_library_takes_the_place_of_one_of_its_name_only_where_that_is_wanted() {
    let mut functions = registry(&[("l", &["a", "b"]), ("m", &["c"])]);
    let load = |code: Arc<[u8]>| {
        let head = library_head(&code).unwrap();
        load_library(head, code, LIMITS, &mut LibraryImages::default(), &mut CountedWatch::until(u64::MAX))
            .unwrap()
    };
    let error = functions.add(load(code("l", &["x"])), false).unwrap_err();
    assert_eq!(error, b"Library 'l' already exists");
    let error = functions.add(load(code("l", &["a", "C"])), true).unwrap_err();
    assert_eq!(error, b"Function C already exists");
    assert_eq!(shown(&functions), ["l: a b", "m: c"]);
    assert!(functions.add(load(code("l", &["b", "x"])), true).unwrap().is_some());
    assert_eq!(shown(&functions), ["l: b x", "m: c"]);
    assert_eq!(functions.find(b"a"), None);
}

#[test]
fn registries_are_joined_or_left_as_they_are() {
    let other = || registry(&[("l", &["a"]), ("n", &["d"])]);
    let mut functions = registry(&[("l", &["a", "b"]), ("m", &["c"])]);
    assert_eq!(functions.join(other(), false).unwrap_err(), b"Library l already exists");
    let collides = registry(&[("l", &["a"]), ("n", &["c"])]);
    assert_eq!(functions.join(collides, true).unwrap_err(), b"Function c already exists");
    assert_eq!(shown(&functions), ["l: a b", "m: c"]);
    assert_eq!(shown(&functions.join(other(), true).unwrap()), ["l: a b"]);
    assert_eq!(shown(&functions), ["l: a", "m: c", "n: d"]);
    // A function's name may move from one library to another in the same join.
    let swapped = registry(&[("l", &["d"]), ("n", &["a"])]);
    functions.join(swapped, true).unwrap();
    assert_eq!(shown(&functions), ["l: d", "m: c", "n: a"]);
}
