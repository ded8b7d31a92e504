//! `servanda contract show`: a tool's whole contract with the layer of each value. Starts nothing.

mod page;

use std::{collections::BTreeMap, path::Path};

use servanda_contract::layers::Layer;

use crate::{
    cli::{ContractArgs, ContractCommand},
    config::Loaded,
    contract_files::{Folder, Written},
    failure::Failure,
    screen::Screen,
};

pub(crate) fn run(config: &Path, args: &ContractArgs, screen: Screen) -> Result<(), Failure> {
    let ContractCommand::Show { tool } = &args.command;
    let loaded = Loaded::read(config)?;
    let written = named(&loaded, tool)?;
    let digest = written.contract.digest().map_err(|error| Failure::failed(error.to_string()))?;
    let contract = serde_json::to_value(&written.contract).map_err(|error| Failure::failed(error.to_string()))?;
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
    let head = [
        format!("# {}, contract digest {digest}", exposed(&loaded, &written)),
        match &written.place.tool {
            Some(tool) => format!("# `tools.{tool}` in {}", written.place.file.display()),
            None => format!("# all of it is written in {}", written.place.file.display()),
        },
    ];
    screen.data(head.join("\n"))?;
    let places = |layer: Layer| place(layer, &written, &loaded);
    let origins = written.composed.as_ref().map(|composed| &composed.origins);
    screen.data(page::page(&contract, origins, &places).trim_end())
}

/// The contract of a tool, by its exposed name or its contract's.
pub(crate) fn named(loaded: &Loaded, tool: &str) -> Result<Written, Failure> {
    let Folder { written, unread } = Folder::read(loaded)?;
    let is_meant = |one: &Written| one.contract.identity.name == tool || exposed(loaded, one) == tool;
    if let Some(found) = written.into_iter().find(is_meant) {
        return Ok(found);
    }
    if let Some(one) = unread.iter().find(|one| {
        one.binding.as_ref().is_some_and(|(server, name)| {
            loaded.config.tool_name(server, name) == tool || format!("{server}.{name}") == tool
        })
    }) {
        return Err(Failure::bad_input(format!("{}: {}", one.place.file.display(), one.reason))
            .hint("correct it, then `servanda check`"));
    }
    Err(Failure::bad_input(format!("there is no contract of a tool `{tool}`"))
        .hint("`servanda tools` lists every tool by the name that is meant"))
}

/// The name that agents know the tool by, unless it had another before.
pub(crate) fn exposed(loaded: &Loaded, written: &Written) -> String {
    let binding = &written.contract.binding;
    loaded.config.tool_name(&binding.upstream, &binding.tool)
}

/// A layer as people look for it.
fn place(layer: Layer, written: &Written, loaded: &Loaded) -> String {
    let file = |path: &Path| path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    match layer {
        Layer::BuiltIn(class) => format!("built in for {}", class.word()),
        Layer::Definition => file(&loaded.lock_file()),
        Layer::Configuration => format!("{}, defaults", file(&loaded.file)),
        Layer::Server => format!("{}, defaults", file(&written.place.file)),
        Layer::Tool => file(&written.place.file),
    }
}
