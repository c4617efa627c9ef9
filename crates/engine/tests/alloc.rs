//! Tests that the most common commands allocate nothing once their buffers exist.
#![allow(missing_docs)]

use sluice_base::SessionKey;
use sluice_engine::DeclaredKeysCheck;
use sluice_resp::{AuthState, ParseLimits, Parser, Requests};
use sluice_testkit::Rig;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    /// Number of allocations of this thread. The counter is per thread, so that tests may run in parallel.
    static COUNT: Cell<usize> = const { Cell::new(0) };
    /// Bytes of the allocations that `COUNT` counts.
    static BYTES: Cell<usize> = const { Cell::new(0) };
    /// Bytes that this thread has allocated and not freed.
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

fn count_one(bytes: usize) {
    // A thread that ends has no counters any more, and no test reads them.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
    let _ = BYTES.try_with(|count| count.set(count.get() + bytes));
}

fn live(change: isize) {
    let _ = LIVE.try_with(|live| live.set(live.get() + change));
}

// SAFETY: every method does what `System` does, with the same arguments; counting does not allocate, since
// the counter is initialised by a constant and has nothing to drop.
// JUSTIFICATION: allocations can be counted nowhere else.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_one(layout.size());
        live(layout.size() as isize);
        // SAFETY: the caller's promise to us is `System`'s condition.
        // JUSTIFICATION: forwarding.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        live(-(layout.size() as isize));
        // SAFETY: `at` came from `System` with this layout.
        // JUSTIFICATION: forwarding.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_one(size);
        live(size as isize - layout.size() as isize);
        // SAFETY: `at` came from `System` with this layout; the caller answers for `size`.
        // JUSTIFICATION: forwarding.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A client whose outboxes are sent and recycled as in the server.
struct Warm {
    rig: Rig,
    client: SessionKey,
    parser: Parser,
    requests: Requests,
    ready: Vec<SessionKey>,
}

impl Warm {
    fn new() -> Warm {
        let mut rig = Rig::new();
        // The check of declared keys, which exists only in builds with debug assertions, allocates a list.
        rig.engine.check_keys(DeclaredKeysCheck::Off);
        let client = rig.client;
        let (parser, requests) = (Parser::new(), Requests::new());
        Warm { rig, client, parser, requests, ready: Vec::new() }
    }

    fn send(&mut self, input: &[u8]) {
        let limits = ParseLimits::new(AuthState::Authenticated, 512 << 20, 1024);
        self.requests.clear();
        let progress = self.parser.parse(input, &limits, &mut self.requests);
        assert_eq!(progress.consumed, input.len());
        let done = self.rig.engine.submit(self.client, input, &self.requests, &mut self.rig.process);
        assert_eq!(done.executed, self.requests.len());
        self.rig.engine.take_ready(&mut self.ready);
        self.ready.clear();
        let (outbox, _) = self.rig.engine.take_output(self.client).expect("the session is there");
        assert!(!outbox.is_empty());
        self.rig.engine.sent(
            self.client,
            outbox.len(),
            sluice_control::process::ProcessClock::now(&mut self.rig.process),
        );
        self.rig.engine.recycle(outbox);
    }

    /// Number of allocations in 200 rounds, after 50 rounds that may allocate.
    fn allocations(&mut self, input: &[u8]) -> usize {
        (0..50).for_each(|_| self.send(input));
        let before = COUNT.get();
        (0..200).for_each(|_| self.send(input));
        COUNT.get() - before
    }
}

fn batch(lines: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        words
            .iter()
            .for_each(|word| bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes()));
    }
    bytes
}

#[track_caller]
fn check(setup: &str, lines: &[&str]) {
    let mut warm = Warm::new();
    warm.rig.run(setup);
    assert_eq!(warm.allocations(&batch(lines)), 0, "allocations of {lines:?}");
}

#[test]
fn counting_counts() {
    let before = COUNT.get();
    drop(std::hint::black_box(vec![1u8; 100]));
    assert_eq!(COUNT.get() - before, 1);
    let mut warm = Warm::new();
    let large = "x".repeat(5000);
    assert!(warm.allocations(&batch(&[&format!("SET key {large}")])) >= 200);
}

#[test]
fn get_allocates_nothing() {
    check("SET key value", &["GET key"]);
    check("SET key 12345", &["GET key", "GET none", "GET key"]);
    let large = "x".repeat(5000);
    check(&format!("SET key {large}"), &["GET key"]);
}

#[test]
fn set_of_an_existing_key_in_its_size_class_allocates_nothing() {
    check("SET key value", &["SET key other"]);
    check("SET key value", &["SET key 1234567", "SET key 1"]);
    check(
        "SET key value",
        &["SET key value1 PX 100000", "SET key value2 KEEPTTL", "SET key value3 XX EX 100"],
    );
    // The value alternates between two size classes, so it is moved within the slab.
    check("SET key value", &["SET key a-value-of-more-bytes-than-the-block-has", "SET key value"]);
}

