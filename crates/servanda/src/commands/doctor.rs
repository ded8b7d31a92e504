//! `servanda doctor`: looks at everything the gateway needs, one line each, and says what to do about what is wrong.

use std::path::Path;

use serde::Serialize;
use servanda_catalog::{Availability, Catalog};
use servanda_engine::discover;
use servanda_ledger::Ledger;
use servanda_upstream::{Upstream, UpstreamStatus};
use tokio::net::TcpListener;

use crate::{
    config::Loaded,
    contracts,
    failure::Failure,
    screen::{Mood, Screen, paint},
    wiring,
};

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Finding {
    what: String,
    good: bool,
    says: String,
    hint: Option<String>,
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn good(&mut self, what: impl Into<String>, says: impl Into<String>) {
        self.0.push(Finding { what: what.into(), good: true, says: says.into(), hint: None });
    }

    fn bad(&mut self, what: impl Into<String>, says: impl Into<String>, hint: impl Into<String>) {
        self.0.push(Finding { what: what.into(), good: false, says: says.into(), hint: Some(hint.into()) });
    }
}

pub(crate) async fn run(config: &Path, screen: Screen) -> Result<(), Failure> {
    let mut findings = Findings::default();
    match Loaded::read(config) {
        Err(failure) => {
            let hint = failure.hint_text().unwrap_or("correct the file").to_owned();
            findings.bad("configuration", failure.to_string(), hint);
        }
        Ok(loaded) => {
            let upstreams = loaded.config.upstreams.len();
            findings.good("configuration", format!("{} with {upstreams} upstreams", loaded.file.display()));
            look(&loaded, &mut findings, screen).await;
        }
    }
    report(&findings.0, screen)
}

async fn look(loaded: &Loaded, findings: &mut Findings, screen: Screen) {
    let catalog = look_at_contracts(loaded, findings);
    look_at_ledger(loaded, findings).await;
    look_at_address(loaded, findings).await;
    let upstreams = match wiring::upstreams(loaded) {
        Ok(upstreams) => upstreams,
        Err(failure) => return findings.bad("upstreams", failure.to_string(), "set the variable, or correct the file"),
    };
    let waiting = screen.wait(format!("connecting to {} upstreams", upstreams.len()));
    for (id, upstream) in upstreams {
        waiting.set_message(format!("connecting to {id}"));
        look_at_upstream(&id, &upstream, catalog.as_ref(), findings).await;
        upstream.shutdown().await;
    }
    waiting.finish_and_clear();
}

fn look_at_contracts(loaded: &Loaded, findings: &mut Findings) -> Option<Catalog> {
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
            Catalog::new(admitted, loaded.config.naming())
                .inspect_err(|error| findings.bad("names", error.to_string(), "rename one of the two"))
                .ok()
        }
    }
}

async fn look_at_ledger(loaded: &Loaded, findings: &mut Findings) {
    let file = loaded.ledger_file();
    let counted = match Ledger::open(&file) {
        Ok(ledger) => {
            let counted = ledger.reader().and_then(|reader| reader.count());
            ledger.close().await;
            counted
        }
        Err(error) => Err(error),
    };
    match counted {
        Ok(count) => findings.good("ledger", format!("{} is writable and has {count} calls", file.display())),
        Err(error) => {
            findings.bad("ledger", error.to_string(), "make the folder writable, or name another file as `ledger`");
        }
    }
}

async fn look_at_address(loaded: &Loaded, findings: &mut Findings) {
    match loaded.listen() {
        Err(failure) => findings.bad("address", failure.to_string(), failure.hint_text().unwrap_or_default()),
        Ok(address) => match TcpListener::bind(address).await {
            Ok(_) => findings.good("address", format!("{address} is free")),
            Err(error) => findings.bad(
                "address",
                format!("{address}: {error}"),
                "a servanda may be running there already; otherwise choose another `listen`",
            ),
        },
    }
}

async fn look_at_upstream(id: &str, upstream: &Upstream, catalog: Option<&Catalog>, findings: &mut Findings) {
    let what = format!("upstream {id}");
    let discovered = match discover(upstream).await {
        Ok(discovered) => discovered,
        Err(error) => {
            return findings.bad(
                what,
                error.to_string(),
                "run its command by hand and read what it prints; check its URL and variables",
            );
        }
    };
    let speaks = match upstream.status() {
        UpstreamStatus::Ready { version, server_name, server_version, .. } => {
            format!("{server_name} {server_version} speaks {version}")
        }
        _ => "answers".to_owned(),
    };
    findings.good(what.clone(), format!("{speaks} and offers {} tools", discovered.tools.len()));
    for rejected in &discovered.rejected {
        findings.bad(
            what.clone(),
            format!("a definition cannot be used: {}", rejected.reason),
            "tell the server's author",
        );
    }
    let Some(catalog) = catalog else { return };
    catalog.observe(id, discovered.tools.iter().map(|tool| tool.name.clone()));
    let mut contracted = std::collections::BTreeSet::new();
    for (name, entry) in catalog.entries().filter(|(_, entry)| entry.contract.contract().binding.upstream == id) {
        contracted.insert(entry.contract.contract().binding.tool.clone());
        if catalog.availability(entry) == Availability::Withdrawn {
            findings.bad(
                what.clone(),
                format!("does not offer `{name}` any more"),
                "remove its contract, or start the server as before",
            );
        }
    }
    let unknown: Vec<_> =
        discovered.tools.iter().map(|tool| tool.name.as_str()).filter(|tool| !contracted.contains(*tool)).collect();
    if !unknown.is_empty() {
        let says = format!("offers tools without a contract, which agents do not see: {}", unknown.join(", "));
        findings.bad(what, says, "`servanda init --force` writes contracts anew; or write one by hand");
    }
}

fn report(findings: &[Finding], screen: Screen) -> Result<(), Failure> {
    let bad = findings.iter().filter(|finding| !finding.good).count();
    if screen.json {
        screen.json(&serde_json::json!({ "good": bad == 0, "findings": findings }))?;
    } else {
        for finding in findings {
            let mark = if finding.good { paint("ok  ", Mood::Good) } else { paint("FAIL", Mood::Bad) };
            screen.data(format_args!("{mark} {}: {}", finding.what, finding.says))?;
            if let Some(hint) = &finding.hint {
                screen.data(format_args!("     hint: {hint}"))?;
            }
        }
    }
    match bad {
        0 => Ok(()),
        1 => Err(Failure::failed("one thing needs attention")),
        bad => Err(Failure::failed(format!("{bad} things need attention"))),
    }
}
