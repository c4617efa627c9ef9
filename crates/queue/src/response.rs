//! What the two ways home have in common, so that a server can be measured with either.

use crate::Full;

/// Whether the receiver may still be unaware of something that was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a receiver that sleeps has to be woken on the first ring"]
pub enum Rung {
    /// Nothing to announce, or the bell rang before and the receiver has not looked since: it will look anyway.
    Already,
    /// The first ring since the receiver looked: if it sleeps, it has to be woken.
    First,
}

/// The sending end of a response channel; one for each thread.
pub trait Respond<T> {
    /// Hands `value` over, perhaps not yet visibly.
    ///
    /// # Errors
    /// `Full` with the value while the receiver is behind. Come back: a refused sender of a [`ticket`](crate::ticket)
    /// ring may hold a place that others queue up behind.
    fn send(&mut self, value: T) -> Result<(), Full<T>>;

    /// Makes everything visible that was sent. Call it once after each batch, and before waiting for anything.
    fn publish(&mut self) -> Rung;
}

/// The receiving end of a response channel.
pub trait Collect<T> {
    /// Gives up to `count_max` values of each sender that has any to `each`; returns how many.
    fn collect(&mut self, count_max: usize, each: &mut impl FnMut(T)) -> usize;
}
