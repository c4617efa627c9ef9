//! Lists in files: building a list from its nodes, and cutting a list into nodes for writing.

use sluice_base::Bytes;
use sluice_base::num::{IntBuffer, digits_i64};
use sluice_collections::listpack::{self, Element, entry};
use sluice_value::{List, ListContext, ListItem, ListLimits, ListRef};

use super::ziplist;

/// The container number of a node that is one element.
pub(super) const PLAIN: u64 = 1;
/// The container number of a node that is a listpack.
pub(super) const PACKED: u64 = 2;

/// A list that is being loaded, node by node.
#[derive(Debug)]
pub(super) struct ListBuilder {
    list: List,
    context: ListContext,
    /// Number of listpacks and ziplists among the nodes, without the empty ones.
    packed: usize,
    /// Whether a node was a single element.
    has_plain: bool,
}

impl ListBuilder {
    /// A builder of a list with these thresholds. No node has been added yet.
    pub(super) fn new(limits: ListLimits) -> ListBuilder {
        let context = ListContext { limits, garbage: Vec::new() };
        ListBuilder { list: List::new(), context, packed: 0, has_plain: false }
    }

    /// Adds a node that is a single element.
    pub(super) fn add_plain(&mut self, element: &[u8]) {
        self.has_plain = true;
        self.list.push_back(element, &mut self.context);
        // The list has no other owner, so the garbage can be dropped here.
        self.context.garbage.clear();
    }

    /// Adds the elements of a listpack, which may be empty; if the bytes are no listpack, returns `false`
    /// and changes nothing.
    pub(super) fn add_listpack(&mut self, bytes: &[u8]) -> bool {
        if !listpack::is_valid(bytes) {
            return false;
        }
        self.packed += usize::from(listpack::len(bytes) > 0);
        for element in listpack::iter(bytes) {
            match element {
                Element::Int(number) => {
                    self.list.push_back(IntBuffer::new().format(number), &mut self.context);
                }
                Element::Bytes(bytes) => self.list.push_back(bytes, &mut self.context),
            }
        }
        // The list has no other owner, so the garbage can be dropped here.
        self.context.garbage.clear();
        true
    }

    /// Adds the elements of a ziplist; returns whether the bytes are a ziplist.
    pub(super) fn add_ziplist(&mut self, bytes: &[u8]) -> bool {
        ziplist::to_listpack(bytes).is_some_and(|listpack| self.add_listpack(&listpack))
    }

    /// The list, with the encoding that its size requires; `None` if it has no element.
    pub(super) fn finish(mut self) -> Option<List> {
        if self.list.is_empty() {
            return None;
        }
        // If the list has only single elements, they count as one node, because the reference packs them
        // while it adds them.
        let nodes = self.packed.max(usize::from(self.has_plain));
        self.list.convert_after_loading(nodes, self.context.limits);
        Some(self.list)
    }
}

/// Cuts a list into the nodes that it would have in the reference if every element had been added
/// at the back.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeCutter {
    /// Maximum length in bytes of a listpack.
    node_bytes: usize,
    /// Maximum number of elements in a listpack.
    node_count: usize,
}

impl NodeCutter {
    /// `max_listpack_size` is the setting `list-max-listpack-size`. A list with the encoding listpack
    /// becomes one node.
    pub(super) fn new(list: ListRef<'_>, max_listpack_size: i32) -> NodeCutter {
        let (node_bytes, node_count) = match (list.encoding(), max_listpack_size) {
            (sluice_value::ListEncoding::Listpack, _) => (usize::MAX, usize::MAX),
            (_, count @ 1..) => (COUNTED_BYTES_MAX, count as usize),
            (_, 0) => (COUNTED_BYTES_MAX, 1),
            (_, class) => (4096 << (class.unsigned_abs() - 1).min(4), usize::MAX),
        };
        NodeCutter { node_bytes, node_count }
    }

    /// Passes each node to `write`: the element of a plain node, or the entries of a listpack
    /// and their number.
    pub(super) fn nodes(self, list: ListRef<'_>, write: &mut dyn FnMut(CutNode<'_>)) {
        let mut row = Vec::new();
        let mut count = 0;
        let mut iter = list.iter(0..usize::MAX);
        while let Some(item) = iter.next() {
            let element = match item {
                ListItem::Int(number) => Element::Int(number),
                ListItem::Bytes(bytes) => Element::Bytes(bytes),
                ListItem::Shared(bytes) => Element::Bytes(bytes),
            };
            let len = entry::len(element);
            let size = (listpack::EMPTY_LEN + row.len()).saturating_add(estimated_len(element));
            // Only an element with its own allocation can be longer than a node, because strings of such
            // a length always have their own allocation.
            let plain = match item {
                ListItem::Shared(bytes) if bytes.len() > self.node_bytes => Some(bytes),
                ListItem::Shared(_) | ListItem::Bytes(_) | ListItem::Int(_) => None,
            };
            let full = plain.is_some() || count >= self.node_count || size > self.node_bytes;
            if full && count > 0 {
                write(CutNode::Packed(&row, count));
                row.clear();
                count = 0;
            }
            match plain {
                Some(bytes) => write(CutNode::Plain(bytes)),
                None => {
                    let at = row.len();
                    row.resize(at + len, 0);
                    entry::write(&mut row[at..], element);
                    count += 1;
                }
            }
        }
        if count > 0 {
            write(CutNode::Packed(&row, count));
        }
    }
}

/// The number of bytes by which the reference estimates that one more element enlarges a node.
fn estimated_len(element: Element<'_>) -> usize {
    let len = match element {
        Element::Int(number) => digits_i64(number),
        Element::Bytes(bytes) => bytes.len(),
    };
    len + 8
}

/// A node for writing.
pub(super) enum CutNode<'a> {
    Plain(&'a Bytes),
    /// The entries of a listpack, and their number.
    Packed(&'a [u8], usize),
}

/// Maximum length in bytes of a listpack if `list-max-listpack-size` limits the number of elements.
const COUNTED_BYTES_MAX: usize = 8192;

/// The elements of a list, for tests and fuzzing.
pub(super) fn elements(list: ListRef<'_>) -> Vec<Vec<u8>> {
    let mut iter = list.iter(0..usize::MAX);
    let mut all = Vec::new();
    while let Some(item) = iter.next() {
        all.push(item.bytes(&mut IntBuffer::new()).to_vec());
    }
    all
}
