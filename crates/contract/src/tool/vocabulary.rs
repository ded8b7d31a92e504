//! The words that declare a behaviour: whether a tool changes anything, what it does, what it returns and what that is made of.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
        /// It changes nothing.
        Pure = "PURE",
        /// It changes something.
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
        /// Only an acknowledgement.
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
