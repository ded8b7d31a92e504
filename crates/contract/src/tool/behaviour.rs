//! The behavioural identity a contract declares: what kind of computation a tool is, which its schema cannot say.
//!
//! Checking the declaration against the tool is the business of `servanda-identity`; here are only the words and the hash.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Mutability, action and output domain, and the content type that the three cannot tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Behaviour {
    /// Whether it changes anything.
    pub mutability: Mutability,
    /// What it does.
    pub action: Action,
    /// What it returns.
    pub output_domain: OutputDomain,
    /// Text or binary, where that tells two tools apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<ContentType>,
}

macro_rules! vocabulary {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $text)] $variant),+
        }

        impl $name {
            /// The word as written in contracts and in the hash.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
    };
}

vocabulary! {
    /// Whether a tool changes anything.
    Mutability {
        /// Nothing.
        Pure = "PURE",
        /// Something.
        Mutates = "MUTATES",
    }
}

vocabulary! {
    /// What a tool does.
    Action {
        /// Fetches one thing.
        Read = "READ",
        /// Finds things.
        Search = "SEARCH",
        /// Makes a new thing.
        Create = "CREATE",
        /// Changes part of a thing.
        Update = "UPDATE",
        /// Removes a thing.
        Delete = "DELETE",
        /// Joins two things.
        Merge = "MERGE",
        /// Replaces a whole thing.
        Overwrite = "OVERWRITE",
        /// Adds to a thing.
        Append = "APPEND",
    }
}

vocabulary! {
    /// What a tool returns.
    OutputDomain {
        /// Rows, records, values.
        Data = "DATA",
        /// The content of a document.
        Content = "CONTENT",
        /// How things are arranged.
        Structure = "STRUCTURE",
        /// A difference.
        Diff = "DIFF",
        /// A pull request.
        Pr = "PR",
        /// An issue.
        Issue = "ISSUE",
        /// A reference such as a branch.
        Ref = "REF",
        /// A repository.
        Repo = "REPO",
        /// A person or account.
        User = "USER",
        /// Only that it was done.
        Ack = "ACK",
    }
}

vocabulary! {
    /// What the content is made of.
    ContentType {
        /// Text.
        Text = "TEXT",
        /// Bytes.
        Binary = "BINARY",
    }
}

impl Behaviour {
    /// The behavioural identity: the first 16 hex digits of SHA-256 over the three words joined by `|`.
    pub fn identity(&self) -> String {
        let words = [self.mutability.word(), self.action.word(), self.output_domain.word()].join("|");
        let digest = Sha256::digest(words.as_bytes());
        crate::digest::hex(&digest).chars().take(16).collect()
    }
}
