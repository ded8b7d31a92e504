//! `servanda doctor`: checks everything the gateway needs, one line each, and says what to do about problems.

mod databases;
mod ledger;
mod privacy;
mod reachability;

use std::path::Path;

use serde::Serialize;
use servanda_catalog::{Catalog, Inventory, ToolHold, ToolStanding, pins::Pins};
use servanda_config::{AuthMode, LOCK_FILE, LoadedConfig, OauthConfig};
use servanda_contract::legibility::reveal;
use servanda_effects::JournalError;
use servanda_engine::{discover, quarantine::QuarantineHistory};
use servanda_mcp::ClientCapabilities;
use servanda_upstream::{Transport, Upstream, UpstreamStatus};
use tokio::net::TcpListener;

use crate::{
    cli::DoctorArgs,
    commands::{
        objections,
        running_gateway::{self, ListeningGateway},
    },
    configuration,
    contracts::{self, lock},
    credentials,
    failure::CommandFailure,
    screen::{Screen, TextStyle, count, paint},
    wiring::{self, remembered_names, survey::told_if_slow},
};

/// The result of one check.
#[derive(Debug, Serialize)]
struct DoctorFinding {
    what: String,
    mark: DoctorSeverity,
    says: String,
    hint: Option<String>,
}

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum DoctorSeverity {
    /// All is well.
    Good,
    /// Worth knowing; nothing is broken.
    Note,
    /// A problem.
    Bad,
}

#[derive(Default)]
struct DoctorFindings(Vec<DoctorFinding>);

impl DoctorFindings {
    fn good(&mut self, what: impl Into<String>, says: impl Into<String>) {
        self.0.push(DoctorFinding { what: what.into(), mark: DoctorSeverity::Good, says: says.into(), hint: None });
    }

    fn note(&mut self, what: impl Into<String>, says: impl Into<String>, hint: impl Into<String>) {
        self.0.push(DoctorFinding {
            what: what.into(),
            mark: DoctorSeverity::Note,
            says: says.into(),
            hint: Some(hint.into()),
        });
    }

    fn bad(&mut self, what: impl Into<String>, says: impl Into<String>, hint: impl Into<String>) {
        self.0.push(DoctorFinding {
            what: what.into(),
            mark: DoctorSeverity::Bad,
            says: says.into(),
            hint: Some(hint.into()),
        });
    }
}

pub(crate) async fn run(config: &Path, args: &DoctorArgs, screen: Screen) -> Result<(), CommandFailure> {
    let mut findings = DoctorFindings::default();
    // Before the configuration is read, because reading it repairs the permissions of files in its folder.
    privacy::tell(&privacy::exposed(config), &mut findings);
    match configuration::read(config) {
        Err(failure) => {
            let hint = failure.hint_text().unwrap_or("correct the file").to_owned();
            findings.bad("configuration", failure.to_string(), hint);
        }
        Ok(loaded) => {
            let upstreams = loaded.config.upstreams.len();
            findings.good("configuration", format!("{} with {}", loaded.file.display(), count(upstreams, "upstream")));
            look(&loaded, args, &mut findings, screen).await;
        }
    }
    report(&findings.0, screen)
}

async fn look(loaded: &LoadedConfig, args: &DoctorArgs, findings: &mut DoctorFindings, screen: Screen) {
    privacy::tell(&privacy::exposed_ledger(loaded), findings);
    let catalog = match look_at_contracts(loaded, findings) {
        Some(catalog) => {
            let named = remembered_names::with_remembered_names(loaded, catalog).await;
            named.inspect_err(|failure| findings.bad("names", failure.to_string(), "rename one of the two")).ok()
        }
        None => None,
    };
    ledger::look(loaded, findings).await;
    look_at_address(loaded, findings).await;
    look_at_issuers(loaded, findings).await;
    look_at_provider(loaded, findings).await;
    let upstreams = match wiring::notebook_for_command(loaded).and_then(|notebook| wiring::upstreams(loaded, &notebook))
    {
        Ok(upstreams) => upstreams,
        Err(failure) => {
            let hint = failure.hint_text().unwrap_or("correct the file").to_owned();
            return findings.bad("upstreams", failure.to_string(), hint);
        }
    };
    look_at_variables(loaded, findings);
    look_at_secrets(loaded, findings);
    let waiting = screen.wait(format!("connecting to {}", count(upstreams.len(), "upstream")));
    for (id, upstream) in upstreams {
        waiting.set_message(format!("connecting to {id}"));
        let oauth = loaded.config.upstreams.get(&id).and_then(|config| config.oauth());
        let looking = look_at_upstream((&id, oauth), &upstream, catalog.as_ref(), findings);
        told_if_slow(&upstream, looking, &waiting, screen).await;
        if let Some(catalog) = catalog.as_ref().filter(|_| args.databases) {
            databases::look(&id, &upstream, catalog, findings).await;
        }
        upstream.shutdown().await;
    }
    waiting.finish_and_clear();
}

