//! `sluice-server`: sets the global allocator, and runs the server.
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod allocator;

fn main() -> std::process::ExitCode {
    match sluice_server::run(std::env::args_os().skip(1).collect(), &allocator::ALLOCATOR) {
        Ok(status) => std::process::ExitCode::from(status),
        Err(failure) => {
            eprint!("{}", failure.text);
            std::process::ExitCode::from(1)
        }
    }
}
