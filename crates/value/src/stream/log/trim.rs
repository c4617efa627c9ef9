//! Trimming: removing the first entries of a stream, whole nodes at once where possible.

use super::{EntryLog, MacroNode, NodeItem, TrimExtent, TrimTo, writable};
use crate::stream::StreamContext;
use crate::stream::tree::TreePart;
use triomphe::Arc;

impl EntryLog {
    /// Removes the first entries; returns the number removed.
    pub(in crate::stream) fn trim(
        &mut self,
        to: TrimTo,
        extent: TrimExtent,
        context: &mut StreamContext,
    ) -> u64 {
        let before = self.len;
        if match to {
            TrimTo::Len(max) => self.len <= max,
            TrimTo::MinId(min) => self.len == 0 || self.first_id >= min,
        } {
            return 0;
        }
        let mut budget = Budget::new(to, extent, self.len);
        let parts = self.nodes.cut_front(&mut |part| budget.takes(part), &mut context.copied);
        self.len -= parts.iter().map(|part| part.weight().entries).sum::<u64>();
        context.discard_nodes(parts);
        if self.nodes.is_empty()
            && let Some(tail) = &self.tail
            && budget.takes(TreePart::Item(&NodeItem(tail.clone())))
        {
            self.len -= u64::from(tail.live);
            self.tail = None;
        }
        if extent == TrimExtent::Exact {
            self.trim_first_node(to, &mut context.copied);
        }
        self.find_first();
        before - self.len
    }

    /// Marks entries of the first node as deleted; at least one entry of the node stays.
    fn trim_first_node(&mut self, to: TrimTo, copied: &mut u64) {
        let mut left = match to {
            TrimTo::Len(max) => self.len.saturating_sub(max),
            TrimTo::MinId(_) => u64::MAX,
        };
        let mut removed = 0;
        let mut trim = |node: &mut Arc<MacroNode>, copied: &mut u64| {
            while left > 0 && node.live > 1 {
                let Some(position) = node.positions().next() else { break };
                if matches!(to, TrimTo::MinId(min) if position.id >= min) {
                    break;
                }
                writable(node, copied).delete(position);
                left -= 1;
                removed += 1;
            }
        };
        match self.nodes.first().map(|item| item.0.master) {
            Some(master) => {
                self.nodes.update(&master, copied, |item, copied| trim(&mut item.0, copied));
            }
            None => self.tail.iter_mut().for_each(|tail| trim(tail, copied)),
        }
        self.len -= removed;
    }
}

/// The limits for removing whole nodes.
struct Budget {
    to: TrimTo,
    /// Number of entries that may still be removed.
    left: u64,
    /// Whether trimming is exact to the entry. If so, entries that are marked as deleted do not keep their
    /// node.
    is_exact: bool,
}

impl Budget {
    fn new(to: TrimTo, extent: TrimExtent, len: u64) -> Budget {
        let most = match extent {
            TrimExtent::Exact | TrimExtent::Nodes(0) => u64::MAX,
            TrimExtent::Nodes(most) => most,
        };
        let left = match to {
            TrimTo::Len(max) => most.min(len - max),
            TrimTo::MinId(_) => most,
        };
        Budget { to, left, is_exact: extent == TrimExtent::Exact }
    }

    fn takes(&mut self, part: TreePart<'_, NodeItem>) -> bool {
        let (entries, is_old) = match (part, self.to) {
            (TreePart::Branch(weight, behind), TrimTo::MinId(min)) => (weight.entries, *behind <= min),
            (TreePart::Item(item), TrimTo::MinId(min)) => {
                let is_old = item.0.last < min || self.is_exact && !item.0.reaches(min);
                (u64::from(item.0.live), is_old)
            }
            (TreePart::Branch(weight, _), TrimTo::Len(_)) => (weight.entries, true),
            (TreePart::Item(item), TrimTo::Len(_)) => (u64::from(item.0.live), true),
        };
        let goes = is_old && entries <= self.left;
        if goes {
            self.left -= entries;
        }
        goes
    }
}
