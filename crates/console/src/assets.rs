//! The files that pages load: a style sheet, scripts of ours, and htmx with its extension for events. They are part of the binary, and their
//! addresses have their digests, so that browsers keep them for ever and never use an old one.

use std::sync::LazyLock;

use servanda_contract::digest::hex;
use sha2::{Digest as _, Sha256};

/// The addresses of the files, for the layout of pages.
#[derive(Debug)]
pub(crate) struct AssetLinks {
    /// The style sheet.
    pub(crate) style: String,
    /// Our script: keys in lists.
    pub(crate) keys: String,
    /// Our script: forms that passkeys answer.
    pub(crate) passkeys: String,
    /// htmx.
    pub(crate) htmx: String,
    /// Its extension for server-sent events.
    pub(crate) events: String,
    /// The icon.
    pub(crate) icon: String,
}

/// A file.
pub(crate) struct ConsoleAsset {
    name: &'static str,
    ending: &'static str,
    /// Its media type.
    pub(crate) kind: &'static str,
    /// Its content.
    pub(crate) bytes: &'static [u8],
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

static FILES: [ConsoleAsset; 6] = [
    ConsoleAsset {
        name: "console",
        ending: "css",
        kind: "text/css; charset=utf-8",
        bytes: include_bytes!("../assets/console.css"),
    },
    ConsoleAsset { name: "keys", ending: "js", kind: SCRIPT, bytes: include_bytes!("../assets/keys.js") },
    ConsoleAsset { name: "passkeys", ending: "js", kind: SCRIPT, bytes: include_bytes!("../assets/passkeys.js") },
    ConsoleAsset { name: "htmx", ending: "js", kind: SCRIPT, bytes: include_bytes!("../assets/htmx-4.0.0.min.js") },
    ConsoleAsset { name: "hx-sse", ending: "js", kind: SCRIPT, bytes: include_bytes!("../assets/hx-sse-4.0.0.min.js") },
    ConsoleAsset { name: "icon", ending: "svg", kind: "image/svg+xml", bytes: include_bytes!("../assets/icon.svg") },
];

/// The files by their addresses.
static ADDRESSES: LazyLock<Vec<(String, &'static ConsoleAsset)>> =
    LazyLock::new(|| FILES.iter().map(|file| (address(file), file)).collect());

static LINKS: LazyLock<AssetLinks> = LazyLock::new(|| {
    let link = |name: &str| FILES.iter().find(|file| file.name == name).map(address).unwrap_or_default();
    AssetLinks {
        style: link("console"),
        keys: link("keys"),
        passkeys: link("passkeys"),
        htmx: link("htmx"),
        events: link("hx-sse"),
        icon: link("icon"),
    }
});

/// The addresses.
pub(crate) fn links() -> &'static AssetLinks {
    &LINKS
}

/// The file at an address.
pub(crate) fn find(path: &str) -> Option<&'static ConsoleAsset> {
    ADDRESSES.iter().find(|(address, _)| address == path).map(|(_, file)| *file)
}

fn address(file: &ConsoleAsset) -> String {
    let digest = hex(&Sha256::digest(file.bytes));
    let digest = digest.get(..16).unwrap_or_default();
    format!("/assets/{}-{digest}.{}", file.name, file.ending)
}
