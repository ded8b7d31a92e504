//! `servanda keys`: creates, lists and revokes API keys. Works while a gateway is running, because both use the same store.

pub(crate) mod key_lookup;
mod page;

use std::path::Path;

use servanda_authn::keys::{self, ApiKeyStoreError};
use servanda_authority::api_key::{ApiKeySpec, CreatedApiKey, StoredKey};
use servanda_config::{AuthMode, LoadedConfig};
use servanda_contract::{Timestamp, time::Clock as _};
use servanda_engine::SystemClock;
use servanda_ledger::Ledger;

use crate::{
    cli::{KeyCreateArgs, KeysArgs, KeysCommand},
    commands::{operator, rights_review, rights_text},
    configuration, credentials,
    failure::CommandFailure,
    screen::Screen,
};

pub(crate) async fn run(config: &Path, args: &KeysArgs, screen: Screen) -> Result<(), CommandFailure> {
    let loaded = configuration::read(config)?;
    match &args.command {
        None | Some(KeysCommand::List) => list(&loaded, screen).await,
        Some(KeysCommand::Rotate) => rotate(&loaded, screen).await,
        Some(KeysCommand::Create(args)) => create(&loaded, args, screen).await,
        Some(KeysCommand::Revoke { id }) => {
            let ledger = configuration::ledger_place(&loaded)?.open().await?;
            let revoked = revoke(&ledger, id).await;
            ledger.close().await;
            tell_revoked(&revoked?, screen)
        }
    }
}

/// Makes a new root key for agent credentials.
async fn rotate(loaded: &LoadedConfig, screen: Screen) -> Result<(), CommandFailure> {
    let ledger = configuration::ledger_place(loaded)?.open().await?;
    let rotated = credentials::root_keys(loaded, ledger.clone()).rotate(SystemClock.now()).await;
    ledger.close().await;
    let id = rotated.map_err(|error| CommandFailure::failed(format!("nothing was rotated: {}", error.reason())))?;
    if screen.json {
        return screen.json(&serde_json::json!({ "root_key": id }));
    }
    screen.page(format_args!("root key {id} makes agent credentials from now on"))?;
    screen.say(
        "gateways that run take it within a minute; credentials made before are good until they end, a day at most",
    );
    screen.hint("to end one at once: `servanda revoke CREDENTIAL`");
    Ok(())
}

/// Revokes the key with this id, or with an id that begins so.
pub(crate) async fn revoke(ledger: &Ledger, id: &str) -> Result<StoredKey, CommandFailure> {
    let now = SystemClock.now();
    let key = key_lookup::by_id(ledger, id, now).await?;
    let revoked = keys::revoke(ledger, &key.id, &operator::user_name(), now).await;
    revoked.map(|(key, _)| key).map_err(trouble)
}

/// Reports that a key is revoked.
pub(crate) fn tell_revoked(key: &StoredKey, screen: Screen) -> Result<(), CommandFailure> {
    if screen.json {
        return screen.json(&page::report(key, SystemClock.now()));
    }
    screen.page(format_args!("key:{} of {}/{} is revoked", key.id, key.tenant, key.principal))?;
    screen
        .say("it is not accepted from now on, nor is anything that was delegated from it; waiting calls are not sent");
    Ok(())
}

async fn create(loaded: &LoadedConfig, args: &KeyCreateArgs, screen: Screen) -> Result<(), CommandFailure> {
    let now = SystemClock.now();
    let lifetime_ms = rights_text::span_ms("expires", &args.expires)?;
    let terms = ApiKeySpec {
        tenant: args.tenant.clone(),
        principal: args.principal.clone(),
        groups: args.groups.iter().cloned().collect(),
        label: args.label.clone(),
        rights: rights_text::rights(&args.rights)?,
        expires_at: Timestamp::from_unix_ms(now.unix_ms().saturating_add(lifetime_ms)),
    };
    let ledger = configuration::ledger_place(loaded)?.open().await?;
    let made = keys::make(ledger.as_ref(), terms, now).await;
    ledger.close().await;
    let CreatedApiKey { stored, text } = made.map_err(trouble)?;
    let Some(key) = text.as_text() else { return Err(CommandFailure::failed("the key is not text")) };
    let user_notes = rights_review::user_notes(&stored.rights, loaded);
    if screen.json {
        return screen.json(&page::created_report(&stored, key, now, &user_notes));
    }
    screen.say(page::page(&stored, now));
    if screen.is_read_by_a_person() {
        screen.say("this is the only time that it is shown; it is kept only as a hash:");
    } else {
        screen.say("the key itself went to stdout, this once; it is kept only as a hash");
    }
    screen.data(key)?;
    for user_note in &user_notes {
        screen.say(format_args!("note: {user_note}"));
    }
    if loaded.config.auth.mode == AuthMode::Local {
        screen.say("note: `auth.mode` is `local`, so callers are not asked for a key yet");
    }
    screen.hint(format_args!(
        "send it as `Authorization: Bearer <key>`; try it with `servanda call TOOL '{{...}}' --as {}`",
        stored.id.get(..8).unwrap_or(&stored.id)
    ));
    Ok(())
}

async fn list(loaded: &LoadedConfig, screen: Screen) -> Result<(), CommandFailure> {
    let (place, now) = (configuration::ledger_place(loaded)?, SystemClock.now());
    let mut found = Vec::new();
    // Listing does not create a ledger.
    if !place.is_missing() {
        let ledger = place.open().await?;
        let read = keys::list(ledger.as_ref(), now).await;
        ledger.close().await;
        found = read.map_err(|error| trouble(error.into()))?;
    }
    found.sort_by(|one, two| (one.created_at, &one.id).cmp(&(two.created_at, &two.id)));
    if screen.json {
        let shown: Vec<_> = found.iter().map(|key| page::report(key, now)).collect();
        return screen.json(&shown);
    }
    if found.is_empty() {
        screen.say("there is no API key");
        screen.hint("servanda keys create --tenant T --principal P --label TEXT makes one");
        return Ok(());
    }
    screen.data(page::list(&found, now))?;
    screen.hint("servanda keys revoke ID");
    Ok(())
}

fn trouble(trouble: ApiKeyStoreError) -> CommandFailure {
    match trouble {
        ApiKeyStoreError::NotMade(why) => {
            CommandFailure::bad_input(why.to_string()).hint("servanda keys create --help")
        }
        ApiKeyStoreError::NoSuchKey => {
            CommandFailure::bad_input(trouble.to_string()).hint("`servanda keys list` shows them")
        }
        ApiKeyStoreError::Store(error) => {
            CommandFailure::failed(format!("the store of keys does not answer: {}", error.reason()))
                .hint("`servanda doctor` looks at the ledger")
        }
    }
}
