use super::*;
use crate::decode::{Value, decode};
use sluice_base::Rng;

fn written(protocol: Protocol, write: impl FnOnce(&mut Reply<'_>)) -> String {
    let mut outbox = Outbox::new();
    write(&mut Reply::new(&mut outbox, protocol));
    assert_eq!(outbox.len(), outbox.flatten().len());
    String::from_utf8_lossy(&outbox.flatten()).into_owned()
}

/// Checks what `write` writes in both versions of the protocol.
fn check(write: impl Fn(&mut Reply<'_>), resp2: &str, resp3: &str) {
    assert_eq!(written(Protocol::Resp2, &write), resp2);
    assert_eq!(written(Protocol::Resp3, &write), resp3);
}

#[test]
fn values_are_written_as_each_version_has_them() {
    check(|reply| reply.ok(), "+OK\r\n", "+OK\r\n");
    check(|reply| reply.simple(b"PONG"), "+PONG\r\n", "+PONG\r\n");
    check(|reply| reply.error(b"ERR no"), "-ERR no\r\n", "-ERR no\r\n");
    check(|reply| reply.bulk(b"a\r\nb"), "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n");
    check(|reply| reply.bulk(b""), "$0\r\n\r\n", "$0\r\n\r\n");
    check(|reply| reply.bulk_int(-12), "$3\r\n-12\r\n", "$3\r\n-12\r\n");
    check(|reply| reply.null(), "$-1\r\n", "_\r\n");
    check(|reply| reply.null_array(), "*-1\r\n", "_\r\n");
    check(|reply| reply.array(12), "*12\r\n", "*12\r\n");
    check(|reply| reply.map(5), "*10\r\n", "%5\r\n");
    check(|reply| reply.set(3), "*3\r\n", "~3\r\n");
    check(|reply| reply.push(3), "*3\r\n", ">3\r\n");
    check(|reply| assert_eq!(reply.attribute(1), reply.protocol() == Protocol::Resp3), "", "|1\r\n");
    check(|reply| reply.double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n");
    check(|reply| reply.double_text(b"1.25"), "$4\r\n1.25\r\n", ",1.25\r\n");
    check(|reply| reply.double(-0.0), "$2\r\n-0\r\n", ",-0\r\n");
    check(|reply| reply.double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n");
    check(|reply| reply.bulk_double(1e21), "$5\r\n1e+21\r\n", "$5\r\n1e+21\r\n");
    check(|reply| reply.boolean(true), ":1\r\n", "#t\r\n");
    check(|reply| reply.boolean(false), ":0\r\n", "#f\r\n");
    check(|reply| reply.big_number(b"123"), "$3\r\n123\r\n", "(123\r\n");
    check(|reply| reply.verbatim(b"txt", b"abc"), "$3\r\nabc\r\n", "=7\r\ntxt:abc\r\n");
}

#[test]
fn integers_of_any_width_are_written() {
    for value in (-1..=1001).chain([-9, i64::MAX, i64::MIN]) {
        check(|reply| reply.int(value), &format!(":{value}\r\n"), &format!(":{value}\r\n"));
    }
}

#[test]
fn line_ends_in_lines_become_spaces() {
    assert_eq!(
        written(Protocol::Resp2, |reply| reply.error(b"ERR got '\r' \n x\r\n\r\n")),
        "-ERR got ' '   x\r\n"
    );
    assert_eq!(written(Protocol::Resp2, |reply| reply.error(b"\r\n")), "-\r\n");
    assert_eq!(written(Protocol::Resp2, |reply| reply.simple(b"a\rb\nc")), "+a b c\r\n");
    assert_eq!(written(Protocol::Resp3, |reply| reply.big_number(b"12\r3")), "(12 3\r\n");
}

#[test]
fn deferred_lengths_may_nest_and_have_any_number_of_digits() {
    let text = written(Protocol::Resp3, |reply| {
        let outer = reply.defer();
        for _ in 0..12 {
            let inner = reply.defer();
            reply.int(7);
            reply.int(8);
            reply.end_map(inner, 1);
        }
        let set = reply.defer();
        reply.end_set(set, 0);
        reply.end_array(outer, 13);
    });
    assert_eq!(text, format!("*13\r\n{}~0\r\n", "%1\r\n:7\r\n:8\r\n".repeat(12)));
}

#[test]
fn large_values_are_shared_and_deferred_headers_keep_their_position() {
    let large = Bytes::from_vec(vec![b'x'; SHARED_BYTES_MIN]);
    let small = Bytes::copy_from(b"small");
    let mut outbox = Outbox::new();
    let mut reply = Reply::new(&mut outbox, Protocol::Resp2);
    reply.bulk_shared(&large);
    let deferred = reply.defer();
    for _ in 0..10 {
        reply.bulk_shared(&large);
        reply.bulk_shared(&small);
    }
    reply.end_array(deferred, 20);
    assert_eq!(outbox.segments().filter(|run| run.len() == large.len()).count(), 11);
    assert!(large.is_shared());
    assert!(!small.is_shared());
    let flat = outbox.flatten();
    let (first, len) = decode(&flat).expect("valid").expect("complete");
    assert_eq!(first, Value::Bulk(large.to_vec()));
    let (second, _) = decode(&flat[len..]).expect("valid").expect("complete");
    let pair = [Value::Bulk(large.to_vec()), Value::Bulk(small.to_vec())];
    assert_eq!(second, Value::Array(pair.iter().cycle().take(20).cloned().collect()));
}

/// After random operations, an outbox holds the same bytes as a plain vector after the same operations.
#[test]
fn an_outbox_is_the_concatenation_of_what_was_pushed() {
    let mut rng = Rng::new(51);
    for _ in 0..500 {
        let mut outbox = Outbox::new();
        let mut model: Vec<u8> = Vec::new();
        let mut mark = (outbox.mark(), 0);
        for _ in 0..rng.below(40) {
            let bytes: Vec<u8> = (0..rng.below(6)).map(|_| rng.next_u64() as u8).collect();
            match rng.below(6) {
                0 | 1 => {
                    outbox.push(&bytes);
                    model.extend(&bytes);
                }
                2 => {
                    model.extend(&bytes);
                    outbox.push_shared(Bytes::from_vec(bytes));
                }
                3 => mark = (outbox.mark(), model.len()),
                4 => {
                    outbox.rewind(mark.0);
                    model.truncate(mark.1);
                }
                _ => {
                    let mut other = Outbox::new();
                    other.push(b"<");
                    other.push_shared(Bytes::copy_from(&bytes));
                    other.push(b">");
                    outbox.append(&mut other);
                    assert!(other.is_empty());
                    assert_eq!(other.len(), 0);
                    model.extend([b"<", &bytes[..], b">"].concat());
                }
            }
            assert_eq!(outbox.flatten(), model);
            assert_eq!(outbox.len(), model.len());
            assert_eq!(outbox.is_empty(), model.is_empty());
        }
        outbox.clear();
        assert!(outbox.is_empty());
    }
}
