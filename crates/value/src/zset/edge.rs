//! Positions between elements.

/// A position between two elements, before the first or behind the last.
#[derive(Clone, Copy, Debug)]
pub enum Edge<'a> {
    /// Behind all lower scores.
    Score(f64),
    /// Behind all scores up to this one.
    BehindScore(f64),
    /// Before this element, or where it would be.
    Element(f64, &'a [u8]),
    /// Behind this element, or where it would be.
    BehindElement(f64, &'a [u8]),
    /// Behind all smaller members, where all scores are the same.
    Member(&'a [u8]),
    /// Behind all members up to this one, where all scores are the same.
    BehindMember(&'a [u8]),
}

impl Edge<'_> {
    /// Whether an element lies before the edge. Its member is asked for where the score does not say.
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
