//! Makes a failing stream small: drops halves, then quarters, and finally single commands, as long as the
//! stream still fails.

use crate::error::Result;

/// Maximum number of times that a stream is played again.
const TRIES_MAX: usize = 600;

/// The smallest part of `items` for which `fails` was found to hold; `items` itself must fail. `fails` is
/// called at most [`TRIES_MAX`] times.
pub(crate) fn shrink<T: Clone>(items: &[T], mut fails: impl FnMut(&[T]) -> Result<bool>) -> Result<Vec<T>> {
    let mut kept = items.to_vec();
    let mut size = kept.len().div_ceil(2);
    let mut tries = 0;
    while size > 0 {
        let mut dropped = false;
        let mut at = 0;
        while at < kept.len() && tries < TRIES_MAX {
            let end = (at + size).min(kept.len());
            let without: Vec<T> = [&kept[..at], &kept[end..]].concat();
            tries += 1;
            if !without.is_empty() && fails(&without)? {
                kept = without;
                dropped = true;
            } else {
                at = end;
            }
        }
        if size == 1 && !dropped || tries >= TRIES_MAX {
            break;
        }
        size = if size == 1 { 1 } else { size.div_ceil(2) };
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::shrink;

    #[test]
    fn what_is_left_is_what_the_failure_needs() {
        let items: Vec<u32> = (0..1000).collect();
        let small = shrink(&items, |part| Ok(part.contains(&17) && part.contains(&803))).expect("no error");
        assert_eq!(small, [17, 803]);
    }

    #[test]
    fn a_single_item_stays() {
        assert_eq!(shrink(&[1], |_| Ok(true)).expect("no error"), [1]);
    }
}
