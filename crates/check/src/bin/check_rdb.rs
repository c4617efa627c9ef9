//! `sluice-check-rdb`.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    sluice_check::run(sluice_check::check_rdb)
}
