//! `servanda approvals`: lists and shows the tickets of calls that need a person's approval, takes decisions with a person's credential, and
//! prints and checks warrants. Works while gateways are running, because all use the same store.
//!
//! Nothing here decides by itself: a decision needs the credential of a person, which is read from the environment or stdin, never from the
//! command line. Where the gateway asks for no credentials, people decide in the console.

mod deciding;
mod page;
mod verifying;

pub(crate) use self::{
    deciding::{credential, person},
    verifying::read as read_statement,
};

use std::{path::Path, sync::Arc};

use servanda_approval::{ApprovalPacket, Ticket, TicketId, Warrant};
use servanda_config::LoadedConfig;
use servanda_contract::time::Clock as _;
use servanda_effects::{
    JournalError, TicketStore,
    ticket_store::{TICKETS_PAGE_MAX, TicketQuery, TicketTarget},
};
use servanda_engine::{
    SystemClock,
    approvals::{ApprovalParts, Approvals, AttestationKeys as _},
};
use servanda_ledger::Ledger;

use crate::{
    cli::{ApprovalsArgs, ApprovalsCommand, TicketFilter},
    configuration, credentials,
    failure::CommandFailure,
    screen::{Screen, count},
};

/// Characters of an id that are always shown: enough that two ids rarely begin alike.
const ID_CHARS_MIN: usize = 17;

pub(crate) async fn run(config: &Path, args: &ApprovalsArgs, screen: Screen) -> Result<(), CommandFailure> {
    let command = args.command.as_ref();
    if let Some(ApprovalsCommand::Verify { file, key, passkeys }) = command {
        // Needs no configuration and no ledger.
        return verifying::verify(file, key, passkeys, screen);
    }
    let loaded = configuration::read(config)?;
    let decision = command.map(deciding::requested).transpose()?.flatten();
    // Read before the ledger is opened, because a person who types it may take long.
    let own = decision.as_ref().map(|_| deciding::credential(&loaded)).transpose()?;
    let ledger = configuration::ledger_place(&loaded)?.open().await?;
    let done = Box::pin(async {
        match (command, decision, own) {
            (_, Some(decision), Some(own)) => deciding::decide(&loaded, &ledger, decision, own, screen).await,
            (Some(ApprovalsCommand::Show(ticket)), ..) => show(&ledger, &ticket.id, screen).await,
            (Some(ApprovalsCommand::Warrant(ticket)), ..) => warrant(&loaded, &ledger, &ticket.id, screen).await,
            (Some(ApprovalsCommand::Key), ..) => key(&loaded, &ledger, screen).await,
            (Some(ApprovalsCommand::List { state, tenant, limit }), ..) => {
                list(&ledger, *state, tenant.clone(), *limit, screen).await
            }
            _ => list(&ledger, TicketFilter::Pending, None, 50, screen).await,
        }
    })
    .await;
    ledger.close().await;
    done
}

/// The approvals of a configuration's ledger.
pub(crate) fn approvals(loaded: &LoadedConfig, ledger: &Arc<Ledger>) -> Approvals {
    let keys = credentials::attestation_keys(loaded, ledger.clone());
    Approvals::new(ApprovalParts { tickets: ledger.clone(), keys }, ledger.clone(), Arc::new(SystemClock))
}

async fn list(
    ledger: &Arc<Ledger>,
    filter: TicketFilter,
    tenant: Option<String>,
    limit: u32,
    screen: Screen,
) -> Result<(), CommandFailure> {
    let query = TicketQuery { tenant, states: filter.states(), before: None, limit };
    let tickets = ledger.list_tickets(query).await.map_err(|error| store_unavailable(&error))?;
    if screen.json {
        let now_ms = SystemClock.now().unix_ms();
        let reports: Vec<_> = tickets.iter().map(|ticket| page::report(ticket, now_ms)).collect();
        return screen.json(&reports);
    }
    let Some(first) = tickets.first() else {
        screen.say(match filter {
            TicketFilter::Pending => "no ticket waits for a decision",
            _ => "there is no such ticket",
        });
        screen.hint("servanda approvals list --state all lists every ticket");
        return Ok(());
    };
    screen.data(page::list(&tickets, SystemClock.now().unix_ms()))?;
    screen.say(count(tickets.len(), "ticket"));
    screen.hint(format_args!("servanda approvals show {}", first.id));
    Ok(())
}

