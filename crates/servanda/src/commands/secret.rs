//! `servanda secret`: sets, lists and removes the secrets in the encrypted store. Works while a gateway is running; it uses a new secret
//! within seconds. No value is ever shown.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal as _, Read as _},
    path::Path,
};

use serde::Serialize;
use serde_json::json;
use servanda_authority::{Secret, scrubber::SECRET_BYTES_MIN};
use servanda_config::state_folder::STATE_FOLDER;
use servanda_contract::{Timestamp, time::Clock as _};
use servanda_engine::SystemClock;
use servanda_vault::{LocalStore, SECRET_BYTES_MAX, SecretName, SecretReference, SecretStoreError, Vault};

use crate::{
    cli::{SecretArgs, SecretCommand},
    configuration, credentials,
    failure::CommandFailure,
    screen::{Screen, lines, table},
};

pub(crate) fn run(config: &Path, args: &SecretArgs, screen: Screen) -> Result<(), CommandFailure> {
    let inventory = SecretInventory::open(config)?;
    match &args.command {
        Some(SecretCommand::Set { name }) => set(&inventory, name, screen),
        None | Some(SecretCommand::List) => list(&inventory, screen),
        Some(SecretCommand::Rm { name }) => remove(&inventory, name, screen),
        Some(SecretCommand::Jwks) => screen.json(&credentials::published_keys(&inventory.vault)?),
    }
}

/// Where secrets are kept, and which upstreams use them.
struct SecretInventory {
    vault: Vault,
    /// The upstreams by the secret they need. Empty if there is no configuration yet, because a secret may be set first.
    used: BTreeMap<SecretReference, Vec<String>>,
}

/// The parts of a secret that may be shown.
#[derive(Debug, Serialize)]
struct SecretListEntry {
    secret: String,
    set_at: Option<String>,
    used_by: Vec<String>,
    /// Why it cannot be used, if it cannot.
    lacks: Option<String>,
}

impl SecretInventory {
    fn open(config: &Path) -> Result<Self, CommandFailure> {
        if !config.exists() {
            let folder = config.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            configuration::guard_state_folder(folder)?;
            let vault = credentials::vault_in(folder, &folder.join(STATE_FOLDER));
            return Ok(Self { vault, used: BTreeMap::new() });
        }
        let loaded = configuration::read(config)?;
        let mut used: BTreeMap<SecretReference, Vec<String>> = BTreeMap::new();
        for needed in credentials::needed(&loaded) {
            used.entry(needed.secret).or_default().push(needed.upstream.unwrap_or_else(|| "console".to_owned()));
        }
        Ok(Self { vault: credentials::vault(&loaded), used })
    }

    fn store(&self) -> Result<&LocalStore, CommandFailure> {
        self.vault.local().map(AsRef::as_ref).ok_or_else(|| CommandFailure::failed("there is no encrypted store here"))
    }

    fn used_by(&self, reference: &SecretReference) -> Vec<String> {
        self.used.get(reference).cloned().unwrap_or_default()
    }
}

fn set(inventory: &SecretInventory, name: &str, screen: Screen) -> Result<(), CommandFailure> {
    let name = secret_name(name)?;
    let secret = value(&name, screen)?;
    let replaced = inventory.store()?.set(&name, &secret, SystemClock.now()).map_err(|fault| failure(&fault))?;
    let used_by = inventory.used_by(&SecretReference::Store(name.clone()));
    if screen.json {
        return screen.json(&json!({ "name": name.as_str(), "replaced": replaced, "used_by": used_by }));
    }
    screen.say(format_args!("`{name}` is {}", if replaced { "set anew" } else { "set" }));
    if used_by.is_empty() {
        screen.hint(format_args!(
            "no upstream uses it yet; write `credential: {{ secret: \"store:{name}\", header: Authorization, format: \"Bearer {{}}\" }}` \
             to one in servanda.yaml"
        ));
    }
    Ok(())
}

