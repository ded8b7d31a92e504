//! `servanda login`, `logout` and `logins`: a user logs in at an upstream, logs out, and lists who is logged in. They work while a gateway
//! is running. No token is ever shown.

mod loopback_listener;

use std::{path::Path, sync::Arc, time::Duration};

use reqwest::Url;
use serde_json::{Value, json};
use servanda_config::{LoadedConfig, OauthConfig, OauthFlow};
use servanda_contract::{Caller, time::Clock};
use servanda_effects::Notebook;
use servanda_engine::SystemClock;
use servanda_ledger::Ledger;
use servanda_oauth::{
    challenge::Demand,
    discovery::DiscoveryInput,
    flow::{ConsentSession, FlowPlan, GrantSource},
    grant::{self, GrantError, UpstreamAccess, UpstreamAccessSource as _},
    login::Login,
    login_store::{LoginKey, LoginStore},
    pkce::random_text,
    probe::ChallengeProbe,
    scope::OauthScopes,
};
use servanda_upstream::{Upstream, UpstreamRequester};

use self::loopback_listener::LoopbackListener;
use crate::{
    cli::{LoginArgs, LogoutArgs},
    configuration,
    credentials::{self, VaultOauthTerms, login_store},
    failure::CommandFailure,
    screen::{Screen, TextStyle, lines, paint, table},
    wiring,
};

/// How long the first request may take that learns what the upstream asks for.
const PROBE_MS_MAX: u64 = 20_000;

pub(crate) async fn login(config: &Path, args: &LoginArgs, screen: Screen) -> Result<(), CommandFailure> {
    let loaded = configuration::read(config)?;
    let oauth = configured(&loaded, &args.upstream)?;
    if oauth.flow != OauthFlow::User {
        return Err(CommandFailure::bad_input(format!("`{}` needs no login", args.upstream))
            .hint("its `credential` has another flow than `user`"));
    }
    let whose = login_key(&args.upstream, args.user.as_ref());
    let (ledger, login_store) = open(&loaded).await?;
    let outcome = agree(&loaded, args, &whose, &login_store, screen).await;
    ledger.close().await;
    let login = outcome?;
    if screen.json {
        return screen.data(json!({ "login": described(&whose, Some(&login)) }));
    }
    let scopes = login.scopes.line().map_or_else(String::new, |line| format!(" with {line}"));
    screen.say(format_args!("{} may be used for {}{scopes}, {}", whose.upstream, name(&whose), until(&login)));
    screen.hint(format_args!("servanda tools; and to take it back: servanda logout {}", whose.upstream));
    Ok(())
}

pub(crate) async fn logout(config: &Path, args: &LogoutArgs, screen: Screen) -> Result<(), CommandFailure> {
    let loaded = configuration::read(config)?;
    let oauth = configured(&loaded, &args.upstream)?;
    let whose = login_key(&args.upstream, args.user.as_ref());
    let (ledger, login_store) = open(&loaded).await?;
    let now = SystemClock.now();
    // A login that can no longer be decrypted is removed like any other.
    let known = login_store.logins(now).await.map(|all| all.into_iter().any(|(other, _)| other == whose));
    let forgotten = login_store.forget(&whose).await;
    let unbound = match &oauth.client_id {
        Some(client) => login_store.unbind_issuer(&whose.upstream, client).await,
        None => Ok(()),
    };
    ledger.close().await;
    let known = known.and_then(|known| forgotten.and(unbound).map(|()| known)).map_err(failed)?;
    if screen.json {
        return screen.json(&json!({ "upstream": whose.upstream, "user": name(&whose), "forgotten": known }));
    }
    if known {
        screen.say(format_args!("the login of {} at `{}` is forgotten", name(&whose), whose.upstream));
        screen.hint("the authorization server may keep it: withdraw it there as well if it matters");
    } else {
        screen.say(format_args!("{} has no login at `{}`", name(&whose), whose.upstream));
    }
    Ok(())
}

pub(crate) async fn list(config: &Path, screen: Screen) -> Result<(), CommandFailure> {
    let loaded = configuration::read(config)?;
    let found = if configuration::ledger_place(&loaded)?.is_missing() {
        Vec::new()
    } else {
        let (ledger, login_store) = open(&loaded).await?;
        let found = login_store.logins(SystemClock.now()).await;
        ledger.close().await;
        found.map_err(failed)?
    };
    if screen.json {
        let all: Vec<Value> = found.iter().map(|(whose, login)| described(whose, login.as_ref())).collect();
        return screen.json(&all);
    }
    if found.is_empty() {
        screen.say("no user is logged in at an upstream yet");
        if let Some(id) = loaded.config.upstreams.iter().find_map(|(id, one)| one.oauth().map(|_| id)) {
            screen.hint(format_args!("servanda login {id}"));
        }
        return Ok(());
    }
    let mut shown = table(&["upstream", "user", "scopes", "issuer", "until"]);
    for (whose, login) in &found {
        let Some(login) = login else {
            let sealed = paint("cannot be opened with the key of this gateway", TextStyle::Bad);
            shown.add_row([whose.upstream.clone(), name(whose), String::new(), String::new(), sealed]);
            continue;
        };
        let scopes = login.scopes.line().unwrap_or_else(|| "-".to_owned());
        shown.add_row([whose.upstream.clone(), name(whose), scopes, login.issuer.clone(), until(login)]);
    }
    screen.data(lines(&shown))
}

