//! `servanda schema`: prints the published JSON Schemas.

use servanda_config::Config;

use crate::{
    cli::{SchemaArgs, SchemaName},
    failure::CommandFailure,
    screen::Screen,
};

pub(crate) fn run(args: &SchemaArgs, screen: Screen) -> Result<(), CommandFailure> {
    screen.json(&schema(args.which))
}

pub(crate) fn schema(which: SchemaName) -> serde_json::Value {
    match which {
        SchemaName::Contract => servanda_contract::schemas::contract(),
        SchemaName::ServerContracts => servanda_contract::schemas::server_contracts(),
        SchemaName::Observation => servanda_contract::schemas::observation(),
        SchemaName::Preview => servanda_contract::schemas::preview(),
        SchemaName::Feedback => servanda_contract::schemas::feedback(),
        SchemaName::Refusal => servanda_contract::schemas::refusal(),
        SchemaName::Config => servanda_contract::schemas::published::<Config>("config", "Config"),
    }
}
