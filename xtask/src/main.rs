//! Automation of this project: `cargo xtask <task>`.
fn main() {}
