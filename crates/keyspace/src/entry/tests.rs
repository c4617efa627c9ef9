//! Tests that entries of every shape are read back from their blocks as they were written.

use super::*;
use sluice_base::Rng;

const FORMS: [(u32, Form); 18] = [
    (0, Form::StrInt),
    (1, Form::StrInline),
    (2, Form::StrInlineRaw),
    (3, Form::StrOutside),
    (7, Form::ListInlineListpack),
    (8, Form::ListInlineQuicklist),
    (9, Form::ListOutside),
    (10, Form::HashInlineListpack),
    (11, Form::HashInlineHashtable),
    (12, Form::HashOutside),
    (20, Form::StreamOutside),
    (17, Form::ZsetInlineListpack),
    (18, Form::ZsetInlineSkiplist),
    (19, Form::ZsetOutside),
    (13, Form::SetInlineIntset),
    (14, Form::SetInlineListpack),
    (15, Form::SetInlineHashtable),
    (16, Form::SetOutside),
];

#[test]
fn every_form_has_its_number() {
    for (number, form) in FORMS {
        assert_eq!(form as u32, number);
        assert_eq!(Head::new(u32::MAX, form).form(), form);
        let head = Head::new(77, Form::StrInt).with_expiry(true).with_form(form);
        assert_eq!((head.form(), head.clock(), head.has_expiry()), (form, 77, true));
    }
}

#[test]
#[should_panic(expected = "memory is corrupt")]
fn a_number_that_no_form_has_is_a_panic() {
    Head(31 << FORM_SHIFT).form();
}

#[test]
fn what_is_written_is_read_back() {
    let mut rng = Rng::new(5);
    for _ in 0..20_000 {
        let key = vec![b'k'; rng.below(255) as usize];
        let name =
            if rng.below(4) == 0 { Name::Outside(rng.below(1 << 32) as u32) } else { Name::Inside(&key) };
        let expiry = (rng.below(2) == 0).then(|| rng.below(1 << 62) as i64);
        let (_, form) = FORMS[rng.below(7) as usize];
        let len = rng.below((Slab::MAX_BLOCK - block_len(name.len(), true, 0)) as u64 + 1) as usize;
        let payload_bytes: Vec<u8> = (0..len).map(|_| rng.below(256) as u8).collect();
        let used = block_len(name.len(), expiry.is_some(), len);
        let most = Slab::MAX_BLOCK.min(used + SLACK_MAX);
        let size = used + rng.below((most - used) as u64 + 1) as usize;
        // The block is filled with ones first, because the old contents of a block must not show.
        let mut body = vec![0xff; size - 4];
        let mut head = Head::new(rng.below(1 << 24) as u32, form).with_expiry(expiry.is_some());
        let clock = head.clock();
        name.write(&mut body);
        if let Some(at) = expiry {
            write_expiry(head, &mut body, at);
        }
        let start = payload_at(head, &body);
        body[start..start + len].copy_from_slice(&payload_bytes);
        head = with_end(head, &mut body, start + len);
        assert_eq!((head.clock(), head.form()), (clock, form));
        assert_eq!(super::expiry(head, &body), expiry);
        assert_eq!(payload(head, &body), payload_bytes);
        assert_eq!(slack(head, &body), size - used);
        match (name_of(&body), name) {
            (Name::Inside(read), Name::Inside(written)) => {
                assert_eq!(read, written);
                assert!(is_key(&body, &key));
                assert!(!is_key(&body, &key[..key.len().saturating_sub(1)]) || key.is_empty());
            }
            (Name::Outside(read), Name::Outside(written)) => {
                assert_eq!(read, written);
                assert!(!is_key(&body, &key));
            }
            (Name::Inside(_), Name::Outside(_)) | (Name::Outside(_), Name::Inside(_)) => {
                panic!("another location")
            }
        }
    }
}

/// Block sizes for a key of 16 bytes and values of several lengths. The memory that each key takes follows
/// from these sizes.
#[test]
fn blocks_are_as_small_as_they_were() {
    let block = |expiry, len| Slab::rounded(block_len(16, expiry, len));
    assert_eq!([3, 8, 16, 64, 128].map(|len| block(false, len)), [24, 32, 40, 88, 152]);
    assert_eq!(block(true, 16), 48);
}
