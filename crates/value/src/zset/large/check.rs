//! Checks of the invariants, for tests.

use triomphe::Arc;

use super::cut::leaves_below;
use super::{CAPACITY, FANOUT, INNER_BYTES, InnerNode, Large, Link, ROW_BYTES_MAX, RowLeaf, hash};

impl Large {
    /// Checks the invariants. O(n).
    pub(in super::super) fn check(&self) {
        let mut leaves = 0;
        let mut heap = self.paged.own_bytes() + self.index.own_bytes();
        let depth = self.check_inner(&self.top, &mut leaves, &mut heap);
        assert!(depth > 0);
        assert_eq!(self.entries(0).count(), self.count);
        let mut last: Option<(Vec<u8>, f64)> = None;
        for (member, score) in self.entries(0) {
            if let Some((before, low)) = &last {
                assert!(*low < score || *low == score && before.as_slice() < member, "order");
            }
            last = Some((member.to_vec(), score));
            let number = self.find(member).position.expect("invariant 3").0;
            let hash = hash(self.seed, member);
            assert_eq!(self.index.candidates(hash).filter(|(_, leaf)| *leaf == number).count(), 1);
        }
        let mut remains = Vec::new();
        self.remains.iter().for_each(|link| leaves_below(link, &mut remains));
        let counts = remains.iter().filter_map(|number| self.paged.get(*number as usize)).map(RowLeaf::count);
        assert_eq!(self.index.len(), self.count + counts.sum::<usize>());
        assert_eq!(self.numbers as usize, leaves + self.free.0.len() + remains.len());
        // `self.heap` also counts shared parts, which `heap` leaves out.
        assert!(self.heap >= heap, "invariant 5");
    }

    /// The largest number of leaves at one time.
    pub(in super::super) fn leaf_numbers(&self) -> u32 {
        self.numbers
    }

    /// Checks that every byte is counted exactly once, in a set without shared parts.
    pub(in super::super) fn check_heap(&self) {
        assert_eq!(self.heap, self.own_bytes());
    }

    fn check_inner(&self, inner: &Arc<InnerNode>, leaves: &mut usize, heap: &mut usize) -> usize {
        *heap += INNER_BYTES;
        assert!(inner.children.len() <= FANOUT);
        assert!(inner.children.capacity() == CAPACITY, "{}", inner.children.capacity());
        let mut depths = Vec::new();
        for child in &inner.children {
            let mut again = child.clone();
            again.refresh(&self.paged);
            assert_eq!((again.count, again.first), (child.count, child.first));
            assert!(child.count > 0, "invariant 2");
            depths.push(match &child.link {
                Link::Inner(next) => self.check_inner(next, leaves, heap),
                Link::Leaf(number) => {
                    *leaves += 1;
                    let leaf = self.paged.get(*number as usize).expect("a leaf of the tree is on the array");
                    leaf.check();
                    assert_eq!(leaf.count(), child.count);
                    assert!(
                        leaf.count() == 1 || leaf.row().len() <= ROW_BYTES_MAX,
                        "a leaf is split in time"
                    );
                    0
                }
            });
        }
        assert!(depths.windows(2).all(|pair| pair[0] == pair[1]), "invariant 1");
        depths.first().map_or(1, |depth| depth + 1)
    }
}
