//! Parts of sets that changes have replaced, to be freed on another thread.

use triomphe::Arc;

use super::index::IndexPage;
use super::large::{INNER_BYTES, InnerNode, Large};
use super::leaf::RowLeaf;
use super::paged::ShelfNode;

/// A part that no longer belongs to its set.
#[derive(Debug)]
pub(super) enum ZsetPart {
    Leaf(RowLeaf),
    Leaves(ShelfNode<RowLeaf>),
    Page(IndexPage),
    Pages(ShelfNode<IndexPage>),
    Inner(Arc<InnerNode>),
    Whole(Box<Large>),
}

/// The garbage and the count of bytes that an operation on a large set updates.
pub(super) struct ZsetWork<'w> {
    pub(super) garbage: &'w mut Vec<ZsetPart>,
    pub(super) heap: usize,
}

impl ZsetPart {
    pub(super) fn is_shared(&self) -> bool {
        match self {
            ZsetPart::Leaf(leaf) => leaf.is_shared(),
            ZsetPart::Leaves(node) => node.is_shared(),
            ZsetPart::Page(page) => page.is_shared(),
            ZsetPart::Pages(node) => node.is_shared(),
            ZsetPart::Inner(inner) => !inner.is_unique(),
            ZsetPart::Whole(large) => large.is_shared(),
        }
    }

    /// Bytes of the part without those of the parts below it; for a whole set, all its bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            ZsetPart::Leaf(leaf) => leaf.heap_bytes(),
            ZsetPart::Leaves(node) => node.top_bytes(),
            ZsetPart::Page(page) => page.heap_bytes(),
            ZsetPart::Pages(node) => node.top_bytes(),
            ZsetPart::Inner(_) => INNER_BYTES,
            ZsetPart::Whole(large) => large.heap_bytes(),
        }
    }
}
