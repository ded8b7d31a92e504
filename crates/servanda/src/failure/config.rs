//! What a person is told to do about a configuration that cannot be used.

use std::path::Path;

use servanda_config::{CONFIG_FILE, CallbackFault, ConfigError, ListenError, state_folder::StateFolderError};

use super::CommandFailure;

impl From<ConfigError> for CommandFailure {
    fn from(error: ConfigError) -> Self {
        let says = error.to_string();
        match error {
            ConfigError::Missing { file, above } => Self::bad_input(says).hint(where_to_look(&file, above.as_deref())),
            ConfigError::Unreadable { .. } => Self::bad_input(says),
            ConfigError::Document(_) => {
                Self::bad_input(says).hint("nothing was started; correct the file and run `servanda check`")
            }
            ConfigError::UnsetVariable { variable, .. } => Self::bad_input(says).hint(format!(
                "nothing was started; `export {variable}=...` where servanda is started, or add it to `env` of the client's \
                 entry that starts `servanda stdio`"
            )),
            ConfigError::Listen { source, .. } => Self::bad_input(says).hint(another_address(&source)),
            ConfigError::Address(listen) => listen.into(),
            ConfigError::LedgerUrl { .. } => {
                Self::bad_input(says).hint("set the variable before starting, e.g. `export DATABASE_URL=…`")
            }
            ConfigError::Callback { fault, .. } => Self::bad_input(says).hint(another_callback(&fault)),
            ConfigError::StateFolder(error) => error.into(),
            ConfigError::Ledger(error) => error.into(),
        }
    }
}

impl From<ListenError> for CommandFailure {
    fn from(error: ListenError) -> Self {
        Self::bad_input(error.to_string()).hint(another_address(&error))
    }
}

impl From<StateFolderError> for CommandFailure {
    fn from(error: StateFolderError) -> Self {
        let says = error.to_string();
        match error {
            StateFolderError::Linked(_) => Self::bad_input(says)
                .hint("nothing was changed; remove the link, or name the place it leads to in servanda.yaml"),
            StateFolderError::Exposed { path, .. } => {
                Self::failed(says).hint(format!("have its owner run `chmod go= {}`", path.display()))
            }
        }
    }
}

fn where_to_look(file: &Path, above: Option<&Path>) -> String {
    match above {
        Some(above) => {
            let (above, folder) = (above.display(), above.parent().unwrap_or(above).display());
            format!("there is one at {above}: add `--config {above}`, or change to {folder}")
        }
        None if file == Path::new(CONFIG_FILE) => {
            "run `servanda init` in a folder with a .mcp.json, or try `servanda demo`".to_owned()
        }
        None => "check the path given with --config or SERVANDA_CONFIG".to_owned(),
    }
}

fn another_address(error: &ListenError) -> &'static str {
    match error {
        ListenError::NotAnAddress(_) => "write it like 127.0.0.1:7332",
        ListenError::Unguarded(_) => {
            "set `auth: {mode: required, resource: https://...}`, or listen on 127.0.0.1 or [::1]"
        }
        ListenError::NoResource(_) => {
            "set `auth.resource` to its address from outside, like https://gateway.example/mcp"
        }
    }
}

fn another_callback(fault: &CallbackFault) -> String {
    let hint = match fault {
        CallbackFault::TooMany => "one callback can be for many tools: `tools: [company__*]`",
        CallbackFault::Name => "give every callback a name of its own, like `books`",
        CallbackFault::NoOutcome => "leave `on` out, or name some of completed, failed, unknown",
        CallbackFault::NoNotice => "leave `on` out, or name some of opened, escalated, reminder, outcome",
        CallbackFault::Address => "write it like https://example.com/hook",
        CallbackFault::Secret => {
            "write `secret: ${NAME}` and set NAME to 24 random bytes or more: \
             `export NAME=whsec_$(head -c 32 /dev/urandom | base64)`"
        }
        CallbackFault::UnsetVariable(variable) => return format!("nothing was started; `export {variable}=...`"),
    };
    hint.to_owned()
}