/// Leads a user through the login, and stores the result.
async fn agree(
    loaded: &LoadedConfig,
    args: &LoginArgs,
    whose: &LoginKey,
    login_store: &LoginStore,
    screen: Screen,
) -> Result<Login, CommandFailure> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let now = clock.now();
    let access = access(loaded, &whose.upstream).await?;
    // A login that cannot be decrypted is replaced.
    let before = login_store.login(whose, now).await.ok().flatten();
    let wanted = login_store.demand(whose, now).await.map_err(failed)?;
    let heard = probe_demand(loaded, &whose.upstream, screen).await?;
    let window = LoopbackListener::open(&ports(args.port, before.as_ref()), args.timeout_ms, screen).await?;
    let bound = match &access.client.id {
        Some(client) => login_store.issuer(&whose.upstream, client, now).await.map_err(failed)?,
        None => None,
    };
    let oauth_http = access.oauth_http().await.map_err(|error| CommandFailure::failed(error.to_string()))?;
    let known = DiscoveryInput {
        trust: oauth_http.trust().clone(),
        challenged: heard.is_some(),
        resource_metadata: heard.as_ref().and_then(|heard| heard.resource_metadata.clone()),
        issuer: access.issuer.clone().or(bound),
    };
    let challenged = all_scopes([wanted.scopes.as_ref(), heard.as_ref().and_then(|heard| heard.scopes.as_ref())]);
    let plan = plan(args, &access, challenged, before.as_ref(), window.redirect())?;
    let granted = grant::obtain(&oauth_http, plan, known, &clock, &window).await;
    let granted = granted.map_err(|error| not_granted(&whose.upstream, &error))?;
    let login = Login::from_grant(&granted, &access.client, Some(window.redirect()), clock.now());
    login_store.save(whose, &login).await.map_err(failed)?;
    login_store.clear_demand(whose).await.map_err(failed)?;
    if let Some(client) = &access.client.id {
        login_store.bind_issuer(&whose.upstream, client, &login.issuer).await.map_err(failed)?;
    }
    Ok(login)
}

fn plan(
    args: &LoginArgs,
    access: &UpstreamAccess,
    challenged: Option<OauthScopes>,
    before: Option<&Login>,
    redirect: String,
) -> Result<FlowPlan, CommandFailure> {
    let typed = Some(&args.scope).filter(|scopes| !scopes.is_empty()).map(|scopes| OauthScopes::new(scopes.clone()));
    let typed = typed.transpose().map_err(|error| CommandFailure::bad_input(format!("--scope: {error}")))?;
    let random = || random_text().map_err(|error| CommandFailure::failed(error.to_string()));
    // A client that registered itself is reused only if it registered the same redirect address.
    let earlier = before.filter(|before| before.redirect.as_deref() == Some(redirect.as_str()));
    let earlier = earlier.and_then(Login::registered_client);
    let asked = before.filter(|before| before.is_for(&access.url)).map(|before| before.asked.clone());
    Ok(FlowPlan {
        client: access.client.clone(),
        scopes: typed.or_else(|| access.scopes.clone()),
        before: asked,
        challenged,
        means: GrantSource::Consent(ConsentSession { redirect, state: random()?, verifier: random()?, earlier }),
    })
}

/// What the upstream asks for when a request has no credential.
async fn probe_demand(loaded: &LoadedConfig, id: &str, screen: Screen) -> Result<Option<Demand>, CommandFailure> {
    let config = loaded.config.upstreams.get(id).ok_or_else(|| unknown(id, loaded))?;
    let probe = Arc::new(ChallengeProbe::default());
    let upstream = Upstream::with_credentials(
        loaded.upstream(id, config)?,
        wiring::notebook_for_command(loaded)?,
        vec![probe.clone()],
    );
    let waiting = screen.wait(format!("asking `{id}` which login it needs"));
    let asked =
        tokio::time::timeout(Duration::from_millis(PROBE_MS_MAX), upstream.tools(&UpstreamRequester::gateway())).await;
    upstream.shutdown().await;
    waiting.finish_and_clear();
    match (probe.demand(), asked) {
        (Some(heard), _) => Ok(Some(heard)),
        (None, Ok(Ok(_))) => {
            screen.say(format_args!("note: `{id}` accepts requests without a credential; a login may not be needed"));
            Ok(None)
        }
        (None, Ok(Err(error))) => {
            Err(CommandFailure::failed(format!("`{id}`: {error}")).hint("is the server running?"))
        }
        (None, Err(_)) => Err(CommandFailure::failed(format!("`{id}` does not answer")).hint("is the server running?")),
    }
}