/// Variables that a server inherits and that are not set. A server may not need them, so this is a note.
fn look_at_variables(loaded: &LoadedConfig, findings: &mut DoctorFindings) {
    for (id, upstream) in &loaded.config.upstreams {
        for name in upstream.env_pass.iter().filter(|name| std::env::var_os(name).is_none()) {
            findings.note(
                format!("upstream {id}"),
                format!("is to be passed the variable `{name}`, which is not set"),
                format!("`export {name}=...` where servanda is started, or take it out of `env_pass`"),
            );
        }
    }
}

/// Secrets that upstreams need, and the console.
fn look_at_secrets(loaded: &LoadedConfig, findings: &mut DoctorFindings) {
    for needed in credentials::needed(loaded) {
        let what = needed.upstream.map_or_else(|| "console".to_owned(), |upstream| format!("upstream {upstream}"));
        match needed.lack {
            None => findings.good(what, format!("needs the secret `{}`, which is there", needed.secret)),
            Some(lack) => {
                findings.bad(what, format!("lacks a secret: {lack}"), format!("`{}`", lack.hint()));
            }
        }
    }
}

fn look_at_contracts(loaded: &LoadedConfig, findings: &mut DoctorFindings) -> Option<Catalog> {
    match contracts::judge_all(loaded) {
        Err(failure) => {
            findings.bad("contracts", failure.to_string(), "servanda init");
            None
        }
        Ok((admitted, problems)) => {
            for problem in &problems {
                findings.bad(
                    "contract",
                    problem.to_string().trim_start().to_owned(),
                    "correct the file, then `servanda check`",
                );
            }
            if problems.is_empty() {
                findings.good("contracts", format!("{} admitted", admitted.len()));
            }
            let admitted_count = admitted.len();
            let catalog = match lock::pins(loaded) {
                Ok(pins) => {
                    look_at_pins(&pins, admitted_count, findings);
                    Catalog::pinned(admitted, loaded.config.name_policy(), pins)
                }
                Err(failure) => {
                    let hint = failure.hint_text().unwrap_or("correct the file").to_owned();
                    findings.bad("pins", failure.to_string(), hint);
                    Catalog::new(admitted, loaded.config.name_policy())
                }
            };
            catalog.inspect_err(|error| findings.bad("names", error.to_string(), "rename one of the two")).ok()
        }
    }
}

fn look_at_pins(pins: &Pins, contracts: usize, findings: &mut DoctorFindings) {
    match &pins.lock {
        Some(lock) => {
            let definitions = lock.pins().count() + lock.listed_pins().count();
            findings.good("pins", format!("{} agreed to", count(definitions, "definition")));
        }
        None if contracts == 0 || pins.policy.missing.is_some() => {}
        None => findings.note(
            "pins",
            format!("there is no {LOCK_FILE}, so a tool that changes goes unnoticed"),
            "`servanda pin --all` agrees to what the servers offer now",
        ),
    }
}

/// Tools that broke their contract, which is a problem, and tools that a person holds back, which is not.
fn look_at_quarantine(
    loaded: &LoadedConfig,
    known: Result<Vec<QuarantineHistory>, JournalError>,
    findings: &mut DoctorFindings,
) {
    let known = match known {
        Ok(known) => known,
        Err(error) => return findings.bad("quarantine", error.reason(), "`servanda quarantine list` tries again"),
    };
    for history in known {
        let Some(hold) = history.hold() else { continue };
        let tool = loaded.config.tool_name(&history.tool.upstream, &history.tool.tool);
        let hint = format!("`servanda quarantine release {tool} --reason TEXT` releases it");
        match hold {
            ToolHold::Observed { call_id, probes } => {
                let says = format!("`{tool}` says that it only reads, and changed {}", probes.join(", "));
                findings.bad("quarantine", says, format!("`servanda explain {call_id}` has what was seen; {hint}"));
            }
            ToolHold::Blocked { by, reason } => {
                findings.note("quarantine", format!("`{tool}` is held back by {by}: {reason}"), hint);
            }
            _ => {}
        }
    }
}

