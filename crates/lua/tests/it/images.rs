//! Tests of machines that are made from an image: they must behave like separate machines, and share no state
//! that programs can change.

use super::common::{PLENTY, answer_of, machine, text};
use sluice_lua::{Kind, RunOutcome, Value, Vm, VmImage, compile};

const LIMIT: usize = 64 << 20;

fn image() -> VmImage {
    machine(LIMIT).into_image()
}

#[test]
fn programs_answer_what_they_answer_in_a_machine_of_its_own() {
    let image = image();
    for line in include_str!("../oracle/lines.txt").lines() {
        let own = answer_of(&mut machine(LIMIT), line);
        let mut vm = Vm::of_image(&image, LIMIT).expect("room");
        assert_eq!(answer_of(&mut vm, line), own, "{line}");
        while !vm.collect(64) {}
        assert_eq!(answer_of(&mut vm, line), own, "{line}, behind a collection");
    }
}

#[test]
fn what_an_image_has_is_not_written() {
    let image = image();
    let programs = [
        "string.x = 1",
        "math.pi = 3",
        "_G.x = 1",
        "x = 1",
        "rawset(math, 'pi', 3)",
        "table[1] = 1",
        "table.insert(math, 1)",
        "table.sort(setmetatable(string, nil))",
        "getmetatable('').__index = nil",
        "getmetatable('')[1] = 2",
        "for k in pairs(math) do math[k] = nil end",
    ];
    for program in programs {
        let mut vm = Vm::of_image(&image, LIMIT).expect("room");
        let told = answer_of(&mut vm, program);
        assert_eq!(told, answer_of(&mut machine(LIMIT), program));
        assert!(told.contains("readonly table"), "{program}: {told}");
        assert_eq!(
            answer_of(&mut vm, "return math.pi > 3.1, ('x'):upper(), next(math) ~= nil"),
            "true X true"
        );
    }
}

#[test]
fn the_collector_leaves_what_an_image_has() {
    let mut vm = Vm::of_image(&image(), LIMIT).expect("room");
    let program = "local w = setmetatable({}, {__mode = 'kv'}) w[math] = string w[1] = math.floor w[math.floor] = 'abs' \
        w[2] = {} for i = 1, 200 do w[{}] = i end collectgarbage() collectgarbage() \
        return w[math] == string, w[1] == math.floor, w[math.floor], w[2], math[w[math.floor]](-2), ('a'):rep(3)";
    for _ in 0..3 {
        assert_eq!(answer_of(&mut vm, program), "true true abs nil 2 aaa");
        while !vm.collect(16) {}
    }
}

#[test]
fn the_limit_counts_what_an_image_has_and_the_footprint_does_not() {
    let image = image();
    let one = Vm::of_image(&image, LIMIT).expect("room");
    assert!(image.footprint() > 20_000, "{} bytes", image.footprint());
    assert!(one.bytes() > 12_000 && one.footprint() < 4096, "{} and {}", one.bytes(), one.footprint());
    assert!(Vm::of_image(&image, 10_000).is_err());
}

#[test]
fn functions_get_other_globals() {
    let mut vm = Vm::new(LIMIT).expect("room");
    let later = vm.heap().new_table(0, 4).expect("room");
    vm.heap().set_text(later, b"here", Value::TRUE).expect("room");
    vm.pin(later.into());
    vm.seal(true);
    let mut vm = Vm::of_image(&vm.into_image(), LIMIT).expect("room");
    let program = compile(b"return function() return here end, loadstring('return here')", b"=test");
    let (chunk, _) = vm.load_owned(program.expect("a program")).expect("room");
    let mut run = vm.start(chunk);
    assert!(matches!(run.resume_unwatched(PLENTY), RunOutcome::Done));
    let functions = run.results().to_vec();
    let pins: Vec<_> = functions.iter().map(|function| vm.pin(*function)).collect();
    vm.replace_globals(later);
    vm.end_and_keep();
    assert!(vm.unload(chunk));
    while !vm.collect(64) {}
    for pin in pins {
        let function = vm.pinned(pin);
        assert_eq!(function.kind(), Kind::Closure);
        let mut run = vm.start_call(function, &[]);
        assert!(matches!(run.resume_unwatched(PLENTY), RunOutcome::Done));
        assert_eq!(run.results(), [Value::TRUE]);
    }
    drop(vm.end());
}

#[test]
fn machines_share_a_stack() {
    let image = image();
    let mut machines = [0, 1].map(|_| Vm::of_image(&image, LIMIT).expect("room"));
    let mut stack = sluice_lua::RunStack::default();
    for round in 0..6 {
        let vm = &mut machines[round % 2];
        vm.give_stack(stack);
        let source = format!(
            "local function f(n) if n == 0 then return {round} end return (f(n - 1)) end return f({})",
            50 * round
        );
        assert_eq!(answer_of(vm, &source), round.to_string());
        drop(vm.end());
        assert!(vm.footprint() > 4096);
        stack = vm.take_stack();
        assert!(stack.footprint() >= 4096 && vm.footprint() < 4096, "{}", vm.footprint());
    }
    // During a run, the machine keeps its stack.
    let vm = &mut machines[0];
    vm.give_stack(stack);
    let chunk = vm.load(&compile(b"return 1", b"=test").expect("a program")).expect("room");
    vm.start(chunk);
    assert_eq!(vm.take_stack().footprint(), 0);
    let mut run = vm.run().expect("it is open");
    assert!(matches!(run.resume_unwatched(PLENTY), RunOutcome::Done));
    let value = run.results()[0];
    assert_eq!(text(vm, value), "1");
}
