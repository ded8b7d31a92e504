//! `servanda policy`: prints the policy schema, tests policies with cases, explains decisions, and shows what other policies would have
//! decided. It starts nothing, and does not affect a running gateway.

mod explain;
mod recorded_calls;
mod test;
mod what_if;

use std::{path::Path, sync::Arc};

use servanda_config::LoadedConfig;
use servanda_engine::Authorities;
use servanda_gates::CompiledContract;
use servanda_policy::{Policies, Vocabulary};

use crate::{
    cli::{PolicyArgs, PolicyCommand},
    configuration, contracts,
    failure::CommandFailure,
    policies::{self, PolicyTexts},
    screen::Screen,
};

pub(crate) async fn run(config: &Path, args: &PolicyArgs, screen: Screen) -> Result<(), CommandFailure> {
    let loaded = configuration::read(config)?;
    match &args.command {
        PolicyCommand::Schema => schema(&loaded, screen),
        PolicyCommand::Test { file, policies } => {
            test::run(&PolicyCommandContext::read(&loaded)?, file, policies.as_deref(), screen)
        }
        PolicyCommand::Explain { call_id, arguments } => {
            explain::run(&PolicyCommandContext::read(&loaded)?, call_id, arguments.as_deref(), screen).await
        }
        PolicyCommand::WhatIf { policies, since, limit } => {
            let looked_at = what_if::WhatIfWindow { since_ms: *since, limit: *limit };
            what_if::run(&PolicyCommandContext::read(&loaded)?, policies.as_deref(), looked_at, screen).await
        }
    }
}

/// A configuration and its tools, as policies see them.
struct PolicyCommandContext<'a> {
    loaded: &'a LoadedConfig,
    contracts: Vec<CompiledContract>,
    vocabulary: Arc<Vocabulary>,
}

impl<'a> PolicyCommandContext<'a> {
    fn read(loaded: &'a LoadedConfig) -> Result<Self, CommandFailure> {
        let contracts = contracts::load(loaded)?;
        let vocabulary = policies::vocabulary(loaded, &contracts)?;
        Ok(Self { loaded, contracts, vocabulary })
    }

    /// The policies in force, and the shadow policies, as a gateway of this configuration loads them.
    fn authorities(&self) -> Result<Authorities, CommandFailure> {
        policies::authorities(self.loaded, &self.contracts, None)
    }

    /// The policies in the configuration's `files`, whether or not they are enforced.
    fn written_policies(&self) -> Result<Policies, CommandFailure> {
        self.load(&PolicyTexts::from_files(self.loaded)?)
    }

    /// Other policies, loaded as if they were the configuration's.
    fn policies_at(&self, path: &Path) -> Result<Policies, CommandFailure> {
        self.load(&PolicyTexts::from_path(path)?)
    }

    fn load(&self, written: &PolicyTexts) -> Result<Policies, CommandFailure> {
        written.load(&self.vocabulary, self.loaded.config.policy.defaults())
    }

    fn environment(&self) -> &str {
        &self.loaded.config.policy.environment
    }
}

fn schema(loaded: &LoadedConfig, screen: Screen) -> Result<(), CommandFailure> {
    let context = PolicyCommandContext::read(loaded)?;
    let text = context.vocabulary.schema_text();
    if screen.json {
        return screen.json(&serde_json::json!({ "schema": text }));
    }
    screen.data(text.trim_end())
}
