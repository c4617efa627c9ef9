//! Positions between elements.

/// A position between two elements, before the first or after the last.
#[derive(Clone, Copy, Debug)]
pub enum Edge<'a> {
    /// After all lower scores.
    Score(f64),
    /// After all scores up to this one.
    BehindScore(f64),
    /// Before this element, or before the position that it would have.
    Element(f64, &'a [u8]),
    /// After this element, or after the position that it would have.
    BehindElement(f64, &'a [u8]),
    /// After all smaller members, in a set where all scores are equal.
    Member(&'a [u8]),
    /// After all members up to this one, in a set where all scores are equal.
    BehindMember(&'a [u8]),
}

impl Edge<'_> {
    /// Whether an element lies before the edge. `member` is called only if the score does not decide.
    #[inline]
    pub(super) fn is_behind<'m>(self, score: f64, member: impl FnOnce() -> &'m [u8]) -> bool {
        match self {
            Edge::Score(edge) => score < edge,
            Edge::BehindScore(edge) => score <= edge,
            Edge::Element(edge, of) => score < edge || score == edge && member() < of,
            Edge::BehindElement(edge, of) => score < edge || score == edge && member() <= of,
            Edge::Member(of) => member() < of,
            Edge::BehindMember(of) => member() <= of,
        }
    }
}
