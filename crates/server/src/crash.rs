//! The crash report: what an operator needs to know when the process ends by a panic.

use std::io::Write;
use std::panic::PanicHookInfo;

/// Makes a panic print a report and end the process: state may be torn, and a supervisor or a replica takes over.
pub fn install(log_file: Option<String>) {
    std::panic::set_hook(Box::new(move |info| {
        let text = report(info);
        let written = log_file
            .as_ref()
            .and_then(|path| std::fs::OpenOptions::new().append(true).create(true).open(path).ok())
            .is_some_and(|mut file| file.write_all(text.as_bytes()).is_ok());
        if !written {
            let _ = std::io::stdout().write_all(text.as_bytes());
        }
        std::process::abort();
    }));
}

fn report(info: &PanicHookInfo<'_>) -> String {
    let place = info.location().map_or_else(|| "unknown place".to_owned(), ToString::to_string);
    let message = info.payload_as_str().unwrap_or("no message");
    format!(
        "\n\n=== SLUICE BUG REPORT START: Cut & paste starting from here ===\n\
         Sluice {} ended by a panic: {message}\nat {place}, thread '{}'\n\n\
         ------ STACK TRACE ------\n{}\n\
         === SLUICE BUG REPORT END. Please send this report with your configuration to the project. ===\n",
        env!("CARGO_PKG_VERSION"),
        std::thread::current().name().unwrap_or("unnamed"),
        std::backtrace::Backtrace::force_capture(),
    )
}
