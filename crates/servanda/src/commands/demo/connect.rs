//! How to connect an agent to the demo, and where to look around.

use std::{net::SocketAddr, path::Path};

use super::{folder::DemoFolder, page};
use crate::screen::{Screen, TextStyle, paint_stderr};

/// The column at which commands begin.
const INDENT: usize = 16;

/// The hints while the demo is running.
pub(super) fn show_how(address: SocketAddr, folder: &DemoFolder, screen: Screen) {
    show(&format!("Connect an agent: the gateway is up at http://{address}/mcp until Ctrl-C"), address, screen);
    let (program, config) = (program(), folder.config_file());
    item("look around", &format!("{program} --config {} tools", config.display()), screen);
    item("what it did", &format!("{program} --config {} explain", config.display()), screen);
}

/// The hints after `--once`.
pub(super) fn show_how_later(address: SocketAddr, screen: Screen) {
    show("Connect an agent: without --once the gateway stays up at this address", address, screen);
    item("your tools", &format!("{} init    in a folder with a .mcp.json", program()), screen);
}

fn show(heading: &str, address: SocketAddr, screen: Screen) {
    let url = format!("http://{address}/mcp");
    screen.say(format_args!("\n{}", paint_stderr(heading, TextStyle::Strong)));
    item("Claude Code", &format!("claude mcp add --transport http servanda {url}"), screen);
    item(".mcp.json", &format!(r#"{{"mcpServers":{{"servanda":{{"type":"http","url":"{url}"}}}}}}"#), screen);
    item("Inspector", &format!("npx @modelcontextprotocol/inspector --cli {url} --method tools/list"), screen);
}

/// A label and a command. The command is never wrapped, because it is there to be copied.
fn item(label: &str, typed: &str, screen: Screen) {
    if INDENT + typed.chars().count() <= page::width() {
        screen.say(format_args!("  {label:<14}{typed}"));
    } else {
        screen.say(format_args!("  {label}:\n  {typed}"));
    }
}

/// The command for this program from here: its name if the shell finds it, otherwise its path.
fn program() -> String {
    const NAME: &str = "servanda";
    let Ok(path) = std::env::current_exe() else { return NAME.to_owned() };
    if on_search_path(&path) {
        return NAME.to_owned();
    }
    let here = std::env::current_dir().ok();
    // With `./`, because a shell searches `PATH` for a bare name.
    let near = here.and_then(|here| path.strip_prefix(here).map(|near| Path::new(".").join(near)).ok());
    near.unwrap_or(path).display().to_string()
}

fn on_search_path(program: &Path) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let first = std::env::split_paths(&folders).map(|folder| folder.join("servanda")).find(|file| file.is_file());
    first.and_then(|file| file.canonicalize().ok()).is_some_and(|file| file == program)
}
