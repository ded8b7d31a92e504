//! One file per command. Commands read the configuration, assemble the gateway, and talk to the person who typed them. Texts that several
//! commands share are here too.

pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod budgets;
pub(crate) mod call;
pub(crate) mod callbacks;
pub(crate) mod calls;
pub(crate) mod check;
pub(crate) mod connect;
pub(crate) mod contract;
pub(crate) mod delegate;
pub(crate) mod demo;
pub(crate) mod diff;
pub(crate) mod disconnect;
pub(crate) mod doctor;
pub(crate) mod effects;
pub(crate) mod explain;
pub(crate) mod grants;
pub(crate) mod identity;
pub(crate) mod init;
pub(crate) mod keys;
pub(crate) mod ledger;
pub(crate) mod login;
pub(crate) mod migrate;
mod next_step;
mod objections;
mod operator;
pub(crate) mod passkeys;
pub(crate) mod pin;
mod pin_review;
pub(crate) mod pins;
pub(crate) mod policy;
mod preview;
pub(crate) mod quarantine;
pub(crate) mod remove;
pub(crate) mod review;
pub(crate) mod revoke;
mod rights_review;
mod rights_text;
mod running_gateway;
pub(crate) mod sample;
pub(crate) mod schema;
pub(crate) mod secret;
pub(crate) mod serve;
mod server_page;
pub(crate) mod stdio;
pub(crate) mod tools;
mod version_control;

use std::sync::Arc;

/// The name and version that the doors report.
pub(crate) fn server_identity() -> servanda_doors::ServerIdentity {
    servanda_doors::ServerIdentity {
        name: "servanda".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instructions: Some(
            "Every call is checked against its tool's contract. A refusal is JSON that says which gate refused, what was \
             expected where, and what to do next; correct the arguments as it says instead of trying variations."
                .to_owned(),
        ),
    }
}

/// The person at the command line, as a requester. A server cannot ask it any questions.
pub(crate) fn local_requester(client: &str) -> servanda_engine::Requester {
    let mut requester = servanda_engine::Requester::local();
    Arc::make_mut(&mut requester.caller).client = Some(format!("{client} {}", env!("CARGO_PKG_VERSION")));
    requester
}
