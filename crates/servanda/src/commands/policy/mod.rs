//! `servanda policy`: the words that policies are written in, cases that hold them, why a call was decided as it was, and what others
//! would have decided. Nothing is started, and a gateway that runs does not notice.

mod explain;
mod recorded;
mod test;
mod what_if;

use std::{path::Path, sync::Arc};

use servanda_engine::Authorities;
use servanda_gates::CompiledContract;
use servanda_policy::{Policies, Vocabulary};

use crate::{
    cli::{PolicyArgs, PolicyCommand},
    config::Loaded,
    contracts,
    failure::Failure,
    policies::{self, Written},
    screen::Screen,
};

pub(crate) async fn run(config: &Path, args: &PolicyArgs, screen: Screen) -> Result<(), Failure> {
    let loaded = Loaded::read(config)?;
    match &args.command {
        PolicyCommand::Schema => schema(&loaded, screen),
        PolicyCommand::Test { file, policies } => test::run(&Desk::of(&loaded)?, file, policies.as_deref(), screen),
        PolicyCommand::Explain { call_id, arguments } => {
            explain::run(&Desk::of(&loaded)?, call_id, arguments.as_deref(), screen).await
        }
        PolicyCommand::WhatIf { policies, since, limit } => {
            let looked_at = what_if::Window { since_ms: *since, limit: *limit };
            what_if::run(&Desk::of(&loaded)?, policies.as_deref(), looked_at, screen).await
        }
    }
}

/// A configuration and its tools, as policies see them.
struct Desk<'a> {
    loaded: &'a Loaded,
    contracts: Vec<CompiledContract>,
    vocabulary: Arc<Vocabulary>,
}

impl<'a> Desk<'a> {
    fn of(loaded: &'a Loaded) -> Result<Self, Failure> {
        let contracts = contracts::load(loaded)?;
        let vocabulary = policies::vocabulary(loaded, &contracts)?;
        Ok(Self { loaded, contracts, vocabulary })
    }

    /// The policies in force, and those in shadow, as a gateway of this configuration has them.
    fn authorities(&self) -> Result<Authorities, Failure> {
        policies::authorities(self.loaded, &self.contracts)
    }

    /// The policies that the configuration's `files` are, whether or not they decide.
    fn written(&self) -> Result<Policies, Failure> {
        self.load(&Written::of_files(self.loaded)?)
    }

    /// Others, as if they were the configuration's.
    fn at(&self, path: &Path) -> Result<Policies, Failure> {
        self.load(&Written::at(path)?)
    }

    fn load(&self, written: &Written) -> Result<Policies, Failure> {
        written.load(&self.vocabulary, self.loaded.config.policy.defaults())
    }

    fn environment(&self) -> &str {
        &self.loaded.config.policy.environment
    }
}

fn schema(loaded: &Loaded, screen: Screen) -> Result<(), Failure> {
    let desk = Desk::of(loaded)?;
    let text = desk.vocabulary.schema_text();
    if screen.json {
        return screen.json(&serde_json::json!({ "schema": text }));
    }
    screen.data(text.trim_end())
}
