//! The program `sluice-check-rdb`: runs the checker with the arguments and streams of the process.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    sluice_check::run(sluice_check::check_rdb)
}