#[test]
fn incr_allocates_nothing() {
    check("SET key 10", &["INCR key", "INCRBY key 100", "DECR key", "DECRBY key 99"]);
    check("SET other 1", &["INCR key"]);
}

#[test]
fn commands_on_many_keys_allocate_nothing() {
    check("MSET a 1 b value c 3", &["MGET a b c none", "MSET a 2 b other c 4"]);
    check("SET key 10", &["STRLEN key", "GETRANGE key 0 0", "SETNX key 1", "SETRANGE key 1 7"]);
}

#[test]
fn setrange_far_behind_the_end_allocates_no_zeros() {
    for setup in ["SET o 1", "SET key short", "SET key 12345"] {
        let mut warm = Warm::new();
        warm.rig.run(setup);
        let input = batch(&["SETRANGE key 4194304 end"]);
        let before = BYTES.get();
        warm.send(&input);
        let bytes = BYTES.get() - before;
        // The bytes are at most two pages, and the list of chunks that leads to them.
        assert!(bytes < (2 << 16) + (32 << 10), "after {setup}: {bytes} bytes allocated");
        assert_eq!(warm.rig.run("STRLEN key"), ":4194307");
    }
}

/// The sum of `tot-mem` over all clients, as CLIENT LIST shows it.
fn total_memory(rig: &mut Rig) -> isize {
    let list = rig.run("CLIENT LIST");
    let fields = list.split("tot-mem=").skip(1);
    fields.map(|rest| rest.split(' ').next().and_then(|n| n.parse::<isize>().ok()).expect("a number")).sum()
}

/// The memory of a postponed request is counted in CLIENT LIST, and is freed when the request has run or its
/// client is gone.
#[test]
fn ten_thousand_postponed_clients_are_counted_and_their_memory_comes_back() {
    const CLIENTS: usize = 10_000;
    const VALUE: usize = 64 << 10;
    let mut rig = Rig::new();
    let value = vec![b'v'; VALUE];
    let clients: Vec<SessionKey> = (0..CLIENTS).map(|_| rig.connect()).collect();
    for &client in &clients {
        // These requests make the allocations that a client keeps for good.
        assert_eq!(rig.argv(client, &[b"SET", b"key", &value]), b"+OK\r\n");
    }
    // The first CLIENT LIST allocates buffers that are kept, too.
    total_memory(&mut rig);
    let (counted, used) = (total_memory(&mut rig), LIVE.get());
    rig.check("CLIENT PAUSE 100000 WRITE", "+OK");
    for &client in &clients {
        assert!(rig.argv(client, &[b"SET", b"key", &value]).is_empty(), "it waits");
    }
    let (counted_more, used_more) = (total_memory(&mut rig) - counted, LIVE.get() - used);
    let requests = (CLIENTS * VALUE) as isize;
    assert!(used_more >= requests, "{used_more} bytes hold {requests}");
    assert!(
        (used_more - counted_more).abs() < used_more / 50,
        "tot-mem grew by {counted_more} bytes, the memory in use by {used_more}"
    );
    for &client in &clients[CLIENTS / 2..] {
        rig.engine.disconnect(client, &mut rig.process);
    }
    let left = LIVE.get() - used;
    assert!(left < used_more * 51 / 100, "{left} of {used_more} bytes are left with half of the clients");
    rig.check("CLIENT UNPAUSE", "+OK");
    rig.actions.clear();
    for &client in &clients[..CLIENTS / 2] {
        assert_eq!(rig.output(client), b"+OK\r\n");
    }
    let (counted_left, used_left) = (total_memory(&mut rig) - counted, LIVE.get() - used);
    assert!(counted_left < 1 << 20, "tot-mem is back: {counted_left} bytes above what it was");
    assert!(used_left < 1 << 20, "the memory is back: {used_left} bytes above what it was");
}

#[test]
fn a_compressed_string_is_restored_without_a_second_copy() {
    let mut warm = Warm::new();
    let len = 60_000;
    warm.rig.run(&format!("SET k {}", "v".repeat(len)));
    let dumped = warm.rig.argv(warm.client, &[b"DUMP", b"k"]);
    let begin = dumped.windows(2).position(|two| two == b"\r\n").expect("a header") + 2;
    let payload = &dumped[begin..dumped.len() - 2];
    assert!(payload.len() < 2000, "it is compressed");
    let mut request =
        format!("*4\r\n$7\r\nRESTORE\r\n$1\r\nn\r\n$1\r\n0\r\n${}\r\n", payload.len()).into_bytes();
    request.extend_from_slice(payload);
    request.extend_from_slice(b"\r\n");
    let before = BYTES.get();
    warm.send(&request);
    let allocated = BYTES.get() - before;
    assert!((len..len + len / 2).contains(&allocated), "{allocated}");
    warm.rig.check("STRLEN n", ":60000");
    warm.rig.check("STRLEN k", ":60000");
}
