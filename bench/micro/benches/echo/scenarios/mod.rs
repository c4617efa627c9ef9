//! The scenarios. Each scenario is a function that runs its cases and states its gates (bounds that a figure
//! must keep).

mod churn;
mod echo;
mod fanout;
mod flood;
mod idle;
mod large;
mod measure;

pub use idle::hold;

use super::args::Args;
use super::report::Report;

/// A scenario's name and its function.
type Scenario = (&'static str, fn(&Args, &mut Report));

pub const ALL: [Scenario; 6] = [
    ("e4", echo::run),
    ("e5", idle::run),
    ("e6", churn::run),
    ("e7", large::run),
    ("e8", fanout::run),
    ("e10", flood::run),
];
