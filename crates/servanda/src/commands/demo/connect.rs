//! How to connect an agent to the demo, and where to look around.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use super::folder::DemoFolder;
use crate::screen::{Mood, Screen, paint_stderr};

/// While it is up.
pub(super) fn show_how(address: SocketAddr, folder: &DemoFolder, screen: Screen) {
    let program = program();
    let config = folder.config_file();
    let config = config.display();
    show(&format!("Connect an agent: the gateway is up at http://{address}/mcp until Ctrl-C"), address, screen);
    screen.say(format_args!("  look around   {program} --config {config} tools"));
    screen.say(format_args!("  what it did   {program} --config {config} explain"));
}

/// After `--once`.
pub(super) fn show_how_later(address: SocketAddr, screen: Screen) {
    show("Connect an agent: without --once the gateway stays up, with all of this in it", address, screen);
    screen.say(format_args!("  your tools    {} init, in a folder with a .mcp.json", program()));
}

fn show(heading: &str, address: SocketAddr, screen: Screen) {
    let url = format!("http://{address}/mcp");
    screen.say(format_args!("\n{}", paint_stderr(heading, Mood::Strong)));
    screen.say(format_args!("  Claude Code   claude mcp add --transport http servanda {url}"));
    screen.say(format_args!(r#"  .mcp.json     {{"mcpServers":{{"servanda":{{"type":"http","url":"{url}"}}}}}}"#));
    screen.say(format_args!(
        "  Inspector     npx @modelcontextprotocol/inspector --cli {url} --transport http --method tools/list"
    ));
}

/// How this program is called from here: by its name if the shell finds it, else by its path.
fn program() -> String {
    const NAME: &str = "servanda";
    let Ok(path) = std::env::current_exe() else { return NAME.to_owned() };
    if on_search_path(&path) {
        return NAME.to_owned();
    }
    let here = std::env::current_dir().ok();
    let near = here.and_then(|here| path.strip_prefix(here).map(PathBuf::from).ok());
    near.unwrap_or(path).display().to_string()
}

fn on_search_path(program: &Path) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let first = std::env::split_paths(&folders).map(|folder| folder.join("servanda")).find(|file| file.is_file());
    first.and_then(|file| file.canonicalize().ok()).is_some_and(|file| file == program)
}
