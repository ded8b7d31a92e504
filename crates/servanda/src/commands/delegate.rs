//! `servanda delegate`: makes a credential for an agent, with a user's rights or fewer. It derives it from an API key or an agent
//! credential, grants it as the operator, or narrows an agent credential offline.
//!
//! Credentials are read from stdin or the environment, never from the command line, which every user of the machine can see.

use std::{
    io::{IsTerminal as _, Read as _},
    path::Path,
};

use serde::Serialize;
use servanda_authn::{keys, revocation, root_keys::RootKeyStore};
use servanda_authority::{
    Actor, AuthenticatedCaller, Rights, Secret,
    api_key::{self, PresentedKey},
    capability::{
        self, AgentCredential, CREDENTIAL_BYTES_MAX, Caveat, DelegatingUser, Delegation, DelegationError, attenuate,
    },
    exchange::{self, ExchangeRequest, ExchangeRules, TokenExchangeTerms},
};
use servanda_contract::{Timestamp, time::Clock as _};
use servanda_effects::Notebook;
use servanda_engine::SystemClock;

use crate::{
    cli::DelegateArgs,
    commands::{
        rights_review,
        rights_text::{self, span_ms},
    },
    configuration, credentials,
    failure::CommandFailure,
    screen::Screen,
};

/// The variable that is read first for a credential.
const VARIABLE: &str = "SERVANDA_CREDENTIAL";
/// How long a credential is valid by default.
const LIFETIME_MS_DEFAULT: u64 = 3_600_000;

pub(crate) async fn run(config: &Path, args: &DelegateArgs, screen: Screen) -> Result<(), CommandFailure> {
    let now = SystemClock.now();
    if args.offline {
        return narrow(args, now, screen);
    }
    let loaded = configuration::read(config)?;
    // Read before the ledger is opened, because a person who types it may take long.
    let own = if args.tenant.is_some() { None } else { Some(credential()?) };
    let ledger = configuration::ledger_place(&loaded)?.open().await?;
    let made = match own {
        None => grant(args, &credentials::root_keys(&loaded, ledger.clone()), now).await,
        Some(own) => delegate(args, own, ledger.as_ref(), &credentials::root_keys(&loaded, ledger.clone()), now).await,
    };
    ledger.close().await;
    let made = made?;
    show(&made, now, screen)?;
    rights_review::tell(&made.rights, &loaded, screen);
    Ok(())
}

/// How long the credential is to be valid, if given.
fn lifetime_ms(args: &DelegateArgs) -> Result<Option<u64>, CommandFailure> {
    let Some(ttl) = &args.ttl else { return Ok(None) };
    let lifetime_ms = span_ms("ttl", ttl)?;
    if lifetime_ms > capability::AGENT_LIFETIME_MS_MAX {
        return Err(
            CommandFailure::bad_input("--ttl: an agent's credential is good for a day at most").hint("--ttl 24h")
        );
    }
    Ok(Some(lifetime_ms))
}

/// Grants a credential as the operator.
async fn grant(args: &DelegateArgs, book: &RootKeyStore, now: Timestamp) -> Result<AgentCredential, CommandFailure> {
    let user = DelegatingUser {
        tenant: args.tenant.clone().unwrap_or_default(),
        principal: args.principal.clone().unwrap_or_default(),
        groups: args.groups.iter().cloned().collect(),
        rights: rights_text::rights(&args.rights)?,
    };
    let actor = Actor::named(args.agent.as_deref().unwrap_or_default()).map_err(|error| bad(&error))?;
    let narrowing = servanda_authority::Narrowing { depth_left: args.depth, ..Default::default() };
    let lifetime_ms = lifetime_ms(args)?.unwrap_or(LIFETIME_MS_DEFAULT);
    let roots = book.read(now).await.map_err(|error| store_unavailable(error.reason()))?;
    let delegation = Delegation { actor, actor_lineage: Vec::new(), actor_budgets: Vec::new(), narrowing, lifetime_ms };
    roots.grant(&user, delegation, now).map_err(not_delegated)
}

/// Derives a credential from one that the user has.
async fn delegate(
    args: &DelegateArgs,
    own: Secret,
    notebook: &dyn Notebook,
    book: &RootKeyStore,
    now: Timestamp,
) -> Result<AgentCredential, CommandFailure> {
    let roots = book.read(now).await.map_err(|error| store_unavailable(error.reason()))?;
    let text = own.as_text().unwrap_or_default().to_owned();
    let subject = if text.starts_with(capability::PREFIX) {
        roots.verify(&text, now).map_err(|error| bad(&error))?
    } else {
        authenticate_key(&text, notebook, now).await?
    };
    if let Err(error) = revocation::require_not_revoked(notebook, &subject, now).await {
        return Err(CommandFailure::refused(error.to_string()).hint("get a new credential first"));
    }
    let mut narrowing = rights_text::narrowing(&args.rights)?;
    let scopes = narrowing.scopes.take();
    narrowing.depth_left = args.depth;
    let lifetime_ms = Some(lifetime_ms(args)?.unwrap_or(LIFETIME_MS_DEFAULT));
    let terms = TokenExchangeTerms { agent: args.agent.clone(), lifetime_ms, narrowing };
    let request = ExchangeRequest { subject_token: own, actor_token: None, targets: Vec::new(), scopes, terms };
    let lifetime_ms_max = capability::AGENT_LIFETIME_MS_MAX;
    let rules = ExchangeRules { targets: Vec::new(), lifetime_ms_default: lifetime_ms_max, lifetime_ms_max };
    let delegation = exchange::decide(&request, &subject, None, &rules, now);
    let delegation = delegation.map_err(|error| {
        CommandFailure::refused(error.to_string()).hint("an agent gets what its user has, or less: ask for less")
    })?;
    roots.delegate(&subject, delegation, now).map_err(not_delegated)
}

