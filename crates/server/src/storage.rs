//! The file system that a process uses.

use sluice_storage::{Real, Storage};
use std::sync::Arc;

/// The machine's file system. In a build with debug assertions, it has the fault that an environment variable
/// requests.
pub fn of_process() -> Arc<dyn Storage> {
    let real = Arc::new(Real);
    #[cfg(debug_assertions)]
    if let Some(plan) = crate::test_switches::text(crate::test_switches::STORAGE) {
        let plan = plan.parse().expect("the switch of a test is well-formed");
        return Arc::new(sluice_storage::faulty::Faulty::new(
            real,
            plan,
            sluice_storage::faulty::AfterCrash::Exit,
        ));
    }
    real
}
