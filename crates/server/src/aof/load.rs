//! Loading the append-only file: each file that the manifest names, in order.

use super::folder::Folder;
use crate::host::Host;
use crate::os::plain_error;
use crate::storage::snapshot;
use sluice_config::param;
use sluice_engine::{AofEnd, AofPart, Engine, LogLevel, NotLoaded, Process};
use sluice_persist::aof::{AofFile, AofFileKind};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// Loads what the folder holds; nothing where it holds nothing. `go_on` is asked between two pieces. Errors: the log says why.
pub fn load(
    engine: &mut Engine,
    host: &mut Host,
    folder: &Folder,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(), NotLoaded> {
    let files: Vec<(AofFile, AofFileKind)> =
        folder.manifest().loaded().map(|(file, kind)| (file.clone(), kind)).collect();
    // That a file is missing is found before anything is loaded.
    for (file, _) in &files {
        if let Err(error) = folder.open(file).and_then(|file| file.size()) {
            let (name, reason) = (file.name.escape_ascii(), plain_error(&error));
            let text = format!("Unable to obtain the AOF file {name} length. stat: {reason}");
            return fail(host, &text);
        }
    }
    let start_ns = host.now().mono_ns;
    for (at, (file, kind)) in files.iter().enumerate() {
        load_file(engine, host, folder, (file, *kind), at + 1 == files.len(), go_on)?;
    }
    if !files.is_empty() {
        let text = format!("DB loaded from append only file: {:.3} seconds", seconds_since(host, start_ns));
        host.note(LogLevel::Notice, &text);
    }
    Ok(())
}

fn load_file(
    engine: &mut Engine,
    host: &mut Host,
    folder: &Folder,
    (file, kind): (&AofFile, AofFileKind),
    is_last: bool,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(), NotLoaded> {
    let name = String::from_utf8_lossy(&file.name).into_owned();
    let start_ns = host.now().mono_ns;
    let path = folder.path_of(&file.name);
    let mut source = snapshot::source(folder.storage(), path.as_os_str().as_bytes());
    let is_old_style = folder.is_old_style(file);
    let part = AofPart { name: &name, source: source.as_mut(), is_old_style };
    match engine.replay_aof(part, host, go_on)? {
        AofEnd::Whole => {}
        AofEnd::Truncated(_) if !engine.config().bool(param::AOF_LOAD_TRUNCATED) => {
            let text = format!(
                "Unexpected end of file reading the append only file {name}. You can: 1) Make a backup of your AOF file, then \
                 use ./valkey-check-aof --fix <filename.manifest>. 2) Alternatively you can set the 'aof-load-truncated' \
                 configuration option to yes and restart the server."
            );
            return fail(host, &text);
        }
        AofEnd::Truncated(_) if !is_last => {
            return fail(host, "Fatal error: the truncated file is not the last file");
        }
        AofEnd::Truncated(valid) => truncate(host, folder, file, &name, valid)?,
    }
    let what = if kind == AofFileKind::Base { "base" } else { "incr" };
    let text = format!("DB loaded from {what} file {name}: {:.3} seconds", seconds_since(host, start_ns));
    host.note(LogLevel::Notice, &text);
    Ok(())
}

/// Cuts off what is no whole record: more is going to be appended.
fn truncate(
    host: &mut Host,
    folder: &Folder,
    file: &AofFile,
    name: &str,
    valid: u64,
) -> Result<(), NotLoaded> {
    host.note(LogLevel::Warning, &format!("!!! Warning: short read while loading the AOF file {name}!!!"));
    host.note(LogLevel::Warning, &format!("!!! Truncating the AOF {name} at offset {valid} !!!"));
    let cut = folder.storage().append(&folder.path_of(&file.name)).and_then(|mut file| {
        file.truncate(valid)?;
        file.sync()
    });
    if let Err(error) = cut {
        let text = format!("Error truncating the AOF file {name}: {}", plain_error(&error));
        return fail(host, &text);
    }
    let text = format!("AOF {name} loaded anyway because aof-load-truncated is enabled");
    host.note(LogLevel::Warning, &text);
    Ok(())
}

fn seconds_since(host: &mut Host, start_ns: u64) -> f64 {
    Duration::from_nanos(host.now().mono_ns.saturating_sub(start_ns)).as_secs_f64()
}

fn fail(host: &mut Host, text: &str) -> Result<(), NotLoaded> {
    host.note(LogLevel::Warning, text);
    Err(NotLoaded::Failed)
}
