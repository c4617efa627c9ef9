//! Facts derived from a declaration. Each part is a pure function of a [`crate::Spec`], and of the
//! arguments if it is about a call.

pub mod acl;
pub mod arity;
pub mod databases;
pub mod doc;
pub mod docs;
pub mod help;
pub mod info;
pub mod keys;
