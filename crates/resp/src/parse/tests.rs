use super::*;
use crate::OwnedRequests;
use sluice_base::Rng;

fn open(batch_max: usize) -> ParseLimits {
    ParseLimits::new(AuthState::Authenticated, 512 << 20, batch_max)
}

/// Parses a stream that arrives at once. The result is text: requests joined by `/`, then the error, or the
/// number of bytes left if there are any.
fn says(stream: &[u8], limits: &ParseLimits) -> String {
    let (requests, end) = replay(stream, limits, &mut |rest| rest);
    let mut shown: Vec<String> = requests.iter().map(|request| show(request)).collect();
    match end {
        Ok(0) => {}
        Ok(left) => shown.push(format!("+{left}")),
        Err(error) => shown.push(format!("{error:?}")),
    }
    shown.join("/")
}

fn show(request: &[Vec<u8>]) -> String {
    request.iter().map(|arg| arg.escape_ascii().to_string()).collect::<Vec<_>>().join(",")
}

#[test]
fn streams_say_what_the_reference_understands() {
    let table: [(&[u8], &str); 64] = [
        (b"*1\r\n$4\r\nPING\r\n", "PING"),
        (b"*2\r\n$3\r\nGET\r\n$10\r\n0123456789\r\n", "GET,0123456789"),
        (b"*1\r\n$0\r\n\r\n", ""),
        (b"*0\r\nPING\r\n", "PING"),
        (b"*-1\r\nPING\r\n", "PING"),
        (b"*-9223372036854775808\r\nPING\r\n", "PING"),
        (b"*-9223372036854775809\r\nPING\r\n", "InvalidCount"),
        (b"*2147483647\r\n", "+13"),
        (b"*2147483648\r\n", "InvalidCount"),
        (b"*+1\r\n", "InvalidCount"),
        (b"* 1\r\n", "InvalidCount"),
        (b"*01\r\n", "InvalidCount"),
        (b"*-0\r\n", "InvalidCount"),
        (b"*00\r\n", "InvalidCount"),
        (b"*\r\n", "InvalidCount"),
        (b"*abc\r\n", "InvalidCount"),
        (b"*\x001\r\n", "InvalidCount"),
        (b"*99999999999999999999\r\n", "InvalidCount"),
        (b"*1\n$4\nPING\n", "+11"),
        (b"*1\n$4\r\nPING\r\n", "InvalidCount"),
        (b"*1\r", "+3"),
        (b"*1\rX", "InvalidCrlf"),
        (b"*abc\rX", "InvalidCrlf"),
        (b"*0\rXPING\r\n", "InvalidCrlf"),
        (b"*1\r\n$4\rX", "InvalidCrlf"),
        (b"*1\r\n$x\rX", "InvalidCrlf"),
        (b"*1\r\n$4\nPING\r\n", "InvalidLength"),
        (b"*1\r\n$4\r\nPINGX", "+13"),
        (b"*1\r\n$4\r\nPINGXY", "InvalidCrlf"),
        (b"*1\r\n$4\r\nPING\rX", "InvalidCrlf"),
        (b"*1\r\n$4\r\nPINGX\n", "InvalidCrlf"),
        (b"*1\r\n$-1\r\n", "InvalidLength"),
        (b"*1\r\n$-0\r\n", "InvalidLength"),
        (b"*1\r\n$04\r\nPING\r\n", "InvalidLength"),
        (b"*1\r\n$+4\r\n", "InvalidLength"),
        (b"*1\r\n$4\x00\r\nPING\r\n", "InvalidLength"),
        (b"*1\r\n$\r\n", "InvalidLength"),
        (b"*1\r\n$536870912\r\n", "+16"),
        (b"*1\r\n$536870913\r\n", "InvalidLength"),
        (b"*1\r\n$99999999999999999999\r\n", "InvalidLength"),
        (b"*1\r\n!4\r\n", "ExpectedDollar(33)"),
        (b"*1\r\n!4\rX", "ExpectedDollar(33)"),
        (b"*1\r\n!4\r", "+7"),
        (b"*1\r\nA", "+5"),
        (b"*1\r\n\r\n", "ExpectedDollar(13)"),
        (b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n:1\r\n", "ExpectedDollar(58)"),
        (b"*1\r\n$4\r\nPING\r\n\r\n*1\r\n$4\r\nPING\r\n", "PING/PING"),
        (b"*1\r\n$4\r\nPING\r\nPING\r\n*x\r\nPING\r\n", "PING/PING/InvalidCount"),
        (b"PING\r\n", "PING"),
        (b"PING\n", "PING"),
        (b"PING\r\r\n", "PING"),
        (b"PING\r", "+5"),
        (b"\r\n\n  \t\r\nPING\n", "PING"),
        (b"ECHO a\rb\r\n", "ECHO,a,b"),
        (b"ECHO \t\x0b\x0ca\r\n", "ECHO,a"),
        (b"ECHO \"a b\"c 'd'\r\n", "ECHO,a bc,d"),
        (b"ECHO \"\\x41\\n\"\r\n", "ECHO,A\\n"),
        (b"ECHO \"a\\\"\r\n", "ECHO,a\\\\"),
        (b"ECHO \"a\r\nPING\r\n", "UnbalancedQuotes"),
        (b"ECHO 'a\n", "UnbalancedQuotes"),
        (b"\"\"\r\nPING\r\n", "/PING"),
        (b"PI\x00NG\r\nPING\r\n", "+13"),
        (b"PING\r\n\x00\r\n", "PING/+3"),
        (b"SET k v\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", "SET,k,v/GET,k"),
    ];
    for (stream, expected) in table {
        assert_eq!(says(stream, &open(16)), expected, "{}", stream.escape_ascii());
    }
}

#[test]
fn lines_without_an_end_in_sight_are_refused_beyond_64_kib() {
    for (start, fits, error) in [
        (&b"A"[..], 65536, "BigInline"),
        (b"PI\x00NG\r\n", 65536, "BigInline"),
        (b"*1", 65536, "BigCount"),
        (b"*1\r\n$1", 65540, "BigLength"),
        (b"*1\r\n!", 65540, "BigLength"),
    ] {
        let mut stream = start.to_vec();
        stream.resize(fits, b'1');
        assert_eq!(says(&stream, &open(16)), format!("+{fits}"));
        stream.push(b'1');
        assert_eq!(says(&stream, &open(16)), error);
    }
    let long = [&b"PING "[..], &b"A".repeat(70_000), b"\r\n"].concat();
    assert_eq!(says(&long, &open(16)).len(), 70_005);
}

#[test]
fn before_auth_requests_are_small() {
    let limits = ParseLimits::new(AuthState::Unauthenticated, 512 << 20, 16);
    let table: [(&str, &str); 7] = [
        ("*10\r\n", "+5"),
        ("*11\r\n", "UnauthenticatedCount"),
        ("*2147483648\r\n", "InvalidCount"),
        ("*1\r\n$16384\r\n", "+12"),
        ("*1\r\n$16385\r\n", "UnauthenticatedLength"),
        ("*1\r\n$536870913\r\n", "InvalidLength"),
        ("PING\r\nPING\r\n", "PING/PING"),
    ];
    for (stream, expected) in table {
        assert_eq!(says(stream.as_bytes(), &limits), expected, "{stream:?}");
    }
}

#[test]
fn before_auth_a_call_gives_one_request_since_limits_may_change_after_it() {
    let stream = b"PING\r\n*1\r\n$4\r\nPING\r\n";
    let mut out = Requests::new();
    let limits = ParseLimits::new(AuthState::Unauthenticated, 1 << 20, 16);
    let progress = Parser::new().parse(stream, &limits, &mut out);
    assert_eq!(progress, Progress { consumed: 6, state: State::Full });
    assert_eq!(out.len(), 1);
}

#[test]
fn a_call_gives_no_more_than_the_batch() {
    let stream = b"PING\r\n".repeat(10);
    let mut out = Requests::new();
    let mut parser = Parser::new();
    let progress = parser.parse(&stream, &open(4), &mut out);
    assert_eq!(progress, Progress { consumed: 24, state: State::Full });
    assert_eq!(out.len(), 4);
    let progress = parser.parse(&stream[24..], &open(6), &mut out);
    assert_eq!(progress, Progress { consumed: 36, state: State::Starved });
    assert_eq!(out.len(), 6);
}

#[test]
fn a_request_keeps_its_raw_bytes() {
    let stream = b"\r\nSET k v\r\n*0\r\n*1\r\n$4\r\nPING\r\n";
    let mut out = Requests::new();
    Parser::new().parse(stream, &open(16), &mut out);
    assert_eq!(out.at(0, stream).raw(), b"SET k v\r\n");
    assert_eq!(out.at(1, stream).raw(), b"*1\r\n$4\r\nPING\r\n");
    assert_eq!(out.at(1, stream).spans().len(), 1);
    assert_eq!(out.at(1, stream).arg(0), b"PING");
}

#[test]
fn http_is_recognised_by_its_first_word() {
    let stream = b"post / HTTP/1.0\r\nHost: x\r\n*1\r\n$4\r\nPOST\r\nhost x\r\nGET / HTTP/1.1\r\n";
    let mut out = Requests::new();
    Parser::new().parse(stream, &open(16), &mut out);
    let found: Vec<bool> = out.iter(stream).map(|request| request.is_http()).collect();
    assert_eq!(found, [true, true, true, false, false]);
}

#[test]
fn what_is_missing_of_an_argument_is_known() {
    let mut parser = Parser::new();
    let mut out = Requests::new();
    let stream = b"PING\r\n*2\r\n$4\r\nECHO\r\n$100000\r\nabc";
    let progress = parser.parse(stream, &open(16), &mut out);
    assert_eq!(progress, Progress { consumed: 6, state: State::Starved });
    assert_eq!(out.len(), 1);
    assert_eq!(parser.wanted(), 100_002 - 3);
    assert_eq!(parser.at(), 23);
    let rest = [&stream[6..], &[b'x'; 99_997], b"\r\n"].concat();
    let progress = parser.parse(&rest, &open(16), &mut out);
    assert_eq!(progress, Progress { consumed: rest.len(), state: State::Starved });
    assert_eq!(parser.wanted(), 0);
    assert_eq!(out.at(0, &rest).arg(1).len(), 100_000);
}

#[test]
fn a_request_that_comes_in_pieces_is_not_read_again() {
    // The request has 200,000 arguments and arrives six bytes at a time, so quadratic work would take
    // minutes.
    let count = 200_000;
    let mut stream = format!("*{count}\r\n").into_bytes();
    stream.extend(b"$1\r\na\r\n".repeat(count));
    let mut parser = Parser::new();
    let mut out = Requests::new();
    for end in (0..stream.len()).step_by(6) {
        let before = parser.at();
        assert_eq!(parser.parse(&stream[..end], &open(16), &mut out).consumed, 0);
        assert!(parser.at() >= before);
        assert!(end - parser.at() < 7);
    }
    let progress = parser.parse(&stream, &open(16), &mut out);
    assert_eq!(progress.consumed, stream.len());
    assert_eq!(out.at(0, &stream).spans().len(), count);
}

#[test]
fn a_count_allocates_nothing() {
    let mut parser = Parser::new();
    let mut out = Requests::new();
    parser.parse(b"*2147483647\r\n$536870912\r\n", &open(16), &mut out);
    assert!(parser.capacity_bytes() < 4096);
    assert!(out.capacity_bytes() < 4096);
}

#[test]
fn messages_are_those_of_the_reference() {
    for (stream, message) in [
        ("*x\r\n", "ERR Protocol error: invalid multibulk length"),
        ("*1\r\n$x\r\n", "ERR Protocol error: invalid bulk length"),
        ("*1\r\n!x\r\n", "ERR Protocol error: expected '$', got '!'"),
        ("*1\rx\r\n", "ERR Protocol error: invalid CRLF in request"),
        ("\"\r\n", "ERR Protocol error: unbalanced quotes in request"),
    ] {
        let State::Failed(error) =
            Parser::new().parse(stream.as_bytes(), &open(16), &mut Requests::new()).state
        else {
            panic!("{stream:?} must fail")
        };
        assert_eq!(String::from_utf8_lossy(&error.message()), message);
    }
}

#[test]
fn every_split_gives_the_same_requests() {
    let mut rng = Rng::new(21);
    for round in 0..3000 {
        let stream = random_stream(&mut rng);
        let limits = open(1 + rng.below(20) as usize);
        let whole = replay(&stream, &limits, &mut |rest| rest);
        let single = replay(&stream, &limits, &mut |_| 1);
        assert_eq!(whole, single, "round {round}: {}", stream.escape_ascii());
        for _ in 0..5 {
            let step = 1 + rng.below(12);
            let pieces = replay(&stream, &limits, &mut |rest| (1 + rng.below(step) as usize).min(rest));
            assert_eq!(whole, pieces, "round {round}: {}", stream.escape_ascii());
        }
    }
}

#[test]
fn valid_streams_give_what_was_put_in_them() {
    let mut rng = Rng::new(22);
    for _ in 0..2000 {
        let mut stream = Vec::new();
        let mut expected = Vec::new();
        for _ in 0..rng.below(8) {
            let request: Vec<Vec<u8>> = (0..1 + rng.below(5)).map(|_| random_bytes(&mut rng, 130)).collect();
            if rng.below(4) == 0 {
                stream.extend(request.iter().flat_map(|arg| [quote::quoted(arg), b" ".to_vec()].concat()));
                stream.extend(b"\r\n");
            } else {
                stream.extend(format!("*{}\r\n", request.len()).bytes());
                for arg in &request {
                    stream.extend(format!("${}\r\n", arg.len()).bytes());
                    stream.extend([arg, &b"\r\n"[..]].concat());
                }
            }
            expected.push(request);
        }
        assert_eq!(replay(&stream, &open(3), &mut |rest| rest), (expected, Ok(0)));
    }
}

/// Replays a stream as `replay` does, but if a piece ends within an argument, this argument is received into
/// memory of its own. An unfinished request is dropped at the end.
fn replay_apart(
    stream: &[u8],
    limits: &ParseLimits,
    piece: &mut dyn FnMut(usize) -> usize,
) -> (Vec<Vec<Vec<u8>>>, Result<usize, ParseError>) {
    let (mut parser, mut out) = (Parser::new(), Requests::new());
    let (mut seen, mut input, mut rest) = (Vec::new(), Vec::new(), stream);
    loop {
        let progress = parser.parse(&input, limits, &mut out);
        for request in out.iter(&input) {
            let args: Vec<Vec<u8>> = request.args().map(<[u8]>::to_vec).collect();
            let copy = OwnedRequests::of(&request);
            assert_eq!(copy.at(0).args().collect::<Vec<_>>(), args);
            assert_eq!(copy.at(0).wire_len(), request.wire_len());
            seen.push(args);
        }
        input.drain(..progress.consumed);
        match progress.state {
            State::Failed(error) => return (seen, Err(error)),
            State::Full => continue,
            State::Starved => {}
        }
        if let Some(len) = parser.begun() {
            let mut apart = input.split_off(parser.at());
            let come = rest.len().min(len.saturating_sub(apart.len()));
            apart.extend_from_slice(&rest[..come]);
            rest = &rest[come..];
            let behind = apart.split_off(len.min(apart.len()));
            if apart.len() < len {
                return (seen, Ok(input.len() + parser.apart().bytes() + apart.len()));
            }
            parser.supply(Bytes::from_vec(apart));
            assert!(parser.apart().bytes() >= len);
            let missing = parser.missing(input.len() + behind.len());
            assert!(missing.is_none_or(|missing| missing <= 2));
            input.extend(behind);
        }
        if rest.is_empty() {
            return (seen, Ok(input.len() + parser.apart().bytes()));
        }
        let (come, later) = rest.split_at(piece(rest.len()));
        input.extend_from_slice(come);
        rest = later;
    }
}

#[test]
fn arguments_that_come_apart_read_as_those_of_the_input() {
    let mut rng = Rng::new(24);
    let mut apart = 0;
    for round in 0..3000 {
        let stream = random_stream(&mut rng);
        let limits = open(1 + rng.below(20) as usize);
        let whole = replay(&stream, &limits, &mut |rest| rest);
        apart += whole.0.len();
        assert_eq!(whole, replay_apart(&stream, &limits, &mut |_| 1), "{round}: {}", stream.escape_ascii());
        for _ in 0..5 {
            let step = 1 + rng.below(40);
            let pieces = replay_apart(&stream, &limits, &mut |rest| (1 + rng.below(step) as usize).min(rest));
            assert_eq!(whole, pieces, "{round}: {}", stream.escape_ascii());
        }
    }
    assert!(apart > 1000);
}

#[test]
fn what_is_missing_is_known_in_the_last_argument() {
    let (mut parser, mut out) = (Parser::new(), Requests::new());
    for (input, missing) in [
        (&b"*2\r\n$3\r\nGE"[..], None),
        (b"*2\r\n$3\r\nGET\r\n$4", None),
        (b"*2\r\n$3\r\nGET\r\n$4\r\n", Some(6)),
        (b"*2\r\n$3\r\nGET\r\n$4\r\nkeys\r", Some(1)),
    ] {
        assert_eq!(parser.parse(input, &open(1), &mut out).state, State::Starved);
        assert_eq!(parser.missing(input.len()), missing, "{}", input.escape_ascii());
    }
    let input = b"*2\r\n$3\r\nGET\r\n$4\r\n";
    let mut parser = Parser::new();
    parser.parse(input, &open(1), &mut out);
    parser.supply(Bytes::from_vec(b"keys".to_vec()));
    assert_eq!((parser.begun(), parser.wanted(), parser.missing(input.len())), (None, 2, Some(2)));
}

fn random_bytes(rng: &mut Rng, len_max: u64) -> Vec<u8> {
    let len = if rng.below(3) == 0 { rng.below(len_max) } else { rng.below(5) };
    (0..len).map(|_| rng.next_u64() as u8).collect()
}

/// A random stream of requests, in which sometimes a byte is changed, dropped or inserted.
fn random_stream(rng: &mut Rng) -> Vec<u8> {
    let mut stream = Vec::new();
    for _ in 0..rng.below(6) {
        let argc = rng.below(4);
        if rng.below(3) == 0 {
            const LINES: [&[u8]; 6] = [b"PING", b"a \"b\\x41\" 'c'", b"", b" \t", b"\"open", b"a\x00b"];
            stream.extend_from_slice(LINES[rng.below(6) as usize]);
            stream.extend_from_slice(if rng.below(2) == 0 { b"\r\n" } else { b"\n" });
            continue;
        }
        stream.extend(format!("*{argc}\r\n").bytes());
        for _ in 0..argc {
            let arg = random_bytes(rng, 130);
            stream.extend(format!("${}\r\n", arg.len()).bytes());
            stream.extend([&arg, &b"\r\n"[..]].concat());
        }
    }
    if !stream.is_empty() && rng.below(2) == 0 {
        let at = rng.below(stream.len() as u64) as usize;
        const BYTES: &[u8] = b"*$\r\n019-\"' \x00a";
        let byte = BYTES[rng.below(BYTES.len() as u64) as usize];
        match rng.below(3) {
            0 => stream[at] = byte,
            1 => stream.insert(at, byte),
            _ => drop(stream.remove(at)),
        }
    }
    stream
}

#[test]
fn any_bytes_may_be_fuzzed() {
    let mut rng = Rng::new(23);
    for _ in 0..20_000 {
        let mut data = vec![rng.next_u64() as u8];
        data.extend(random_stream(&mut rng));
        fuzz_requests(&data);
        fuzz_requests(&random_bytes(&mut rng, 300));
    }
}

#[test]
fn a_parser_is_small() {
    assert_eq!(size_of::<Parser>(), 72);
}
