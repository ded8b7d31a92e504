//! `servanda identity`: says what tools do, which of them can be mixed up, and what definitions and statements would do.
//!
//! It reports what contracts declare and what `servanda-identity` finds; it starts nothing and decides nothing.

mod classify;
mod confusions;
mod lines;
mod model_config;
mod models;
mod opinion;
mod show;
mod statements;

use std::path::Path;

use servanda_catalog::{Catalog, CatalogEntry};
use servanda_contract::{ToolContract, tool::Behaviour};
use servanda_identity::{
    classifier::ClassifierOptions,
    layers::confusions::{Conduct, ConfusionCandidate},
};

use crate::{
    cli::{IdentityArgs, IdentityCommand},
    configuration, contracts,
    failure::CommandFailure,
    screen::Screen,
    wiring::remembered_names,
};

pub(crate) async fn run(config: &Path, args: &IdentityArgs, screen: Screen) -> Result<(), CommandFailure> {
    match &args.command {
        IdentityCommand::Show { tool } => show::run(&catalog(config).await?, tool, screen),
        IdentityCommand::Confusions => confusions::run(&catalog(config).await?, screen),
        IdentityCommand::Effects { file } => statements::run(file, screen),
        IdentityCommand::Classify { file, without_names, ignore_annotations, models } => {
            let options = ClassifierOptions { names: !without_names, annotations: !ignore_annotations };
            classify::run(file, options, models.as_deref(), screen).await
        }
    }
}

async fn catalog(config: &Path) -> Result<Catalog, CommandFailure> {
    let loaded = configuration::read(config)?;
    remembered_names::catalog(&loaded, contracts::load(&loaded)?).await
}

/// Every tool that can be mixed up with another, as its contract describes it.
fn descriptors(catalog: &Catalog) -> Vec<ConfusionCandidate> {
    let descriptor = |(name, entry): (&str, &CatalogEntry)| {
        let contract = entry.contract.contract();
        ConfusionCandidate {
            id: name.to_owned(),
            server: contract.binding.upstream.clone(),
            name: contract.binding.tool.clone(),
            input_schema: (*contract.affordance.input_schema).clone().into(),
            conduct: conduct(contract),
        }
    };
    catalog.entries().map(descriptor).collect()
}

/// The conduct of a tool. If the contract declares no behaviour, its effects tell whether it changes something.
fn conduct(contract: &ToolContract) -> Conduct {
    match &contract.behaviour {
        Some(behaviour) => behaviour.clone().into(),
        None => Conduct { mutability: Some(contract.mutability()), ..Conduct::default() },
    }
}

/// What a tool does, in the vocabulary of tool identity.
fn words(contract: &ToolContract) -> String {
    let little = || format!("{}|?|?", contract.mutability().word());
    contract.behaviour.as_ref().map_or_else(little, Behaviour::extended_words)
}
