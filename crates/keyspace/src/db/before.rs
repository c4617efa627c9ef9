//! Entries as they were before their first change after some moment: what a snapshot of that moment needs.

use super::Db;
use crate::entry::{self, Name};
use sluice_collections::slab::Handle;
use sluice_value::Value;
use std::sync::atomic::Ordering::Relaxed;

/// An entry as it was before a change. A value outside is shared, not copied.
#[derive(Debug)]
pub struct BeforeImage {
    /// Which block it was.
    pub handle: Handle,
    /// Its head word; the access clock in it may be younger than the moment.
    pub head: u32,
    /// The block without its head word.
    pub body: Box<[u8]>,
    /// The key, when it was outside.
    pub key: Option<Box<[u8]>>,
    /// The value, when it was outside.
    pub value: Option<Value>,
}

impl Db {
    /// Whether somebody must see entries before they change.
    #[inline]
    pub(super) fn is_observed(&self) -> bool {
        self.store.before.is_some()
    }

    /// The one hook that every change or release of a block passes, with the value and the key outside that it names, before
    /// it happens: expiry, form and slack are changes, the access clock is none. One predicted branch where nobody wants
    /// before-images.
    #[inline(always)]
    pub(super) fn before_change(&mut self, handle: Handle) {
        if self.store.before.is_some() {
            self.keep_image(handle);
        }
    }

    #[cold]
    fn keep_image(&mut self, handle: Handle) {
        let image = self.image(handle);
        if let Some(images) = &mut self.store.before {
            images.push(image);
        }
    }

    /// The entry as it is now.
    #[doc(hidden)]
    pub fn image(&self, handle: Handle) -> BeforeImage {
        let (word, body) = self.block(handle);
        let head = entry::Head(word.load(Relaxed));
        let key = match entry::name_of(body) {
            Name::Inside(_) => None,
            Name::Outside(_) => Some(self.key(handle).into()),
        };
        let is_outside = head.form().is_outside();
        let value = is_outside.then(|| self.value_at(entry::payload(head, body)).share());
        BeforeImage { handle, head: head.0, body: body.into(), key, value }
    }

    /// From now on every change leaves the entry as it was before, again at each change; until
    /// [`Db::take_before_images`].
    pub(crate) fn keep_before_images(&mut self) {
        self.store.before = Some(Vec::new());
    }

    /// What changes have left since [`Db::keep_before_images`], in order; nothing is kept from now on.
    pub(crate) fn take_before_images(&mut self) -> Vec<BeforeImage> {
        self.store.before.take().unwrap_or_default()
    }
}