async fn look_at_address(loaded: &LoadedConfig, findings: &mut DoctorFindings) {
    match loaded.listen().map_err(CommandFailure::from) {
        Err(failure) => findings.bad("address", failure.to_string(), failure.hint_text().unwrap_or_default()),
        Ok(address) => match TcpListener::bind(address).await {
            Ok(_) => findings.good("address", format!("{address} is free")),
            Err(error) => match running_gateway::ask(address, &loaded.file).await {
                ListeningGateway::Ours => findings.good("address", format!("a gateway answers at {address}")),
                ListeningGateway::Another => findings.bad(
                    "address",
                    format!("a gateway of another configuration answers at {address}"),
                    "choose another `listen` for this one, or end the other",
                ),
                ListeningGateway::NoGateway => findings.bad(
                    "address",
                    format!("{address}: {error}"),
                    "choose another `listen`, or end what listens there",
                ),
            },
        },
    }
}

/// Whether the keys of the configured token issuers can be fetched.
async fn look_at_issuers(loaded: &LoadedConfig, findings: &mut DoctorFindings) {
    let auth = &loaded.config.auth;
    if auth.mode == AuthMode::Required && auth.issuers.is_empty() && !auth.keys {
        let says = "neither keys nor tokens are accepted, only credentials that `servanda delegate` makes";
        findings.note("auth", says, "set `auth.keys: true`, or name an issuer");
    }
    for issuer in &auth.issuers {
        let what = format!("issuer {}", issuer.issuer);
        match servanda_authn::check_issuer(&issuer.issuer, issuer.jwks_uri.as_deref()).await {
            Ok(()) => findings.good(what, "its keys can be fetched"),
            Err(why) => {
                let why =
                    reachability::explained(Some(issuer.jwks_uri.as_deref().unwrap_or(&issuer.issuer)), &why).await;
                findings.bad(
                    what,
                    why,
                    "check `issuer` and `jwks_uri`; without its keys none of its tokens is accepted",
                );
            }
        }
    }
}

/// Whether people could sign in through the configured identity provider.
async fn look_at_provider(loaded: &LoadedConfig, findings: &mut DoctorFindings) {
    // Its settings were checked with the file.
    let Ok(Some(provider)) = loaded.provider_settings() else { return };
    let issuer = &provider.issuer.issuer.issuer;
    match servanda_authn::check_provider(&provider).await {
        Ok(()) => {
            findings.good("console", format!("people can be sent to {issuer} to sign in; its keys can be fetched"));
        }
        Err(why) => {
            let why = reachability::explained(Some(issuer), &why).await;
            let hint = "check `console.sign_in.oidc`; people can sign in with keys meanwhile";
            findings.bad("console", format!("nobody can sign in through {issuer}: {why}"), hint);
        }
    }
}

/// Whether the issuer of an upstream's tokens can be reached.
async fn look_at_way_to(issuer: &str, what: &str, findings: &mut DoctorFindings) {
    let Some(endpoint) = reachability::HostAndPort::from_url(issuer) else { return };
    if let Some(cause) = endpoint.cause().await {
        let says = format!("its issuer at {endpoint} cannot be reached: {cause}");
        findings.bad(what, says, "check `issuer` in its `oauth`; without it no token can be obtained");
    }
}

async fn look_at_upstream(
    (id, oauth): (&str, Option<&OauthConfig>),
    upstream: &Upstream,
    catalog: Option<&Catalog>,
    findings: &mut DoctorFindings,
) {
    let what = format!("upstream {id}");
    let inventory = match discover(upstream).await {
        Ok(inventory) => inventory,
        Err(error) => {
            let url = match &upstream.spec().transport {
                Transport::Http { url, .. } => Some(url.as_str()),
                Transport::Stdio { .. } => None,
            };
            let says = reachability::explained(url, &error.to_string()).await;
            let hint = if oauth.is_some() {
                format!("`servanda login {id}`, if a user has to log in; docs/upstream-oauth.md has the errors")
            } else {
                "if it has a command, run that by hand and read what it prints; else check its URL and what it is shown"
                    .to_owned()
            };
            findings.bad(what.clone(), says, hint);
            if let Some(issuer) = oauth.and_then(|oauth| oauth.issuer.as_deref()) {
                look_at_way_to(issuer, &what, findings).await;
            }
            return;
        }
    };
    let speaks = match upstream.status() {
        UpstreamStatus::Ready { version, server_name, server_version, .. } => {
            format!("{server_name} {server_version} speaks {version}")
        }
        _ => "answers".to_owned(),
    };
    findings.good(what.clone(), format!("{speaks} and offers {} tools", inventory.definitions.len()));
    for rejected in &inventory.rejected {
        let name = rejected.name.as_deref().map(|name| format!(" of `{}`", reveal(name))).unwrap_or_default();
        findings.bad(
            what.clone(),
            format!("a definition{name} cannot be used: {}", reveal(&rejected.reason)),
            "tell the server's author",
        );
    }
    let Some(catalog) = catalog else { return };
    catalog.observe(id, &ClientCapabilities::none(), &inventory);
    look_at_tools(id, catalog, &inventory, findings);
}

