//! `servanda contract show`: prints a tool's whole contract with the source of each value. Starts nothing.

mod page;

use std::{collections::BTreeMap, path::Path};

use servanda_config::LoadedConfig;
use servanda_contract::layers::Layer;

use crate::{
    cli::{ContractArgs, ContractCommand},
    commands::next_step,
    configuration,
    contracts::reading::{ContractFolder, LocatedContract},
    failure::CommandFailure,
    screen::{Screen, one_line},
};

pub(crate) fn run(config: &Path, args: &ContractArgs, screen: Screen) -> Result<(), CommandFailure> {
    let ContractCommand::Show { tool } = &args.command;
    let loaded = configuration::read(config)?;
    let written = named(&loaded, tool)?;
    let digest = written.contract.digest().map_err(|error| CommandFailure::failed(error.to_string()))?;
    let contract =
        serde_json::to_value(&written.contract).map_err(|error| CommandFailure::failed(error.to_string()))?;
    if screen.json {
        let layers = written.composed.as_ref().map(|composed| {
            let layers = composed.origins.iter().map(|(pointer, layer)| (pointer, place(layer, &written, &loaded)));
            layers.collect::<BTreeMap<_, _>>()
        });
        return screen.json(&serde_json::json!({
            "tool": exposed(&loaded, &written), "file": written.place.file, "digest": digest.to_string(),
            "contract": contract, "layers": layers,
        }));
    }
    let mut head = vec![
        format!("# {}, contract digest {digest}", exposed(&loaded, &written)),
        match &written.place.tool {
            Some(tool) => format!("# `tools.{tool}` in {}", written.place.file.display()),
            None => format!("# all of it is written in {}", written.place.file.display()),
        },
    ];
    if let Some(composed) = &written.composed {
        head.extend(composed.entry.why.iter().map(|why| format!("# why: {}", one_line(why))));
        head.push(match &composed.entry.reviewed {
            Some(review) => format!("# reviewed by {} on {}", one_line(&review.by), one_line(&review.at)),
            None => "# not reviewed yet: `servanda review`".to_owned(),
        });
    }
    screen.data(head.join("\n"))?;
    let places = |layer: Layer| place(layer, &written, &loaded);
    let origins = written.composed.as_ref().map(|composed| &composed.origins);
    screen.data(page::page(&contract, origins, &places).trim_end())
}

/// Finds a tool's contract by the exposed name or the contract's name.
pub(crate) fn named(loaded: &LoadedConfig, tool: &str) -> Result<LocatedContract, CommandFailure> {
    let ContractFolder { written, unread } = ContractFolder::read(loaded)?;
    let known: Vec<(String, String)> =
        written.iter().map(|one| (exposed(loaded, one), one.contract.binding.tool.clone())).collect();
    let is_meant = |one: &LocatedContract| one.contract.identity.name == tool || exposed(loaded, one) == tool;
    if let Some(found) = written.into_iter().find(is_meant) {
        return Ok(found);
    }
    if let Some(one) = unread.iter().find(|one| {
        one.binding.as_ref().is_some_and(|(server, name)| {
            loaded.config.tool_name(server, name) == tool || format!("{server}.{name}") == tool
        })
    }) {
        return Err(CommandFailure::bad_input(format!("{}: {}", one.place.file.display(), one.reason))
            .hint("correct it, then `servanda check`"));
    }
    Err(unnamed(tool, &known))
}

/// The error for an unknown name, with similar names.
fn unnamed(tool: &str, known: &[(String, String)]) -> CommandFailure {
    let known = known.iter().map(|(name, own)| (name.as_str(), own.as_str()));
    CommandFailure::bad_input(format!("there is no contract for a tool `{tool}`")).hint(next_step::nearest(tool, known))
}

/// The tool's exposed name, if it was never renamed.
pub(crate) fn exposed(loaded: &LoadedConfig, written: &LocatedContract) -> String {
    let binding = &written.contract.binding;
    loaded.config.tool_name(&binding.upstream, &binding.tool)
}

/// The file of a layer, as people look for it.
fn place(layer: Layer, written: &LocatedContract, loaded: &LoadedConfig) -> String {
    let file = |path: &Path| path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    match layer {
        Layer::BuiltIn(class) => format!("built in for {}", class.word()),
        Layer::Definition => file(&loaded.lock_file()),
        Layer::Configuration => format!("{}, defaults", file(&loaded.file)),
        Layer::Server => format!("{}, defaults", file(&written.place.file)),
        Layer::Tool => file(&written.place.file),
    }
}
