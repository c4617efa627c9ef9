//! Compares the cursor with a concatenation of the bytes.

use sluice_base::Rng;

use super::*;

fn flat(buf: &SendBuf) -> Vec<u8> {
    let mut out = Vec::new();
    let mut head = 0;
    for shared in &buf.shared {
        let end = shared.at.min(buf.head.len()).max(head);
        out.extend_from_slice(&buf.head[head..end]);
        head = end;
        out.extend_from_slice(&shared.bytes);
    }
    out.extend_from_slice(&buf.head[head..]);
    out
}

fn random(rng: &mut Rng) -> SendBuf {
    let mut buf = SendBuf::new();
    for _ in 0..rng.below(8) {
        let size = rng.below(20) as usize;
        let fill: Vec<u8> = (0..size).map(|_| rng.next_u64() as u8).collect();
        if rng.below(2) == 0 {
            buf.head.extend_from_slice(&fill);
        } else {
            buf.shared.push(Shared { at: buf.head.len(), bytes: Bytes::from_vec(fill) });
        }
    }
    buf
}

#[test]
fn gathered_pieces_with_short_writes_are_the_flat_bytes() {
    let mut rng = Rng::new(7);
    for _ in 0..20_000 {
        let buf = random(&mut rng);
        let want = flat(&buf);
        assert_eq!(buf.len(), want.len());
        let mut got = Vec::new();
        let mut cursor = Cursor::default();
        loop {
            let mut slices = [IoSlice::new(&[]); 3];
            let count = cursor.gather(&buf, &mut slices);
            let all: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
            if all.is_empty() {
                break;
            }
            let taken = 1 + rng.below(all.len() as u64) as usize;
            got.extend_from_slice(&all[..taken]);
            let left = cursor.advance(&buf, taken);
            assert_eq!(left == Left::Some, got.len() < want.len());
            assert_eq!(cursor.sent(&buf), got.len());
        }
        assert_eq!(got, want);
    }
}

#[test]
fn positions_out_of_range_lose_no_byte() {
    let mut buf = SendBuf::new();
    buf.head.extend_from_slice(b"abc");
    buf.shared.push(Shared { at: 9, bytes: Bytes::copy_from(b"X") });
    buf.shared.push(Shared { at: 1, bytes: Bytes::copy_from(b"Y") });
    let mut slices = [IoSlice::new(&[]); 8];
    let count = Cursor::default().gather(&buf, &mut slices);
    let all: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
    assert_eq!(all, b"abcXY");
}
