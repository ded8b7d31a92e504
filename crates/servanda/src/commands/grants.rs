//! `servanda grants`: lists and shows what people allow from now on, takes a grant back with a person's credential, and prints and checks the
//! signed statements. Works while gateways are running, because all use the same store.
//!
//! No grant is made here: a person makes one in the console, where they see its policy and what it would have done.

use std::{path::Path, sync::Arc};

use serde::Serialize;
use servanda_approval::{GrantEnd, SignedGrant, StandingGrant, Ticket, requester_in_words};
use servanda_authority::attestation::AttestationPublicKey;
use servanda_contract::{Timestamp, legibility, time::Clock as _};
use servanda_engine::{
    SystemClock,
    approvals::{GrantFailure, grant_policy},
};
use servanda_ledger::Ledger;

use super::approvals::{self, credential, person, read_statement};
use crate::{
    cli::{GrantsArgs, GrantsCommand},
    configuration,
    failure::CommandFailure,
    screen::{Screen, count, lines, table},
};

pub(crate) async fn run(config: &Path, args: &GrantsArgs, screen: Screen) -> Result<(), CommandFailure> {
    let command = args.command.as_ref();
    if let Some(GrantsCommand::Verify { file, key }) = command {
        // Needs no configuration and no ledger.
        return verify(file, key, screen);
    }
    let loaded = configuration::read(config)?;
    // Read before the ledger is opened, because a person who types it may take long.
    let own = match command {
        Some(GrantsCommand::Revoke { .. }) => Some(credential(&loaded)?),
        _ => None,
    };
    let ledger = configuration::ledger_place(&loaded)?.open().await?;
    let done = Box::pin(async {
        match (command, own) {
            (Some(GrantsCommand::Show(ticket)), _) => show(&find(&ledger, &ticket.id).await?, screen),
            (Some(GrantsCommand::Statement(ticket)), _) => statement(&find(&ledger, &ticket.id).await?, screen),
            (Some(GrantsCommand::Revoke { ticket, reason }), Some(own)) => {
                let person = person(&own, &ledger, SystemClock.now()).await?;
                let ticket = find(&ledger, &ticket.id).await?;
                let settings = loaded.config.approval_settings(None);
                let approvals = approvals::approvals(&loaded, &ledger);
                let revoked = approvals.revoke_grant(&person, &ticket.id, reason, &settings).await;
                let revoked = revoked.map_err(|error| refused(&error))?;
                screen.say("taken back: people are asked about every such call again");
                show(&revoked, screen)
            }
            (Some(GrantsCommand::List { tenant, limit }), _) => {
                list(&approvals::approvals(&loaded, &ledger), tenant.as_deref(), *limit, screen).await
            }
            _ => list(&approvals::approvals(&loaded, &ledger), None, 50, screen).await,
        }
    })
    .await;
    ledger.close().await;
    done
}

/// A grant, for `--json`.
#[derive(Serialize)]
struct GrantReport<'a> {
    ticket: &'a str,
    state: &'static str,
    used: usize,
    until: String,
    #[serde(flatten)]
    standing: &'a StandingGrant,
    policy: String,
}

async fn list(
    approvals: &servanda_engine::approvals::Approvals,
    tenant: Option<&str>,
    limit: u32,
    screen: Screen,
) -> Result<(), CommandFailure> {
    let tickets = approvals.grants(tenant, None, limit).await.map_err(|error| approvals::store_unavailable(&error))?;
    let found: Vec<(&Ticket, &StandingGrant)> =
        tickets.iter().filter_map(|ticket| Some((ticket, ticket.grant.as_deref()?))).collect();
    if screen.json {
        let reports: Vec<_> = found.iter().map(|(ticket, standing)| report(ticket, standing)).collect();
        return screen.json(&reports);
    }
    let Some((first, _)) = found.first() else {
        screen.say("nothing is allowed from now on");
        screen.hint("people allow calls from now on in the console, on the page of a ticket that they approved");
        return Ok(());
    };
    let row = |(ticket, standing): &(&Ticket, &StandingGrant)| {
        let grant = &standing.signed.grant;
        vec![
            ticket.id.to_string(),
            state(standing).to_owned(),
            format!("{} of {}", standing.draws.len(), grant.uses_max()),
            legibility::one_line(&grant.tools_in_words()),
            requester_in_words(ticket),
            legibility::one_line(&grant.approver),
            time(standing.until.clock_ms),
        ]
    };
    let mut rows = table(&["ticket", "state", "used", "tool", "for", "allowed by", "until"]);
    for found in &found {
        rows.add_row(row(found));
    }
    screen.data(lines(&rows))?;
    screen.say(count(found.len(), "grant"));
    screen.hint(format_args!("servanda grants show {}", first.id));
    Ok(())
}

