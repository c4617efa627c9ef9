use super::*;
use sluice_base::Rng;
use sluice_resp::{AuthState, ParseLimits, Requests};

/// A connection's input and the requests parsed from it, as in an iteration.
struct Rig {
    input: Input,
    requests: Requests,
    /// Arguments of the complete requests.
    seen: Vec<Vec<Vec<u8>>>,
    /// Size of the arguments that had memory of their own, in units of `LARGE_BYTES`, rounded down for each
    /// request.
    apart: usize,
}

impl Rig {
    fn new() -> Rig {
        let input = Input::new();
        Rig { input, requests: Requests::new(), seen: Vec::new(), apart: 0 }
    }

    fn parse(&mut self, input: &[u8]) -> usize {
        let limits = ParseLimits::new(AuthState::Authenticated, 1 << 30, 1024);
        let progress = self.input.parser.parse(input, &limits, &mut self.requests);
        for request in self.requests.iter(input) {
            self.seen.push(request.args().map(<[u8]>::to_vec).collect());
            self.apart += request.apart().bytes() / LARGE_BYTES;
            assert_eq!(request.apart().bytes(), request.apart().heap_bytes(), "a value has no spare room");
        }
        progress.consumed
    }

    fn parse_query_buf(&mut self) {
        if self.input.is_open() {
            let mut query_buf = std::mem::take(&mut self.input.query_buf);
            let used = self.parse(&query_buf);
            query_buf.drain(..used);
            self.input.query_buf = query_buf;
            self.input.move_out_large_argument();
        }
    }

    /// Receives as the main thread does: completes a request whose beginning was kept, parses the other bytes
    /// in place, and keeps the rest.
    fn receive(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.input.is_open() && self.input.query_buf.is_empty() {
                let used = self.parse(bytes);
                return self.input.keep_rest(&bytes[used..]);
            }
            let before = bytes.len();
            bytes = self.input.complete(bytes);
            assert!(bytes.len() < before, "each round keeps something");
            self.parse_query_buf();
        }
    }

    /// Receives as an I/O thread does: appends everything, then parses.
    fn receive_all(&mut self, bytes: &[u8]) {
        self.input.keep(bytes);
        self.parse_query_buf();
    }
}

fn request(words: &[Vec<u8>]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// Random requests, many of them with arguments whose lengths lie around `LARGE_BYTES`.
fn any_requests(rng: &mut Rng) -> Vec<Vec<Vec<u8>>> {
    let lengths = [0, 3, 60, LARGE_BYTES - 1, LARGE_BYTES, LARGE_BYTES + 1, 16_384, 50_000];
    let count = 1 + rng.below(6);
    let word = |rng: &mut Rng| {
        let len = lengths[rng.below(lengths.len() as u64) as usize];
        let first = rng.next_u64() as usize;
        (0..len).map(|at| (first + at * 31 / 7) as u8).collect()
    };
    (0..count).map(|_| (0..1 + rng.below(4)).map(|_| word(rng)).collect()).collect()
}

#[test]
fn requests_are_the_same_in_any_pieces() {
    let mut rng = Rng::new(31);
    let mut apart = 0;
    for round in 0..120 {
        let wanted = any_requests(&mut rng);
        let stream: Vec<u8> = wanted.iter().flat_map(|words| request(words)).collect();
        let mut rig = Rig::new();
        let (mut rest, longest) = (&stream[..], [7, 3000, 16_384, 100_000][round % 4]);
        let (mut parsed, mut counted) = (0, 0);
        while !rest.is_empty() {
            let (come, later) = rest.split_at(rest.len().min(1 + rng.below(longest) as usize));
            match round % 3 {
                0 => rig.receive_all(come),
                _ => rig.receive(come),
            }
            let come = stream.len() - later.len();
            parsed += rig.seen[counted..].iter().map(|words| request(words).len()).sum::<usize>();
            counted = rig.seen.len();
            assert_eq!(rig.input.usage().used, come - parsed, "every byte that is no whole request is told");
            rest = later;
        }
        assert_eq!(rig.seen.len(), wanted.len());
        assert!(rig.seen == wanted, "round {round}");
        assert_eq!(rig.input.usage().used, 0);
        apart += rig.apart;
    }
    assert!(apart > 50, "{apart}");
}

#[test]
fn an_announced_size_is_not_believed() {
    let mut rig = Rig::new();
    rig.receive(b"*2\r\n$4\r\nECHO\r\n$1000000000\r\n");
    assert_eq!(rig.input.state(), InputState::Large);
    assert_eq!(rig.input.usage().room, rig.input.query_buf.capacity(), "nothing has come");
    let mut come = 0;
    while come < 8 << 20 {
        rig.receive(&[b'x'; 16_384]);
        come += 16_384;
        let usage = rig.input.usage();
        let may = (1 + ROOM_PER_RECEIVED) * usage.used + FILL_STEP_BYTES;
        assert!(usage.room <= may, "{usage:?}");
    }
    rig.input.shrink();
    assert!(rig.input.usage().room < come + 1024);
    rig.receive(b"x");
    assert_eq!(rig.input.usage().used, 27 + come + 1);
}

#[test]
fn bytes_behind_a_large_argument_are_not_kept() {
    let set = |value: &[u8]| request(&[b"SET".to_vec(), b"key".to_vec(), value.to_vec()]);
    let mut rig = Rig::new();
    let first = set(&[b'x'; 16_384]);
    let (beginning, end) = first.split_at(10_000);
    rig.receive(beginning);
    rig.receive(&[end, &set(b"small").repeat(100)].concat());
    assert_eq!(rig.seen.len(), 101);
    let usage = rig.input.usage();
    assert!(
        usage.used == 0 && usage.room < 256,
        "{usage:?}: what is behind it was parsed where it was received"
    );
}
