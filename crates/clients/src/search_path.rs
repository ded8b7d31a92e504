//! Finds programs as a shell does, with `PATH`.

use std::path::PathBuf;

/// Whether a command, looked up as a shell would, is the program that runs here.
pub fn is_this_program(command: &str) -> bool {
    let file = if command.contains('/') { Some(PathBuf::from(command)) } else { on_search_path(command) };
    let file = file.and_then(|file| file.canonicalize().ok());
    file.is_some() && file == std::env::current_exe().and_then(|program| program.canonicalize()).ok()
}

/// The first program of that name, as a shell would find it.
pub fn on_search_path(command: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).map(|folder| folder.join(command)).find(|file| file.is_file())
}
