//! The configuration of tool names: how exposed names are formed, and which provider's limits they keep to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use servanda_catalog::names::{ExposedNaming, NameLimitProfile, NamePolicy};

/// How the exposed names of tools are formed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NameStyle {
    /// `<upstream>__<tool>`.
    #[default]
    Prefixed,
    /// The tool's own name; for a single upstream.
    Bare,
}

/// The provider whose limits tool names keep to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NameProfile {
    /// All providers: a letter or `_`, then letters, digits, `_` and `-`; 63 characters.
    #[default]
    Portable,
    /// Letters, digits, `_` and `-`; 64 characters.
    OpenAi,
    /// Letters, digits, `_` and `-`; 128 characters.
    Anthropic,
    /// A letter or `_`, then letters, digits, `_`, `-`, `.` and `:`; 63 characters.
    Gemini,
    /// The MCP specification: letters, digits, `_`, `-` and `.`; 128 characters.
    Mcp,
}

impl NameStyle {
    /// How names and URIs are made.
    pub(super) const fn naming(self) -> ExposedNaming {
        match self {
            Self::Prefixed => ExposedNaming::Prefixed,
            Self::Bare => ExposedNaming::Bare,
        }
    }
}

impl NameProfile {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks it so")]
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// How tools are named in that style.
    pub(super) fn policy(self, style: NameStyle) -> NamePolicy {
        let profile = match self {
            Self::Portable => NameLimitProfile::Portable,
            Self::OpenAi => NameLimitProfile::OpenAi,
            Self::Anthropic => NameLimitProfile::Anthropic,
            Self::Gemini => NameLimitProfile::Gemini,
            Self::Mcp => NameLimitProfile::Mcp,
        };
        NamePolicy { profile, ..style.naming().into() }
    }
}
