//! Macro nodes in files: listpacks in the reference's format.
//!
//! | elements | meaning |
//! |---|---|
//! | 2 | number of entries that are not deleted; number of deleted entries |
//! | 1 + n + 1 | number of fields of the first entry, the fields, 0 |
//! | of each entry: 1 | flags: 1 deleted, 2 the fields of the first entry |
//! | 2 | the id's milliseconds and sequence number, each less that of the node's key |
//! | | number of fields, fields and values by turns; or the values alone |
//! | 1 | number of the entry's elements before this one |

use super::macro_node::MacroNode;
use super::{Stream, StreamId};
use sluice_collections::listpack::{self, Element};

/// The reason why a node was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeError {
    /// The bytes are no listpack.
    Listpack,
    /// The elements do not form entries.
    Entries,
    /// Ids do not ascend.
    Order,
}

impl Stream {
    /// Passes the key and the listpack of each macro node to `write`.
    pub fn each_listpack(&self, write: &mut dyn FnMut(StreamId, &[u8])) {
        let (mut row, mut listpack) = (Vec::new(), Vec::new());
        self.log().each_node(&mut |node| {
            node.write_listpack(&mut row, &mut listpack);
            write(node.master, &listpack);
        });
    }

    /// Adds the entries of a macro node that was read from a file, after all others. Only for a stream
    /// that is being loaded.
    ///
    /// # Errors
    /// The reason why the node was refused; the stream has not changed.
    pub fn load_listpack(&mut self, master: StreamId, bytes: &[u8]) -> Result<(), NodeError> {
        if !listpack::is_valid(bytes) {
            return Err(NodeError::Listpack);
        }
        if self.log().node_count() > 0 && master <= self.log().last_id() {
            return Err(NodeError::Order);
        }
        let node = read_node(master, bytes)?;
        // The reference keeps a node whose entries were all deleted by trimming; this server does not need
        // such a node.
        if node.live > 0 {
            self.0.log.load_node(node);
        }
        Ok(())
    }
}

fn read_node(master: StreamId, bytes: &[u8]) -> Result<MacroNode, NodeError> {
    let mut elements = listpack::iter(bytes);
    let int = |elements: &mut listpack::entry::Iter<'_>| match elements.next() {
        Some(Element::Int(number)) => Ok(number),
        Some(Element::Bytes(_)) | None => Err(NodeError::Entries),
    };
    let live = u32::try_from(int(&mut elements)?).map_err(|_| NodeError::Entries)?;
    let deleted = u32::try_from(int(&mut elements)?).map_err(|_| NodeError::Entries)?;
    let fields = count(int(&mut elements)?, bytes)?;
    let names: Vec<Element<'_>> = elements.by_ref().take(fields).collect();
    if names.len() != fields || int(&mut elements)? != 0 {
        return Err(NodeError::Entries);
    }
    let mut node = MacroNode::with_fields(master, names.into_iter());
    for index in 0..u64::from(live) + u64::from(deleted) {
        let flags = int(&mut elements)?;
        if !(0..4).contains(&flags) {
            return Err(NodeError::Entries);
        }
        let (is_deleted, same) = (flags & 1 != 0, flags & 2 != 0);
        let (ms, seq) = (int(&mut elements)?, int(&mut elements)?);
        let id = StreamId { ms: master.ms.wrapping_add(ms as u64), seq: master.seq.wrapping_add(seq as u64) };
        if id < master || index > 0 && id <= node.last {
            return Err(NodeError::Order);
        }
        let pairs = if same { fields } else { count(int(&mut elements)?, bytes)? };
        let wanted = if same { pairs } else { 2 * pairs };
        let mut taken = 0;
        let own = elements.by_ref().take(wanted).inspect(|_| taken += 1);
        node.append_elements(id, (same, is_deleted), pairs, own);
        let parts = if same { pairs + 3 } else { 2 * pairs + 4 };
        if taken != wanted || int(&mut elements)? != parts as i64 {
            return Err(NodeError::Entries);
        }
    }
    let is_whole = elements.next().is_none() && (node.live, node.deleted) == (live, deleted);
    if !is_whole {
        return Err(NodeError::Entries);
    }
    node.fit();
    Ok(node)
}

/// A number of fields, which cannot exceed the bytes of the listpack.
fn count(number: i64, bytes: &[u8]) -> Result<usize, NodeError> {
    usize::try_from(number).ok().filter(|count| *count <= bytes.len()).ok_or(NodeError::Entries)
}