fn list(inventory: &SecretInventory, screen: Screen) -> Result<(), CommandFailure> {
    let kept = inventory.store()?.list().map_err(|fault| failure(&fault))?;
    let mut listed: BTreeMap<SecretReference, Option<Timestamp>> =
        inventory.used.keys().map(|reference| (reference.clone(), None)).collect();
    let kept = kept.into_iter().filter(|kept| !kept.name.is_own());
    listed.extend(kept.map(|kept| (SecretReference::Store(kept.name), Some(kept.set_at))));
    let listed: Vec<SecretListEntry> = listed
        .into_iter()
        .map(|(reference, set_at)| SecretListEntry {
            lacks: inventory.vault.get(&reference).err().map(|lack| lack.to_string()),
            used_by: inventory.used_by(&reference),
            secret: reference.to_string(),
            set_at: set_at.map(|at| at.to_string()),
        })
        .collect();
    if screen.json {
        return screen.json(&json!({ "secrets": listed }));
    }
    if listed.is_empty() {
        screen.say("there are no secrets");
        screen.hint("`servanda secret set NAME` sets one");
        return Ok(());
    }
    let mut shown = table(&["secret", "set", "used by", "state"]);
    for one in &listed {
        shown.add_row([
            one.secret.clone(),
            one.set_at.clone().unwrap_or_else(|| "-".to_owned()),
            if one.used_by.is_empty() { "nobody".to_owned() } else { one.used_by.join(", ") },
            one.lacks.clone().unwrap_or_else(|| "there".to_owned()),
        ]);
    }
    screen.data(lines(&shown))
}

fn remove(inventory: &SecretInventory, name: &str, screen: Screen) -> Result<(), CommandFailure> {
    let name = secret_name(name)?;
    let removed = inventory.store()?.remove(&name).map_err(|fault| failure(&fault))?;
    if !removed {
        return Err(
            CommandFailure::bad_input(format!("there is no secret `{name}`")).hint("`servanda secret list` lists them")
        );
    }
    let used_by = inventory.used_by(&SecretReference::Store(name.clone()));
    if screen.json {
        return screen.json(&json!({ "name": name.as_str(), "used_by": used_by }));
    }
    screen.say(format_args!("`{name}` is removed"));
    if !used_by.is_empty() {
        screen.hint(format_args!("{} cannot be called without it", used_by.join(", ")));
    }
    Ok(())
}

/// The value, from a pipe or from a prompt that does not show it.
fn value(name: &SecretName, screen: Screen) -> Result<Secret, CommandFailure> {
    let secret = if io::stdin().is_terminal() {
        screen.say(format_args!("the value of `{name}` (it is not shown):"));
        Secret::from(console::Term::stderr().read_secure_line()?)
    } else {
        // Allocated in full, so that a growing buffer leaves no copies behind.
        let mut bytes = Vec::with_capacity(SECRET_BYTES_MAX + 3);
        io::stdin().take(SECRET_BYTES_MAX as u64 + 3).read_to_end(&mut bytes)?;
        let length =
            bytes.strip_suffix(b"\n").map_or(bytes.len(), |line| line.strip_suffix(b"\r").unwrap_or(line).len());
        bytes.truncate(length);
        Secret::new(bytes)
    };
    let hint = "it is read from stdin: `printf %s \"$VALUE\" | servanda secret set NAME`";
    match secret.expose().len() {
        0 => Err(CommandFailure::bad_input("the value is empty").hint(hint)),
        1..SECRET_BYTES_MIN => Err(CommandFailure::bad_input(format!(
            "the value has fewer than {SECRET_BYTES_MIN} bytes, so it could not be kept out of what servers answer"
        ))
        .hint("use a longer one")),
        SECRET_BYTES_MIN..=SECRET_BYTES_MAX => Ok(secret),
        _ => Err(CommandFailure::bad_input(format!("the value has more than {SECRET_BYTES_MAX} bytes"))),
    }
}

fn secret_name(name: &str) -> Result<SecretName, CommandFailure> {
    // Not repeated, because it may be the value typed in the wrong place.
    name.parse().map_err(|error: servanda_vault::InvalidSecretReference| {
        CommandFailure::bad_input(error.to_string()).hint("`servanda secret set NAME` reads the value from stdin")
    })
}

fn failure(fault: &SecretStoreError) -> CommandFailure {
    CommandFailure::failed(fault.to_string()).hint(fault.hint())
}
