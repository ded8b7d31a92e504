//! Decisions on the command line: with a person's credential, about the payload that the person was shown.

use std::{
    io::{IsTerminal as _, Read as _},
    sync::Arc,
};

use servanda_approval::{ApprovalPacket, ApprovalVerdict, TicketState};
use servanda_authn::{keys, revocation};
use servanda_authority::{
    AuthenticatedCaller, Secret,
    api_key::{self, PresentedKey},
    rights::CONSOLE_SCOPE,
};
use servanda_config::{AuthMode, LoadedConfig};
use servanda_contract::{Digest, Timestamp, time::Clock as _, tool::Presence};
use servanda_engine::{
    SystemClock,
    approvals::{DecideError, DecisionOutcome, Person, PersonDecision},
};
use servanda_ledger::Ledger;

use super::{approvals, find, page};
use crate::{
    cli::ApprovalsCommand,
    commands::operator,
    failure::CommandFailure,
    screen::{
        Screen,
        consent::{self, ConsentQuestion},
    },
};

/// The variable that is read first for a credential.
const VARIABLE: &str = "SERVANDA_CREDENTIAL";
/// Bytes of a credential.
const CREDENTIAL_BYTES_MAX: u64 = 4_096;

/// A decision that was asked for on the command line.
#[derive(Debug)]
pub(super) struct RequestedDecision {
    ticket: String,
    payload: Option<Digest>,
    verdict: ApprovalVerdict,
    reason: Option<String>,
    break_glass: bool,
}

/// The decision that a command asks for, if it asks for one.
pub(super) fn requested(command: &ApprovalsCommand) -> Result<Option<RequestedDecision>, CommandFailure> {
    let payload = |text: &Option<String>| {
        let digest = text.clone().map(Digest::try_from).transpose();
        digest.map_err(|error| {
            CommandFailure::bad_input(format!("--payload: {error}")).hint("servanda approvals show TICKET prints it")
        })
    };
    Ok(match command {
        ApprovalsCommand::Approve { ticket, payload: shown, break_glass } => Some(RequestedDecision {
            ticket: ticket.id.clone(),
            payload: payload(shown)?,
            verdict: ApprovalVerdict::Approve,
            reason: None,
            break_glass: *break_glass,
        }),
        ApprovalsCommand::Deny { ticket, payload: shown, reason } => {
            let reason = operator::checked_text("--reason", reason, "say why: --reason \"not this quarter\"")?;
            Some(RequestedDecision {
                ticket: ticket.id.clone(),
                payload: payload(shown)?,
                verdict: ApprovalVerdict::Deny,
                reason: Some(reason.to_owned()),
                break_glass: false,
            })
        }
        _ => None,
    })
}

