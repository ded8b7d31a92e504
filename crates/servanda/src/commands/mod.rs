//! One file a command. Commands read configuration, put the gateway together, and speak to the person who typed them.

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
pub(crate) mod identity;
pub(crate) mod init;
pub(crate) mod keys;
pub(crate) mod ledger;
pub(crate) mod login;
pub(crate) mod migrate;
pub(crate) mod pin;
pub(crate) mod pins;
pub(crate) mod policy;
pub(crate) mod quarantine;
pub(crate) mod remove;
pub(crate) mod review;
pub(crate) mod revoke;
pub(crate) mod sample;
pub(crate) mod schema;
pub(crate) mod secret;
pub(crate) mod serve;
pub(crate) mod stdio;
pub(crate) mod tools;

use servanda_contract::GateName;

/// What happened to a call at that stage. It is refused before it is sent; what comes after has failed.
pub(crate) const fn ended_word(gate: GateName) -> &'static str {
    match gate {
        GateName::Perform | GateName::Observe => "failed",
        _ => "refused",
    }
}

/// Who the doors say they are.
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

/// The person at the command line: nobody a server could ask anything.
pub(crate) fn local_guest(client: &str) -> servanda_engine::Guest {
    let mut guest = servanda_engine::Guest::local();
    guest.caller.client = Some(format!("{client} {}", env!("CARGO_PKG_VERSION")));
    guest
}

/// The holder of an API key, for whom the operator makes a call from the command line.
pub(crate) fn guest_by_operator(holder: std::sync::Arc<servanda_authority::Authenticated>) -> servanda_engine::Guest {
    let mut guest = local_guest("servanda-cli");
    let client = guest.caller.client.take().map(|client| format!("{client}, operated by {}", crate::operator::who()));
    guest.caller = servanda_contract::Caller { client, ..holder.caller() };
    guest.affinity = std::sync::Arc::from(format!("operator/{}", holder.credential()));
    guest.authority = holder;
    guest
}
