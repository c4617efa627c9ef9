//! Facts derived from a declaration. Each module here has pure functions of a [`crate::Spec`]; functions that
//! describe a call also take its arguments.

pub mod acl;
pub mod arity;
pub mod databases;
pub mod doc;
pub mod docs;
pub mod help;
pub mod info;
pub mod keys;
