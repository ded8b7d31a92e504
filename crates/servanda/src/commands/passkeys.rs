//! `servanda passkeys`: lists, shows and revokes people's passkeys. People register their own in the console; no command does. Works while a
//! gateway is running, because both use the same store.

use std::path::Path;

use serde::Serialize;
use servanda_authn::passkeys;
use servanda_authority::passkey::StoredPasskey;
use servanda_contract::{legibility, time::Clock as _};
use servanda_effects::JournalError;
use servanda_engine::SystemClock;
use servanda_ledger::Ledger;

use crate::{
    cli::{PasskeysArgs, PasskeysCommand},
    commands::operator,
    configuration,
    failure::CommandFailure,
    screen::{Screen, lines, table},
};

/// How many characters of an id are needed at least.
const PREFIX_CHARS_MIN: usize = 4;

/// A passkey, for `--json`.
#[derive(Serialize)]
struct PasskeyReport<'a> {
    id: String,
    tenant: &'a str,
    principal: &'a str,
    name: &'a str,
    site: &'a str,
    /// The key under which it was registered.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    created_at: String,
    /// What `approvals verify --passkey` takes.
    public_key: String,
}

pub(crate) async fn run(config: &Path, args: &PasskeysArgs, screen: Screen) -> Result<(), CommandFailure> {
    let loaded = configuration::read(config)?;
    let place = configuration::ledger_place(&loaded)?;
    // Looking does not create a ledger.
    if place.is_missing() {
        return match &args.command {
            None | Some(PasskeysCommand::List) => tell_list(&[], screen),
            Some(PasskeysCommand::Show { .. } | PasskeysCommand::Revoke { .. }) => Err(none()),
        };
    }
    let ledger = place.open().await?;
    let done = match &args.command {
        None | Some(PasskeysCommand::List) => list(&ledger, screen).await,
        Some(PasskeysCommand::Show { whose }) => show(&ledger, whose, screen).await,
        Some(PasskeysCommand::Revoke { id }) => revoke(&ledger, id, screen).await,
    };
    ledger.close().await;
    done
}

async fn list(ledger: &Ledger, screen: Screen) -> Result<(), CommandFailure> {
    tell_list(&known(ledger).await?, screen)
}

fn tell_list(known: &[StoredPasskey], screen: Screen) -> Result<(), CommandFailure> {
    if screen.json {
        let reports: Vec<_> = known.iter().map(report).collect();
        return screen.json(&reports);
    }
    if known.is_empty() {
        screen.say("there is no passkey");
        screen.hint("people register their own in the console, on the page `/passkeys`");
        return Ok(());
    }
    let mut table = table(&["id", "for", "name", "site", "since", "under"]);
    for stored in known {
        let created = stored.created_at.to_string();
        table.add_row([
            stored.credential().to_string(),
            format!("{}/{}", stored.tenant, stored.principal),
            legibility::one_line(&stored.name),
            stored.passkey.rp_id.clone(),
            created.get(..10).unwrap_or(&created).to_owned(),
            stored.key.as_ref().map_or_else(|| "one-time link".to_owned(), ToString::to_string),
        ]);
    }
    screen.data(lines(&table))?;
    screen.hint("servanda passkeys revoke ID");
    Ok(())
}

/// Prints what an outsider needs to check a person's decisions.
async fn show(ledger: &Ledger, whose: &str, screen: Screen) -> Result<(), CommandFailure> {
    let whose = whose.trim();
    let mut found = known(ledger).await?;
    found.retain(|stored| format!("{}/{}", stored.tenant, stored.principal) == whose || begins(stored, whose));
    if found.is_empty() {
        return Err(none());
    }
    if screen.json {
        let reports: Vec<_> = found.iter().map(report).collect();
        return screen.json(&reports);
    }
    for stored in &found {
        screen.say(format_args!("{}, for {}", legibility::one_line(&stored.name), stored.passkey.rp_id));
        screen.data(format_args!("{}/{}={}", stored.tenant, stored.principal, public_key(stored)))?;
    }
    screen.hint("servanda approvals verify FILE --key GATEWAY_KEY --passkey PERSON=PUBLIC_KEY");
    Ok(())
}

async fn revoke(ledger: &Ledger, id: &str, screen: Screen) -> Result<(), CommandFailure> {
    let id = id.trim();
    if id.strip_prefix("passkey:").unwrap_or(id).len() < PREFIX_CHARS_MIN {
        let message = format!("the beginning of an id has {PREFIX_CHARS_MIN} characters or more");
        return Err(CommandFailure::bad_input(message).hint("`servanda passkeys list` shows them"));
    }
    let mut found = known(ledger).await?;
    found.retain(|stored| begins(stored, id));
    let stored = match found.as_slice() {
        [] => return Err(none()),
        [only] => only,
        several => {
            return Err(CommandFailure::bad_input(format!("{} passkeys begin with `{id}`", several.len()))
                .hint("give more of the id: `servanda passkeys list`"));
        }
    };
    let now = SystemClock.now();
    let revoked = passkeys::revoke(ledger, stored, &operator::user_name(), now).await;
    revoked.map_err(|error| unavailable(&error))?;
    if screen.json {
        return screen.json(&report(stored));
    }
    screen.page(format_args!("{} of {}/{} is revoked", stored.credential(), stored.tenant, stored.principal))?;
    screen.say("it signs nothing more, and the sessions that it opened end; decisions that it signed before stay what they are");
    Ok(())
}

async fn known(ledger: &Ledger) -> Result<Vec<StoredPasskey>, CommandFailure> {
    let known = passkeys::list(ledger, SystemClock.now()).await;
    let mut known = known.map_err(|error| unavailable(&error))?;
    known.sort_by(|one, two| {
        (&one.tenant, &one.principal, one.created_at).cmp(&(&two.tenant, &two.principal, two.created_at))
    });
    Ok(known)
}

/// Whether a passkey has this id, or one that begins so.
fn begins(stored: &StoredPasskey, id: &str) -> bool {
    let own = stored.credential();
    let bare = own.as_str().strip_prefix("passkey:").unwrap_or_default();
    let id = id.strip_prefix("passkey:").unwrap_or(id);
    id.len() >= PREFIX_CHARS_MIN && bare.starts_with(id)
}

fn public_key(stored: &StoredPasskey) -> String {
    stored.passkey.public_key.clone().into()
}

fn report(stored: &StoredPasskey) -> PasskeyReport<'_> {
    PasskeyReport {
        id: stored.credential().to_string(),
        tenant: &stored.tenant,
        principal: &stored.principal,
        name: &stored.name,
        site: &stored.passkey.rp_id,
        key: stored.key.as_ref().map(ToString::to_string),
        created_at: stored.created_at.to_string(),
        public_key: public_key(stored),
    }
}

fn none() -> CommandFailure {
    CommandFailure::bad_input("there is no such passkey").hint("`servanda passkeys list` shows them")
}

fn unavailable(error: &JournalError) -> CommandFailure {
    CommandFailure::failed(format!("the store of passkeys does not answer: {}", error.reason()))
        .hint("`servanda doctor` looks at the ledger")
}
