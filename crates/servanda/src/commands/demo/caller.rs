//! The callers of the tour: the local user, who may do everything, and an agent whose credential covers little. The agent's credential is
//! real: it is made and verified as `servanda delegate` and the HTTP door do, with a root key of the demo's own.

use std::{collections::BTreeMap, sync::Arc};

use servanda_authority::{
    Actor, Narrowing, Secret,
    capability::{DelegatingUser, Delegation, ROOT_KEY_BYTES_MIN, RootKeys},
};
use servanda_contract::{Caller, time::Clock as _};
use servanda_engine::{Requester, SystemClock};

use crate::{
    cli::RightsArgs,
    commands::{local_requester, rights_text},
    failure::CommandFailure,
};

/// The one scope that the agent has.
const AGENT_SCOPE: &str = "customers:read";
/// How long its credential is valid; a tour takes seconds.
const AGENT_LIFETIME_MS: u64 = 600_000;
const CLIENT: &str = "servanda-demo";

/// Who calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DemoCaller {
    /// The person at the machine.
    LocalUser,
    /// An agent that may read customers and nothing else.
    ReadingAgent,
}

impl DemoCaller {
    /// The caller as the engine's requester.
    pub(super) fn requester(self) -> Result<Requester, CommandFailure> {
        match self {
            Self::LocalUser => Ok(local_requester(CLIENT)),
            Self::ReadingAgent => reading_agent()
                .map_err(|why| CommandFailure::failed(format!("no credential of an agent can be made: {why}"))),
        }
    }
}

fn reading_agent() -> Result<Requester, String> {
    let now = SystemClock.now();
    let key = Secret::random(ROOT_KEY_BYTES_MIN).map_err(|error| error.to_string())?;
    let roots = RootKeys::new("demo", BTreeMap::from([("demo".to_owned(), key)])).map_err(|error| error.to_string())?;
    let scopes = RightsArgs {
        scopes: vec![AGENT_SCOPE.to_owned()],
        tools: Vec::new(),
        resources: Vec::new(),
        ceiling: None,
        budget: None,
    };
    let local = local_requester(CLIENT);
    let user = DelegatingUser {
        tenant: local.caller.tenant.clone(),
        principal: local.caller.principal.clone(),
        groups: <_>::default(),
        rights: rights_text::rights(&scopes).map_err(|failure| failure.to_string())?,
    };
    let delegation = Delegation {
        actor: Actor::named("reading-agent").map_err(|error| error.to_string())?,
        actor_lineage: Vec::new(),
        actor_budgets: Vec::new(),
        narrowing: Narrowing::default(),
        lifetime_ms: AGENT_LIFETIME_MS,
    };
    let made = roots.grant(&user, delegation, now).map_err(|error| error.to_string())?;
    let text = made.text.as_text().ok_or("the credential is not text")?;
    let authority = Arc::new(roots.verify(text, now).map_err(|error| error.to_string())?);
    let caller = Caller { client: local.caller.client.clone(), ..authority.caller() };
    Ok(Requester { caller: Arc::new(caller), authority, ..Requester::local() })
}