fn show(ticket: &Ticket, screen: Screen) -> Result<(), CommandFailure> {
    let standing = ticket.grant.as_deref().ok_or_else(|| no_grant(ticket))?;
    if screen.json {
        return screen.json(&report(ticket, standing));
    }
    let grant = &standing.signed.grant;
    let mut text = vec![
        format!("{}  {}", ticket.id, legibility::reveal(&grant.tools_in_words())),
        format!("  state       {}", state(standing)),
        format!("  for         {}", requester_in_words(ticket)),
        format!("  allowed by  {} at {}", legibility::one_line(&grant.approver), time(grant.at_ms)),
        format!("  until       {}", time(standing.until.clock_ms)),
        format!("  used        {} of {}", standing.draws.len(), grant.uses_max()),
    ];
    text.extend(standing.money_in_words().map(|money| format!("  money       {money}")));
    text.extend(grant.calls.iter().enumerate().map(|(number, call)| {
        let (tool, version) = (legibility::reveal(&call.tool_name), legibility::reveal(&call.tool_version));
        let source = call.ticket.as_ref().map_or_else(|| "in this plan".to_owned(), |ticket| format!("on {ticket}"));
        let used = standing.uses(number);
        format!("  call {:<7}{tool} {version}, approved {source}: {used} of {} used", number + 1, call.uses_max)
    }));
    text.extend(standing.revoked.as_ref().map(|revoked| {
        let (by, reason) = (legibility::one_line(&revoked.by), legibility::one_line(&revoked.reason));
        format!("  taken back  by {by} at {}: {reason}", time(revoked.at_ms))
    }));
    for (before, draw) in standing.draws.iter().enumerate() {
        let (number, call_id, at) = (before + 1, &draw.call_id, time(draw.at_ms));
        text.push(format!("  use {number:<8}{call_id} at {at}, call {}", draw.call + 1));
    }
    // As `approvals show` does: a value that the contract marks as secret is never in a grant.
    text.extend([String::new(), grant_policy(grant)]);
    screen.page(text.join("\n"))?;
    if standing.end(SystemClock.now().unix_ms(), 0).is_none() {
        screen.hint(format_args!("servanda grants revoke {} --reason \"…\" < key.txt", ticket.id));
    }
    Ok(())
}

fn statement(ticket: &Ticket, screen: Screen) -> Result<(), CommandFailure> {
    let standing = ticket.grant.as_deref().ok_or_else(|| no_grant(ticket))?;
    screen.json(&standing.signed)?;
    screen.hint("servanda grants verify FILE --key KEY; `servanda approvals key` prints the key");
    Ok(())
}

fn verify(file: &str, key: &str, screen: Screen) -> Result<(), CommandFailure> {
    let key = AttestationPublicKey::try_from(key.trim().to_owned()).map_err(|error| {
        CommandFailure::bad_input(format!("--key: {error}")).hint("servanda approvals key prints it at the gateway")
    })?;
    let signed: SignedGrant = serde_json::from_str(&read_statement(file)?).map_err(|error| {
        CommandFailure::bad_input(format!("`{file}` is not the statement of a grant: {error}"))
            .hint("servanda grants statement TICKET prints it")
    })?;
    signed.check(&[key]).map_err(|fault| {
        CommandFailure::refused(format!("the grant does not hold: {fault}"))
            .hint("it was changed, is of another gateway, or the key is not that gateway's")
    })?;
    if screen.json {
        return screen.json(&signed.grant);
    }
    screen.data(grant_policy(&signed.grant))?;
    let grant = &signed.grant;
    let person = legibility::one_line(&grant.approver);
    screen.say(format!(
        "the grant holds: {person} allowed this at {}, for {} calls{} until {}",
        time(grant.at_ms),
        grant.uses_max(),
        grant.cost_max.as_ref().map(|ceiling| format!(" and {}", ceiling.describe())).unwrap_or_default(),
        time(grant.until_ms)
    ));
    Ok(())
}

fn report<'a>(ticket: &'a Ticket, standing: &'a StandingGrant) -> GrantReport<'a> {
    GrantReport {
        ticket: ticket.id.as_str(),
        state: state(standing),
        used: standing.draws.len(),
        until: time(standing.until.clock_ms),
        standing,
        policy: grant_policy(&standing.signed.grant),
    }
}

fn state(standing: &StandingGrant) -> &'static str {
    match standing.end(SystemClock.now().unix_ms(), 0) {
        None => "in force",
        Some(GrantEnd::Revoked) => "taken back",
        Some(GrantEnd::Expired) => "over",
        Some(GrantEnd::UsedUp) => "used up",
        Some(GrantEnd::Spent) => "spent",
    }
}

async fn find(ledger: &Arc<Ledger>, id: &str) -> Result<Ticket, CommandFailure> {
    let ticket = approvals::find(ledger, id).await?;
    if ticket.grant.is_some() { Ok(ticket) } else { Err(no_grant(&ticket)) }
}

fn no_grant(ticket: &Ticket) -> CommandFailure {
    CommandFailure::bad_input(format!("no grant was made from the ticket `{}`", ticket.id))
        .hint("servanda grants list shows the grants")
}

fn refused(error: &GrantFailure) -> CommandFailure {
    let hint = match error {
        GrantFailure::NoTicket(_) | GrantFailure::NoGrant(_) => "servanda grants list shows the grants",
        GrantFailure::NotTheirs | GrantFailure::Ineligible(_) => {
            "`approvals.roles` in servanda.yaml says who decides; docs/approvals.md"
        }
        GrantFailure::Over(_) => "people are asked about every such call already",
        _ => "`servanda doctor` looks at the ledger",
    };
    CommandFailure::refused(error.to_string()).hint(hint)
}

fn time(ms: u64) -> String {
    Timestamp::from_unix_ms(ms).to_string()
}
