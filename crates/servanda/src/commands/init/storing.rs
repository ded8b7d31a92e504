//! Offers to move the secrets that a client's file has in plain text to the encrypted store. The configuration then refers to each by name,
//! and the gateway can serve without further setup. No value is ever shown.
//!
//! A secret that is a whole variable or header can be stored. One in an argument or a URL cannot, because a command line cannot hold a
//! reference; it stays an environment variable, and the notes say so.

use std::collections::{BTreeMap, BTreeSet};

use servanda_authority::{Secret, scrubber::SECRET_BYTES_MIN};
use servanda_clients::likely_secrets::variable_name;
use servanda_config::{CredentialConfig, LoadedConfig, SecretPlace, UpstreamConfig, expansion::references};
use servanda_contract::{Timestamp, time::Clock as _};
use servanda_engine::SystemClock;
use servanda_import::ImportedSecrets;
use servanda_vault::{LocalStore, SECRET_BYTES_MAX, SecretName};

use crate::{
    credentials,
    failure::CommandFailure,
    screen::{
        Screen,
        consent::{self, ConsentQuestion},
        count,
    },
};

/// Where a secret is used in a server's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SecretField {
    Variable(String),
    Header(String),
}

/// A secret that can be stored.
#[derive(Debug, Clone)]
struct StorableSecret {
    server: String,
    place: SecretField,
    /// The variable that is referred to now.
    variable: String,
    /// The text around the secret, if there is any.
    format: Option<String>,
}

/// The result of the offer.
#[derive(Debug, Default)]
pub(super) struct StoreOfferOutcome {
    /// The variables whose secrets are stored now, by server.
    pub stored: BTreeSet<(String, String)>,
    /// What a person can do later, if none was asked.
    pub hint: Option<String>,
}

/// Asks, or follows the flag. A secret that cannot be stored fails before the configuration is written.
pub(super) async fn offer(
    loaded: &mut LoadedConfig,
    held: &ImportedSecrets,
    is_new: &dyn Fn(&String) -> bool,
    (wanted, yes): (bool, bool),
    screen: Screen,
) -> Result<StoreOfferOutcome, CommandFailure> {
    let new = loaded.config.upstreams.iter().filter(|(id, _)| is_new(id));
    let found: Vec<StorableSecret> = new.flat_map(|(id, server)| storable(id, server, held)).collect();
    if found.is_empty() {
        return Ok(StoreOfferOutcome::default());
    }
    let secrets = count(found.len(), "secret");
    if !wanted && !consent::is_asked(yes, screen) {
        let how = "`servanda init --force --store-secrets`";
        let hint = format!("{secrets} of the file can be kept encrypted instead of in the environment: {how}");
        return Ok(StoreOfferOutcome { hint: Some(hint), ..StoreOfferOutcome::default() });
    }
    if !wanted && !is_agreed(&found, &secrets, screen).await {
        return Ok(StoreOfferOutcome::default());
    }
    let vault = credentials::vault(loaded);
    let store = vault.local().ok_or_else(|| CommandFailure::failed("there is no encrypted store here"))?;
    let (mut stored, mut names) = (BTreeSet::new(), BTreeMap::new());
    for one in found {
        let Some(value) = held.value(&one.variable) else { continue };
        let name = match names.get(&one.variable) {
            Some(name) => SecretName::clone(name),
            None => put(store, &one, value, SystemClock.now())?,
        };
        names.insert(one.variable.clone(), name.clone());
        if let Some(server) = loaded.config.upstreams.get_mut(&one.server) {
            refer(server, &one, &name);
        }
        stored.insert((one.server, one.variable));
    }
    loaded.check()?;
    Ok(StoreOfferOutcome { stored, hint: None })
}

async fn is_agreed(found: &[StorableSecret], secrets: &str, screen: Screen) -> bool {
    let places: Vec<String> = found.iter().map(|one| format!("{} of {}", one.place.name(), one.server)).collect();
    let question = ConsentQuestion {
        asked: format!("keep {secrets} encrypted in .servanda ({})?", places.join(", ")),
        nothing: "no secret was stored",
        hint: "servanda init --store-secrets",
    };
    consent::agree(question, false, screen).await.is_ok()
}

fn storable(id: &str, server: &UpstreamConfig, held: &ImportedSecrets) -> Vec<StorableSecret> {
    let variables = server.env.iter().map(|(name, value)| (SecretField::Variable(name.clone()), value));
    let headers = server.headers.iter().map(|(name, value)| (SecretField::Header(name.clone()), value));
    let one = |(place, value): (SecretField, &String)| {
        let [reference] = references(value).try_into().ok()?;
        let written = format!("${{{}}}", reference.name);
        let length = held.value(reference.name)?.len();
        let fits = (SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&length) && !value.contains("{}");
        let format = (*value != written).then(|| value.replacen(&written, "{}", 1));
        (fits && value.contains(&written)).then(|| StorableSecret {
            server: id.to_owned(),
            place,
            variable: reference.name.to_owned(),
            format,
        })
    };
    variables.chain(headers).filter_map(one).collect()
}

/// Stores a secret under the name of its variable, or under a longer one if another secret has that name.
fn put(store: &LocalStore, one: &StorableSecret, value: &str, now: Timestamp) -> Result<SecretName, CommandFailure> {
    let failed = |fault: &servanda_vault::SecretStoreError| {
        CommandFailure::failed(fault.to_string()).hint(format!("{}; nothing was written", fault.hint()))
    };
    let longer = format!("{}_{}", variable_name(&one.server), one.variable);
    for name in [one.variable.clone(), longer] {
        let name: SecretName = name.parse().map_err(|error| CommandFailure::failed(format!("{error}")))?;
        let there = store.read(&name).map_err(|fault| failed(&fault))?;
        if there.as_ref().is_none_or(|there| there.expose() == value.as_bytes()) {
            if there.is_none() {
                store.set(&name, &Secret::from(value.to_owned()), now).map_err(|fault| failed(&fault))?;
            }
            return Ok(name);
        }
    }
    Err(CommandFailure::bad_input(format!("the encrypted store has another secret `{}`", one.variable))
        .hint("`servanda secret list` lists them; remove the old one, or run `servanda init` without --store-secrets"))
}

/// Makes the server's configuration refer to a stored secret.
fn refer(server: &mut UpstreamConfig, one: &StorableSecret, name: &SecretName) {
    let mut credential = CredentialConfig {
        secret: Some(SecretPlace::store(name)),
        format: one.format.clone(),
        ..CredentialConfig::default()
    };
    match &one.place {
        SecretField::Variable(variable) => {
            server.env.remove(variable);
            credential.env = Some(variable.clone());
        }
        SecretField::Header(header) => {
            server.headers.remove(header);
            credential.header = Some(header.clone());
        }
    }
    server.credential.push(credential);
}

impl SecretField {
    fn name(&self) -> &str {
        match self {
            Self::Variable(name) | Self::Header(name) => name,
        }
    }
}