async fn authenticate_key(
    text: &str,
    notebook: &dyn Notebook,
    now: Timestamp,
) -> Result<AuthenticatedCaller, CommandFailure> {
    if !text.starts_with(api_key::PREFIX) {
        return Err(CommandFailure::bad_input("that is neither an API key nor an agent credential")
            .hint("an access token is exchanged at the gateway: POST /oauth/token"));
    }
    let bad = |error: api_key::KeyError| {
        CommandFailure::bad_input(error.to_string()).hint("`servanda keys list` shows how keys stand")
    };
    let presented = PresentedKey::read(text).map_err(bad)?;
    let stored = keys::find(notebook, presented.id(), now).await.map_err(|error| store_unavailable(error.reason()))?;
    let stored = stored.ok_or_else(|| bad(api_key::KeyError::Unknown))?;
    stored.authenticate(&presented, now).map_err(bad)
}

/// Narrows an agent credential offline. Rights can be removed without the ledger, and can never be added back.
fn narrow(args: &DelegateArgs, now: Timestamp, screen: Screen) -> Result<(), CommandFailure> {
    let own = credential()?;
    let text = own.as_text().unwrap_or_default();
    if text.starts_with(api_key::PREFIX) {
        return Err(CommandFailure::bad_input("an API key cannot be narrowed offline: only the gateway knows it")
            .hint("servanda delegate --agent NAME < key.txt makes an agent credential of it, which can be narrowed"));
    }
    let before = capability::unverified_rights(text).map_err(|error| bad(&error))?;
    let mut narrowing = rights_text::narrowing(&args.rights)?;
    narrowing.depth_left = args.depth;
    let ends = |lifetime_ms| Timestamp::from_unix_ms(now.unix_ms().saturating_add(lifetime_ms));
    narrowing.expires_at = lifetime_ms(args)?.map(ends);
    if let Some(agent) = &args.agent {
        Actor::named(agent).map_err(|error| bad(&error))?;
    }
    let caveat = Caveat { actor: args.agent.clone(), narrowing };
    let narrowed = attenuate(text, &caveat).map_err(|error| bad(&error))?;
    let text = narrowed.as_text().unwrap_or_default();
    let after = capability::unverified_rights(text).map_err(|error| bad(&error))?;
    if screen.json {
        return screen.json(&serde_json::json!({ "credential": text, "caveat": caveat, "rights": after }));
    }
    screen.say("narrowed offline; its rights were not checked here, and rights that it lacked before it still lacks:");
    show_rights(&after, now, screen);
    let asked = caveat.narrowing.as_rights();
    if !asked.scopes.is_within(&before.scopes) && caveat.narrowing.scopes.is_some() {
        screen.say("note: it did not have all of the scopes that were named");
    }
    screen.data(text)
}

fn show_rights(rights: &Rights, now: Timestamp, screen: Screen) {
    for (name, shown) in rights_text::shown(rights) {
        screen.say(format_args!("  {name:<9} {shown}"));
    }
    let minutes = rights.expires_at.since_ms(now) / 60_000;
    screen.say(format_args!("  until     {} (in {minutes} minutes)", rights.expires_at));
    screen.say(format_args!("  handed on {} more times at most", rights.depth_left));
}

/// A credential as it is printed, once.
#[derive(Serialize)]
struct ShownCredential<'a> {
    credential: &'a str,
    id: &'a str,
    expires_at: String,
    rights: &'a Rights,
}

fn show(made: &AgentCredential, now: Timestamp, screen: Screen) -> Result<(), CommandFailure> {
    let Some(text) = made.text.as_text() else { return Err(CommandFailure::failed("the credential is not text")) };
    let id = made.credential.as_str();
    if screen.json {
        let expires_at = made.rights.expires_at.to_string();
        return screen.json(&ShownCredential { credential: text, id, expires_at, rights: &made.rights });
    }
    screen.say(id);
    show_rights(&made.rights, now, screen);
    screen.data(text)?;
    screen.hint(format_args!("servanda revoke {id} revokes it"));
    Ok(())
}

/// The user's credential, from the environment or stdin.
fn credential() -> Result<Secret, CommandFailure> {
    let missing = || {
        CommandFailure::bad_input("there is no credential to delegate from").hint(format!(
            "set {VARIABLE} or pipe it in: servanda delegate --agent NAME < key.txt; operators: --tenant T --principal P"
        ))
    };
    if let Ok(text) = std::env::var(VARIABLE) {
        let text = text.trim();
        return if text.is_empty() { Err(missing()) } else { Ok(Secret::from(text.to_owned())) };
    }
    if std::io::stdin().is_terminal() {
        return Err(missing());
    }
    let mut text = String::new();
    let bytes_max = u64::try_from(CREDENTIAL_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(2);
    std::io::stdin().take(bytes_max).read_to_string(&mut text)?;
    let text = text.trim();
    if text.is_empty() { Err(missing()) } else { Ok(Secret::from(text.to_owned())) }
}

/// An error about a credential never repeats the credential.
fn bad(error: &dyn std::fmt::Display) -> CommandFailure {
    CommandFailure::bad_input(error.to_string()).hint("servanda delegate --help")
}

fn store_unavailable(why: &str) -> CommandFailure {
    CommandFailure::failed(format!("the store of credentials does not answer: {why}"))
        .hint("`servanda doctor` looks at the ledger")
}

#[expect(clippy::needless_pass_by_value, reason = "handed to `map_err`")]
fn not_delegated(error: DelegationError) -> CommandFailure {
    CommandFailure::refused(error.to_string()).hint("an agent gets what its user has, or less: ask for less")
}