async fn show(ledger: &Arc<Ledger>, id: &str, screen: Screen) -> Result<(), CommandFailure> {
    let ticket = find(ledger, id).await?;
    let now_ms = SystemClock.now().unix_ms();
    // A person at this machine sees what the contract does not mark as secret.
    let packet = ApprovalPacket::new(&ticket, |sensitivity| sensitivity != "secret", now_ms);
    if screen.json {
        return screen.json(&packet);
    }
    screen.page(page::packet(&packet))?;
    if ticket.state.is_open() {
        screen.hint(format_args!("people decide in the console, or: servanda approvals approve {}", ticket.id));
    } else {
        screen.hint(format_args!("servanda explain {}", ticket.subject.call_id));
    }
    Ok(())
}

async fn warrant(loaded: &LoadedConfig, ledger: &Arc<Ledger>, id: &str, screen: Screen) -> Result<(), CommandFailure> {
    let ticket = find(ledger, id).await?;
    let keys = credentials::attestation_keys(loaded, ledger.clone());
    let key = keys.signing_key().await.map_err(|error| CommandFailure::failed(error.to_string()))?;
    let issued = Warrant::issue(&ticket, &key).map_err(|error| CommandFailure::failed(error.to_string()))?;
    let Some(warrant) = issued else {
        let message = format!("`{}` has no warrant: {}", ticket.id, ticket.state.describe());
        return Err(CommandFailure::refused(message).hint("only an approved ticket has one"));
    };
    screen.data(warrant.as_str())?;
    let is_signed_by_passkeys = ticket.decisions.iter().any(|signed| signed.passkey.is_some());
    let passkeys = if is_signed_by_passkeys { " --passkey PERSON=PUBLIC_KEY" } else { "" };
    screen.hint(format_args!("servanda approvals verify FILE --key {}{passkeys}", key.public()));
    Ok(())
}

async fn key(loaded: &LoadedConfig, ledger: &Arc<Ledger>, screen: Screen) -> Result<(), CommandFailure> {
    let keys = credentials::attestation_keys(loaded, ledger.clone());
    let keys = keys.public_keys().await.map_err(|error| CommandFailure::failed(error.to_string()))?;
    if screen.json {
        return screen.json(&keys);
    }
    for key in keys {
        screen.data(key)?;
    }
    Ok(())
}

/// The ticket whose id this is, or begins with this.
pub(crate) async fn find(tickets: &Arc<Ledger>, id: &str) -> Result<Ticket, CommandFailure> {
    let id = id.trim();
    let whole = tickets.find_ticket(TicketTarget::Id(TicketId::from(id.to_owned()))).await;
    if let Some(ticket) = whole.map_err(|error| store_unavailable(&error))? {
        return Ok(ticket);
    }
    let query = TicketQuery { tenant: None, states: Vec::new(), before: None, limit: TICKETS_PAGE_MAX };
    let listed = tickets.list_tickets(query).await.map_err(|error| store_unavailable(&error))?;
    let alike: Vec<&Ticket> =
        listed.iter().filter(|ticket| !id.is_empty() && ticket.id.as_str().starts_with(id)).collect();
    match alike.as_slice() {
        [only] => {
            let found = tickets.find_ticket(TicketTarget::Id(only.id.clone())).await;
            found.map_err(|error| store_unavailable(&error))?.ok_or_else(|| no_ticket(id))
        }
        [] => Err(no_ticket(id)),
        several => Err(CommandFailure::bad_input(format!("{} tickets begin with `{id}`", several.len()))
            .hint("give more of the id: servanda approvals list --state all")),
    }
}

fn no_ticket(id: &str) -> CommandFailure {
    CommandFailure::bad_input(format!("there is no ticket `{id}`"))
        .hint("servanda approvals list --state all lists them")
}

pub(crate) fn store_unavailable(error: &JournalError) -> CommandFailure {
    CommandFailure::failed(format!("the store of approvals does not answer: {}", error.reason()))
        .hint("`servanda doctor` looks at the ledger")
}