/// The ports to try: the given one; otherwise the one of the last login, so that a client that registered itself need not register again;
/// otherwise any.
fn ports(wanted: Option<u16>, before: Option<&Login>) -> Vec<u16> {
    let last = || before?.redirect.as_deref().and_then(|redirect| Url::parse(redirect).ok())?.port();
    wanted.map_or_else(|| last().into_iter().chain([0]).collect(), |port| vec![port])
}

fn all_scopes<const N: usize>(sets: [Option<&OauthScopes>; N]) -> Option<OauthScopes> {
    let all: Vec<&str> = sets.into_iter().flatten().flat_map(OauthScopes::iter).collect();
    if all.is_empty() { None } else { OauthScopes::new(all).ok() }
}

async fn access(loaded: &LoadedConfig, id: &str) -> Result<UpstreamAccess, CommandFailure> {
    let oauth = configured(loaded, id)?;
    let config = loaded.config.upstreams.get(id).ok_or_else(|| unknown(id, loaded))?;
    let spec = loaded.upstream(id, config)?;
    let servanda_upstream::Transport::Http { url, .. } = &spec.transport else { return Err(unknown(id, loaded)) };
    let terms = VaultOauthTerms::new(id, url, oauth, credentials::vault(loaded))?;
    terms.access().await.map_err(|lack| {
        let failure = CommandFailure::failed(lack.to_string());
        match lack.hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    })
}

async fn open(loaded: &LoadedConfig) -> Result<(Arc<Ledger>, LoginStore), CommandFailure> {
    let ledger = configuration::ledger_place(loaded)?.open().await?;
    let notebook: Arc<dyn Notebook> = ledger.clone();
    let login_store = login_store(&credentials::vault(loaded), notebook)?;
    Ok((ledger, login_store))
}

fn configured<'a>(loaded: &'a LoadedConfig, id: &str) -> Result<&'a OauthConfig, CommandFailure> {
    let upstream = loaded.config.upstreams.get(id).ok_or_else(|| unknown(id, loaded))?;
    upstream.oauth().ok_or_else(|| {
        CommandFailure::bad_input(format!("`{id}` has no `credential` with `oauth` in the configuration"))
            .hint(format!("add `credential: {{ oauth: {{}} }}` to `{id}` in servanda.yaml"))
    })
}

fn unknown(id: &str, loaded: &LoadedConfig) -> CommandFailure {
    let known: Vec<&str> = loaded.config.upstreams.keys().map(String::as_str).collect();
    CommandFailure::bad_input(format!("there is no upstream `{id}`")).hint(format!("there are {}", known.join(", ")))
}

fn login_key(upstream: &str, user: Option<&(String, String)>) -> LoginKey {
    let caller = user.map_or_else(Caller::local, |(tenant, principal)| Caller::named(tenant, principal));
    LoginKey::for_caller(upstream, &caller)
}

fn name(whose: &LoginKey) -> String {
    format!("{}/{}", whose.tenant, whose.principal)
}

fn until(login: &Login) -> String {
    match (login.refresh_token().is_some(), login.expires_at) {
        (true, _) => "until it is withdrawn".to_owned(),
        (false, Some(at)) => format!("until {at}"),
        (false, None) => "for as long as the server takes it".to_owned(),
    }
}

fn described(whose: &LoginKey, login: Option<&Login>) -> Value {
    json!({
        "upstream": whose.upstream,
        "tenant": whose.tenant,
        "principal": whose.principal,
        "opened": login.is_some(),
        "issuer": login.map(|login| &login.issuer),
        "resource": login.map(|login| &login.resource),
        "client_id": login.map(Login::client_id),
        "scopes": login.map(|login| login.scopes.iter().collect::<Vec<_>>()),
        "issued_at": login.map(|login| login.issued_at.to_string()),
        "expires_at": login.and_then(|login| login.expires_at).map(|at| at.to_string()),
        "renews": login.is_some_and(|login| login.refresh_token().is_some()),
    })
}

fn failed(error: impl std::fmt::Display) -> CommandFailure {
    CommandFailure::failed(error.to_string()).hint("`servanda doctor` looks at the ledger and the encrypted store")
}

fn not_granted(upstream: &str, error: &GrantError) -> CommandFailure {
    CommandFailure::failed(format!("`{upstream}`: {error}"))
        .hint("docs/upstream-oauth.md says what each of these means")
}
