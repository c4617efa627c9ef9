//! Lists in files: the parts of a list that is read, and how one is cut into parts to be written.

use std::borrow::Cow;

use sluice_base::Bytes;
use sluice_base::num::{IntBuffer, digits_i64};
use sluice_collections::listpack::{self, Element, entry};
use sluice_value::{List, ListContext, ListItem, ListRef};

use super::ziplist;

/// A part of a list as it stands in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListNode<'a> {
    /// One element.
    Plain(Cow<'a, [u8]>),
    /// A listpack, which was checked.
    Packed(Cow<'a, [u8]>),
}

/// The container of a node that is one element.
pub(super) const PLAIN: u64 = 1;
/// The container of a node that is a listpack.
pub(super) const PACKED: u64 = 2;

impl<'a> ListNode<'a> {
    pub(super) fn of_listpack(bytes: Cow<'a, [u8]>) -> Option<ListNode<'a>> {
        listpack::is_valid(&bytes).then_some(ListNode::Packed(bytes))
    }

    pub(super) fn of_ziplist(bytes: &[u8]) -> Option<ListNode<'a>> {
        ziplist::to_listpack(bytes).map(|listpack| ListNode::Packed(Cow::Owned(listpack)))
    }

    /// How many elements.
    #[allow(clippy::len_without_is_empty, reason = "a node is never asked whether it is empty")]
    pub fn len(&self) -> usize {
        match self {
            ListNode::Plain(_) => 1,
            ListNode::Packed(listpack) => listpack::len(listpack),
        }
    }

    /// The list of these nodes, with the encoding that its size asks for. What grows on the way is left in the context.
    pub fn list(nodes: &[ListNode<'_>], context: &mut ListContext) -> List {
        let mut list = List::new();
        let (mut packed, mut plain) = (0, 0);
        for node in nodes {
            match node {
                ListNode::Plain(bytes) => {
                    plain += 1;
                    list.push_back(bytes, context);
                }
                ListNode::Packed(listpack) => {
                    packed += usize::from(listpack::len(listpack) > 0);
                    for element in listpack::iter(listpack) {
                        match element {
                            Element::Int(number) => list.push_back(IntBuffer::new().format(number), context),
                            Element::Bytes(bytes) => list.push_back(bytes, context),
                        }
                    }
                }
            }
        }
        // Elements that were written one by one would have been packed while they were added.
        list.convert_after_loading(packed.max(usize::from(plain > 0)), context.limits);
        list
    }
}

/// Cuts a list into the nodes that the reference would have if every element had been added at the back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    /// Bytes of a listpack.
    node_bytes: usize,
    /// Elements of a listpack.
    node_count: usize,
}

impl Cut {
    /// `max_listpack_size` is the setting `list-max-listpack-size`. A list to be reported as a listpack is one node.
    pub(super) fn new(list: ListRef<'_>, max_listpack_size: i32) -> Cut {
        let (node_bytes, node_count) = match (list.encoding(), max_listpack_size) {
            (sluice_value::ListEncoding::Listpack, _) => (usize::MAX, usize::MAX),
            (_, count @ 1..) => (COUNTED_BYTES_MAX, count as usize),
            (_, 0) => (COUNTED_BYTES_MAX, 1),
            (_, class) => (4096 << (class.unsigned_abs() - 1).min(4), usize::MAX),
        };
        Cut { node_bytes, node_count }
    }

    /// Hands each node to `write`: the element of a plain one, or the entries of a listpack and how many.
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
            // A string of that length has memory of its own.
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

/// Bytes that the reference reckons with for another element of a node.
fn estimated_len(element: Element<'_>) -> usize {
    let len = match element {
        Element::Int(number) => digits_i64(number),
        Element::Bytes(bytes) => bytes.len(),
    };
    len + 8
}

/// A node to be written.
pub(super) enum CutNode<'a> {
    Plain(&'a Bytes),
    /// Entries, and how many.
    Packed(&'a [u8], usize),
}

/// Listpacks whose elements are counted do not get larger than this.
const COUNTED_BYTES_MAX: usize = 8192;
