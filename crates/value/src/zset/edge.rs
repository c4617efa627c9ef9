//! Positions between elements.

/// A position between two elements, before the first or after the last.
#[derive(Clone, Copy, Debug)]
pub enum Edge<'a> {
    /// The position after all elements with lower scores.
    Score(f64),
    /// The position after all elements with this score or a lower one.
    AfterScore(f64),
    /// The position before this element; if the element is absent, the position that it would have.
    Element(f64, &'a [u8]),
    /// The position after this element; if the element is absent, the position that it would have.
    AfterElement(f64, &'a [u8]),
    /// The position after all smaller members, in a set where all scores are equal.
    Member(&'a [u8]),
    /// The position after this member and all smaller ones, in a set where all scores are equal.
    AfterMember(&'a [u8]),
}

impl Edge<'_> {
    /// Whether an element lies before the edge. `member` is called only if the score does not decide.
    #[inline]
    pub(super) fn is_after<'m>(self, score: f64, member: impl FnOnce() -> &'m [u8]) -> bool {
        match self {
            Edge::Score(edge) => score < edge,
            Edge::AfterScore(edge) => score <= edge,
            Edge::Element(edge, of) => score < edge || score == edge && member() < of,
            Edge::AfterElement(edge, of) => score < edge || score == edge && member() <= of,
            Edge::Member(of) => member() < of,
            Edge::AfterMember(of) => member() <= of,
        }
    }
}
