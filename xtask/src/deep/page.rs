//! The page of the metrics endpoint in headless Chromium: `e2e/page/run.mjs`.

use std::process::{Command, Stdio};

use crate::binaries;
use crate::error::Result;
use crate::shell::Ran;

/// Names of the Chromium program on different systems.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Opens the page in every state of a server, and compares its numbers with INFO's.
pub(super) fn run() -> Result<Ran> {
    let named = std::env::var("SLUICE_CHROMIUM").ok();
    let names = named.as_deref().into_iter().chain(BROWSERS);
    let Some(browser) = names.into_iter().find(|name| is_there(name)) else {
        println!("page: skipped: there is no Chromium; SLUICE_CHROMIUM names one");
        return Ok(Ran::Skipped);
    };
    if !is_there("node") {
        println!("page: skipped: there is no program node");
        return Ok(Ran::Skipped);
    }
    let binary = binaries::build_server()?.ok_or("there is no server to run")?;
    let mut command = Command::new("node");
    command.arg("e2e/page/run.mjs").arg(&binary).arg(browser);
    if let Ok(folder) = std::env::var("SLUICE_SCREENSHOTS") {
        command.args(["--screenshots", &folder]);
    }
    match command.status()?.success() {
        true => Ok(Ran::Passed),
        false => Err("the page does not show what it should".into()),
    }
}

fn is_there(program: &str) -> bool {
    let version = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}
