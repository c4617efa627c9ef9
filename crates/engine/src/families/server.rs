//! Commands about the server.

use crate::ctx::Route;

pub(crate) const ROUTES: &[Route] = &[];
