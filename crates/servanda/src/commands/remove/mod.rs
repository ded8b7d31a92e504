//! `servanda remove`: removes a server from the configuration, with its contracts and pins. It shows what will be removed and asks first; a
//! failure leaves everything as it was.

mod config_text;
mod mentions;

use std::{
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use serde_json::json;
use servanda_catalog::pins::LockFile;
use servanda_config::LoadedConfig;

use crate::{
    cli::RemoveArgs,
    configuration,
    contracts::{self, ServerFiles, lock},
    failure::CommandFailure,
    files,
    screen::{
        Screen,
        consent::{self, ConsentQuestion},
        count,
    },
};

/// All changes, planned before any is made.
struct RemovePlan {
    /// The configuration without the server.
    config: String,
    /// The server's contracts.
    found: ServerFiles,
    /// The pins of all other servers; none if this server had no pins.
    lock: Option<LockFile>,
    pins: usize,
}

/// The earlier content of a file, to restore it.
struct FormerFile {
    file: PathBuf,
    text: Vec<u8>,
    mode: u32,
}

pub(crate) fn run(config: &Path, args: &RemoveArgs, screen: Screen) -> Result<(), CommandFailure> {
    let loaded = configuration::read(config)?;
    let server = args.server.as_str();
    if !loaded.config.upstreams.contains_key(server) {
        let known: Vec<&str> = loaded.config.upstreams.keys().map(String::as_str).collect();
        return Err(CommandFailure::bad_input(format!("`{}` has no server `{server}`", loaded.file.display()))
            .hint(format!("it has {}", known.join(", "))));
    }
    let plan = plan(&loaded, server)?;
    let mentions = mentions::find(&loaded, server, &plan.found.contracts);
    if !screen.json {
        show(&loaded, server, &plan, screen);
        for mention in &mentions {
            screen.say(format_args!("note: {mention}"));
        }
    }
    if args.dry_run {
        return report(server, &plan, &mentions, false, screen);
    }
    let question = ConsentQuestion {
        asked: format!("remove `{server}`?"),
        nothing: "nothing was removed",
        hint: "read what goes, then run it again with --yes",
    };
    consent::agree_here(&question, args.yes, screen)?;
    apply(&loaded, &plan)?;
    report(server, &plan, &mentions, true, screen)
}

fn plan(loaded: &LoadedConfig, server: &str) -> Result<RemovePlan, CommandFailure> {
    let file = loaded.file.display().to_string();
    let text = files::read_text(&loaded.file, files::TEXT_BYTES_MAX)
        .map_err(|error| CommandFailure::bad_input(format!("cannot read `{file}`: {error}")))?;
    let config = config_text::without(&file, &text, server).map_err(|why| {
        CommandFailure::bad_input(format!("`{server}` cannot be taken out of `{file}`: {why}"))
            .hint("nothing was changed; take it out by hand, then remove its contracts")
    })?;
    let found = contracts::files_of_server(loaded, server)?;
    let before = lock::read(&loaded.lock_file())?;
    let (mut pins, mut after) = (0, None);
    if let Some(mut lock) = before {
        let tools = lock.upstreams.remove(server);
        let listed = lock.listed.remove(server);
        pins = tools.as_ref().map_or(0, std::collections::BTreeMap::len);
        after = (tools.is_some() || listed.is_some()).then_some(lock);
    }
    Ok(RemovePlan { config, found, lock: after, pins })
}

fn show(loaded: &LoadedConfig, server: &str, plan: &RemovePlan, screen: Screen) {
    screen.say("this goes:");
    screen.say(format_args!("  `{server}` in {}", loaded.file.display()));
    for file in &plan.found.files {
        screen.say(format_args!("  {}", file.display()));
    }
    if plan.lock.is_some() {
        screen.say(format_args!("  {} in {}", count(plan.pins, "definition"), loaded.lock_file().display()));
    }
}

fn report(
    server: &str,
    plan: &RemovePlan,
    mentions: &[String],
    is_done: bool,
    screen: Screen,
) -> Result<(), CommandFailure> {
    if screen.json {
        return screen.json(&json!({
            "server": server, "removed": is_done, "contracts": plan.found.contracts, "files": plan.found.files,
            "pins": plan.pins, "still_mentioned": mentions,
        }));
    }
    if !is_done {
        screen.say("nothing was changed: this was a dry run");
        return Ok(());
    }
    screen.say(format_args!("`{server}` and {} are removed", count(plan.found.contracts.len(), "contract")));
    screen.hint("a running gateway takes it within seconds; `servanda check` says whether the rest still fits");
    Ok(())
}

/// Makes the change: first the contracts, then the configuration. In between the server has no tools, which a gateway can serve. The pins
/// go last, because a running gateway asks for consent if a server it still has loses its pins. A failure undoes everything.
fn apply(loaded: &LoadedConfig, plan: &RemovePlan) -> Result<(), CommandFailure> {
    let mut formers = Vec::new();
    let changed = change(loaded, plan, &mut formers);
    let Err(failure) = changed else {
        for folder in plan.found.files.iter().filter_map(|file| file.parent()) {
            // A folder is removed only if it is empty now.
            if folder != loaded.contracts_folder() {
                let _ = std::fs::remove_dir(folder);
            }
        }
        return Ok(());
    };
    let lost: Vec<String> = formers.iter().filter_map(|former| put_back(former).err()).collect();
    if lost.is_empty() {
        return Err(failure.hint("everything is as it was"));
    }
    Err(failure.hint(format!("these could not be put back: {}", lost.join(", "))))
}

fn change(loaded: &LoadedConfig, plan: &RemovePlan, formers: &mut Vec<FormerFile>) -> Result<(), CommandFailure> {
    let failed = |file: &Path, error: &std::io::Error| {
        CommandFailure::failed(format!("`{}` could not be changed: {error}", file.display()))
    };
    for file in &plan.found.files {
        let former = former(file, files::TEXT_BYTES_MAX).map_err(|error| failed(file, &error))?;
        std::fs::remove_file(file).map_err(|error| failed(file, &error))?;
        formers.push(former);
    }
    let config = former(&loaded.file, files::TEXT_BYTES_MAX).map_err(|error| failed(&loaded.file, &error))?;
    files::write_inside(&loaded.folder, &loaded.file, &plan.config, config.mode)
        .map_err(|error| failed(&loaded.file, &error))?;
    formers.push(config);
    let Some(after) = &plan.lock else { return Ok(()) };
    let file = loaded.lock_file();
    // Refuses a link, because it must not be written through. This is the last step, so the former content is not needed.
    former(&file, lock::LOCK_BYTES_MAX).map_err(|error| failed(&file, &error))?;
    lock::write(&file, after)
}

fn former(file: &Path, bytes_max: u64) -> std::io::Result<FormerFile> {
    files::refuse_link(file)?;
    let mode = std::fs::metadata(file)?.permissions().mode() & 0o777;
    Ok(FormerFile { file: file.to_owned(), text: files::read(file, bytes_max)?, mode })
}

fn put_back(former: &FormerFile) -> Result<(), String> {
    let shown = || former.file.display().to_string();
    let text = std::str::from_utf8(&former.text).map_err(|_| shown())?;
    let folder = former.file.parent().unwrap_or(Path::new("."));
    files::write_inside(folder, &former.file, text, former.mode).map_err(|_| shown())
}