fn look_at_tools(id: &str, catalog: &Catalog, inventory: &Inventory, findings: &mut DoctorFindings) {
    let what = format!("upstream {id}");
    let mut contracted = std::collections::BTreeSet::new();
    for (name, entry) in catalog.entries().filter(|(_, entry)| entry.contract.contract().binding.upstream == id) {
        contracted.insert(entry.contract.contract().binding.tool.clone());
        let (says, hint) = match &*catalog.standing(name, &ClientCapabilities::none()) {
            ToolStanding::Offered { objections, .. } if !objections.is_empty() => {
                let says =
                    format!("`{name}` seems to do more than its contract says: {}", objections::sentences(objections));
                findings.note(what.clone(), says, objections::NEXT_STEP);
                continue;
            }
            // These problems were reported above, with the upstream or the ledger.
            ToolStanding::Unasked
            | ToolStanding::Offered { .. }
            | ToolStanding::Held(ToolHold::Rejected { .. } | ToolHold::Observed { .. } | ToolHold::Blocked { .. }) => {
                continue;
            }
            ToolStanding::Withdrawn => (
                format!("does not offer `{name}` any more"),
                "remove its contract, or start the server as before".to_owned(),
            ),
            ToolStanding::Held(ToolHold::Quarantined { severity, .. }) => (
                format!("`{name}` is held back: its definition changed since it was agreed to ({})", severity.word()),
                format!("`servanda diff {name}` shows how, `servanda pin {name}` agrees"),
            ),
            ToolStanding::Held(ToolHold::Unpinned) => (
                format!("`{name}` is held back: its definition is not pinned"),
                format!("`servanda pin {name}` agrees"),
            ),
            ToolStanding::Held(ToolHold::Incompatible { reasons }) => {
                let reason = reasons.first().map(ToString::to_string).unwrap_or_default();
                (
                    format!("`{name}` is held back: it does not fit its contract: {reason}"),
                    "correct the contract".to_owned(),
                )
            }
        };
        findings.bad(what.clone(), says, hint);
    }
    let unknown: Vec<_> = inventory
        .definitions
        .iter()
        .map(|tool| tool.name.as_str())
        .filter(|tool| !contracted.contains(*tool))
        .collect();
    if !unknown.is_empty() {
        let says = format!("offers tools without a contract, which agents do not see: {}", unknown.join(", "));
        findings.note(
            what,
            says,
            "`servanda init` writes the missing contracts; remove those that agents should not see",
        );
    }
}

fn report(findings: &[DoctorFinding], screen: Screen) -> Result<(), CommandFailure> {
    let bad = findings.iter().filter(|finding| finding.mark == DoctorSeverity::Bad).count();
    if screen.json {
        screen.json(&serde_json::json!({ "good": bad == 0, "findings": findings }))?;
    } else {
        for finding in findings {
            let mark = match finding.mark {
                DoctorSeverity::Good => paint("ok  ", TextStyle::Good),
                DoctorSeverity::Note => paint("note", TextStyle::Careful),
                DoctorSeverity::Bad => paint("FAIL", TextStyle::Bad),
            };
            screen.page(format_args!("{mark} {}: {}", finding.what, finding.says))?;
            if let Some(hint) = &finding.hint {
                screen.page(format_args!("     hint: {hint}"))?;
            }
        }
    }
    match bad {
        0 => Ok(()),
        1 => Err(CommandFailure::failed("one thing needs attention")),
        bad => Err(CommandFailure::failed(format!("{bad} things need attention"))),
    }
}