/// The credential of the person who decides.
pub(crate) fn credential(loaded: &LoadedConfig) -> Result<Secret, CommandFailure> {
    if loaded.config.auth.mode == AuthMode::Local {
        return Err(CommandFailure::refused(
            "this gateway asks for no credentials, so the command line cannot know that a person decides",
        )
        .hint("decide in the console: `servanda serve` prints a link on its own terminal"));
    }
    let missing = || {
        CommandFailure::bad_input("a decision needs the credential of a person").hint(format!(
            "set {VARIABLE} or pipe it in: servanda approvals approve TICKET < key.txt; make one with \
             `servanda keys create --scope {CONSOLE_SCOPE}`"
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
    std::io::stdin().take(CREDENTIAL_BYTES_MAX).read_to_string(&mut text)?;
    let text = text.trim();
    if text.is_empty() { Err(missing()) } else { Ok(Secret::from(text.to_owned())) }
}

/// Takes the decision.
pub(super) async fn decide(
    loaded: &LoadedConfig,
    ledger: &Arc<Ledger>,
    requested: RequestedDecision,
    credential: Secret,
    screen: Screen,
) -> Result<(), CommandFailure> {
    let now = SystemClock.now();
    let person = person(&credential, ledger, now).await?;
    let settings = loaded.config.approval_settings(None);
    let ticket = find(ledger, &requested.ticket).await?;
    if ticket.subject.tenant != person.tenant {
        return Err(super::no_ticket(&requested.ticket));
    }
    if ticket.state != TicketState::Pending {
        return Err(refused(&DecideError::Over(ticket.state)));
    }
    let payload = ticket.subject.payload;
    match requested.payload {
        Some(shown) if shown != payload => return Err(refused(&DecideError::OtherPayload)),
        Some(_) => {}
        None => {
            let packet = ApprovalPacket::new(&ticket, |level| person.sees(level, &settings), now.unix_ms());
            screen.say(page::packet(&packet));
            let verb = requested.verdict.word();
            let asked = ConsentQuestion {
                asked: format!("{verb} it as {}/{}?", person.tenant, person.principal),
                nothing: "nothing was decided",
                hint: "look with `servanda approvals show TICKET`, then give --payload",
            };
            consent::agree(asked, false, screen).await?;
        }
    }
    let decision = PersonDecision {
        ticket: ticket.id.clone(),
        payload,
        verdict: requested.verdict,
        reason: requested.reason,
        passkey: None,
        break_glass: requested.break_glass,
    };
    let outcome = approvals(loaded, ledger).decide(&person, decision, &settings).await;
    tell(&outcome.map_err(|error| refused(&error))?, screen)
}

fn tell(outcome: &DecisionOutcome, screen: Screen) -> Result<(), CommandFailure> {
    let (ticket, said) = match outcome {
        DecisionOutcome::Approved(ticket) => {
            let until = ticket.use_by.map(|use_by| Timestamp::from_unix_ms(use_by.clock_ms).to_string());
            (ticket, format!("approved: the call may be made once, until {}", until.unwrap_or_default()))
        }
        DecisionOutcome::Recorded { missing, ticket } => {
            (ticket, format!("your approval is recorded; {missing} more needed"))
        }
        DecisionOutcome::Denied(ticket) => (ticket, "denied: the agent is told your reason".to_owned()),
    };
    if screen.json {
        return screen.json(&page::report(ticket, SystemClock.now().unix_ms()));
    }
    screen.say(said);
    screen.hint(format_args!("servanda approvals show {}", ticket.id));
    Ok(())
}

/// The person whose credential this is. Only a credential that was made for people counts, and no agent may act under it.
pub(crate) async fn person(
    credential: &Secret,
    ledger: &Arc<Ledger>,
    now: Timestamp,
) -> Result<Person, CommandFailure> {
    let text = credential.as_text().unwrap_or_default();
    let bad = |error: &dyn std::fmt::Display| {
        CommandFailure::refused(error.to_string()).hint("`servanda keys list` shows how keys stand")
    };
    if !text.starts_with(api_key::PREFIX) {
        return Err(bad(&"people decide with an API key that was made for the console"));
    }
    let presented = PresentedKey::read(text).map_err(|error| bad(&error))?;
    let stored =
        keys::find(ledger.as_ref(), presented.id(), now).await.map_err(|error| super::store_unavailable(&error))?;
    let stored = stored.ok_or_else(|| bad(&api_key::KeyError::Unknown))?;
    let caller = stored.authenticate(&presented, now).map_err(|error| bad(&error))?;
    if let Err(error) = revocation::require_not_revoked(ledger.as_ref(), &caller, now).await {
        return Err(bad(&error));
    }
    if !is_for_people(&caller) {
        let message = "this credential is for agents: a decision needs one that was made for people";
        return Err(CommandFailure::refused(message)
            .hint(format!("servanda keys create --scope {CONSOLE_SCOPE} makes one; keep it away from agents")));
    }
    Ok(Person {
        tenant: caller.tenant().to_owned(),
        principal: caller.principal().to_owned(),
        groups: caller.groups().clone(),
        presence: Presence::Session,
        credential: format!("command line, {}", caller.credential()),
    })
}

fn is_for_people(caller: &AuthenticatedCaller) -> bool {
    caller.rights().scopes.names(CONSOLE_SCOPE) && caller.actors().is_empty()
}

fn refused(error: &DecideError) -> CommandFailure {
    let hint = match error {
        DecideError::NoTicket(_) => "servanda approvals list shows the tickets that wait",
        DecideError::Ineligible(_) => "`approvals.roles` in servanda.yaml says who decides; docs/approvals.md",
        DecideError::Over(_) => "the same call may be made again; it opens a new ticket",
        DecideError::OtherPayload => "servanda approvals show TICKET shows the call as it is now",
        DecideError::NoGrants => "`approvals.grant_days_max` in servanda.yaml says for how long; docs/approvals.md",
        DecideError::Masked => "a person who sees all values decides in the console",
        DecideError::Passkey => "decide in the console, where your passkey can sign",
        DecideError::Reason | DecideError::Keys(_) | DecideError::Store(_) => "`servanda doctor` looks at the ledger",
    };
    CommandFailure::refused(error.to_string()).hint(hint)
}
