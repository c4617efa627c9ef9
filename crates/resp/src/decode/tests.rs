use super::*;
use sluice_base::Rng;

fn text(bytes: &[u8]) -> Vec<u8> {
    bytes.to_vec()
}

#[test]
fn every_type_is_decoded() {
    let table: [(&[u8], Value); 19] = [
        (b"+OK\r\n", Value::Simple(text(b"OK"))),
        (b"-ERR x\r\n", Value::Error(text(b"ERR x"))),
        (b":-12\r\n", Value::Int(-12)),
        (b"$3\r\na\r\n\r\n", Value::Bulk(text(b"a\r\n"))),
        (b"$-1\r\n", Value::NullBulk),
        (b"*-1\r\n", Value::NullArray),
        (b"_\r\n", Value::Null),
        (b"#t\r\n", Value::Boolean(true)),
        (b"#f\r\n", Value::Boolean(false)),
        (b",1.5e+21\r\n", Value::Double(text(b"1.5e+21"))),
        (b",-inf\r\n", Value::Double(text(b"-inf"))),
        (b"(-123\r\n", Value::BigNumber(text(b"-123"))),
        (b"=7\r\ntxt:abc\r\n", Value::Verbatim(*b"txt", text(b"abc"))),
        (b"!5\r\nERR x\r\n", Value::BulkError(text(b"ERR x"))),
        (b"*2\r\n:1\r\n*0\r\n", Value::Array(vec![Value::Int(1), Value::Array(vec![])])),
        (b"~1\r\n_\r\n", Value::Set(vec![Value::Null])),
        (b">1\r\n:1\r\n", Value::Push(vec![Value::Int(1)])),
        (b"%1\r\n:1\r\n:2\r\n", Value::Map(vec![(Value::Int(1), Value::Int(2))])),
        (
            b"|1\r\n+k\r\n:1\r\n:2\r\n",
            Value::Attributed(vec![(Value::Simple(text(b"k")), Value::Int(1))], Box::new(Value::Int(2))),
        ),
    ];
    for (bytes, value) in table {
        for tail in [&b""[..], b"+more\r\n"] {
            let input = [bytes, tail].concat();
            assert_eq!(decode(&input), Ok(Some((value.clone(), bytes.len()))), "{}", bytes.escape_ascii());
        }
        for end in 0..bytes.len() {
            assert_eq!(decode(&bytes[..end]), Ok(None), "{} cut at {end}", bytes.escape_ascii());
        }
    }
}

#[test]
fn what_is_no_reply_is_refused_where_it_begins() {
    let table: [(&[u8], usize); 14] = [
        (b"x", 0),
        (b"+OK\rX", 0),
        (b":a\r\n", 0),
        (b":01\r\n", 0),
        (b"$-2\r\n", 0),
        (b"$1\r\nabc", 0),
        (b"*-2\r\n", 0),
        (b"*1\r\n:x\r\n", 4),
        (b"#x\r\n", 0),
        (b",x\r\n", 0),
        (b"(\r\n", 0),
        (b"=3\r\nabc\r\n", 0),
        (b"_x\r\n", 0),
        (b"~-1\r\n", 0),
    ];
    for (bytes, offset) in table {
        assert_eq!(decode(bytes), Err(DecodeError { offset }), "{}", bytes.escape_ascii());
    }
}

#[test]
fn nesting_and_counts_are_not_trusted() {
    assert!(decode(&b"*1\r\n".repeat(100_000)).is_err());
    assert_eq!(decode(b"*1000000000000\r\n"), Ok(None));
    assert_eq!(decode(b"$18446744073709551615\r\nabc"), Ok(None));
}

#[test]
fn any_bytes_may_be_fuzzed() {
    let mut rng = Rng::new(61);
    const PIECES: [&[u8]; 14] = [
        b"*2\r\n",
        b"%1\r\n",
        b"|1\r\n",
        b"$3\r\nabc\r\n",
        b":1\r\n",
        b"_\r\n",
        b"+x\r\n",
        b"#t\r\n",
        b",1\r\n",
        b"=5\r\ntxt:a\r\n",
        b"\r",
        b"9",
        b"~1\r\n",
        b"*-1\r\n",
    ];
    let mut whole = 0;
    for _ in 0..50_000 {
        let mut data = Vec::new();
        for _ in 0..1 + rng.below(8) {
            data.extend_from_slice(PIECES[rng.below(14) as usize]);
        }
        whole += u32::from(matches!(decode(&data), Ok(Some(_))));
        fuzz_reply(&data);
    }
    assert!(whole > 5000);
}
