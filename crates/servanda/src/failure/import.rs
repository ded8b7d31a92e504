//! What a person is told to do about a file that cannot be imported.

use servanda_import::ImportError;

use super::CommandFailure;

impl From<ImportError> for CommandFailure {
    fn from(error: ImportError) -> Self {
        let says = error.to_string();
        match error {
            ImportError::Missing { .. } => Self::bad_input(says)
                .hint("name your client's file with `servanda init --from FILE`, or see it work with `servanda demo`"),
            ImportError::OtherDigest { .. } => Self::bad_input(says)
                .hint("nothing was unpacked or written; download it again from a place you trust"),
            ImportError::Syntax { .. } => Self::bad_input(says)
                .hint("it should look like {\"mcpServers\": {\"files\": {\"command\": \"npx\", \"args\": []}}}"),
            ImportError::UnknownFormat { .. } => Self::bad_input(says).hint(
                "known are \"mcpServers\" (Claude, Cursor and others), VS Code's mcp.json, Codex's config.toml, the registry's \
                 server.json and .mcpb bundles",
            ),
            ImportError::NoServer { bypass: true, .. } => Self::bad_input(says)
                .hint("list servers under \"mcpServers\", each with a \"command\" or a \"url\""),
            ImportError::NoServer { bypass: false, .. } => Self::bad_input(says)
                .hint("nothing was written; `servanda init --help` says what can be imported"),
            ImportError::Bundle { .. } => Self::bad_input(says).hint("nothing of it was kept"),
            ImportError::Occupied { .. } => Self::bad_input(says)
                .hint("remove it, or unpack this one in its place with `servanda init --force`, which keeps it"),
            ImportError::Unreadable { .. }
            | ImportError::TooLarge { .. }
            | ImportError::NotText { .. }
            | ImportError::BundleServer { .. } => Self::bad_input(says),
            ImportError::KeptTooOften { .. } | ImportError::Io(_) => Self::failed(says),
        }
    }
}
