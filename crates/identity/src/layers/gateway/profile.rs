//! Which names providers accept.

/// The provider whose limits exposed names keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NameLimitProfile {
    /// Accepted by all providers: `^[A-Za-z_][A-Za-z0-9_-]{0,62}$`.
    #[default]
    Portable,
    /// `^[A-Za-z0-9_-]{1,64}$`.
    OpenAi,
    /// `^[A-Za-z0-9_-]{1,128}$`. Older clients and Bedrock stop at 64.
    Anthropic,
    /// A letter or `_`, then letters, digits and `_.:-`; 63 in all, though some of its documents say 64 or 128.
    Gemini,
    /// The MCP specification's recommendation: `^[A-Za-z0-9._-]{1,128}$`.
    Mcp,
}

impl NameLimitProfile {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Portable, Self::OpenAi, Self::Anthropic, Self::Gemini, Self::Mcp];

    /// The longest name.
    pub const fn name_chars_max(self) -> usize {
        match self {
            Self::Portable | Self::Gemini => 63,
            Self::OpenAi => 64,
            Self::Anthropic | Self::Mcp => 128,
        }
    }

    /// Whether a name may have the character.
    pub fn takes(self, character: char) -> bool {
        let more = match self {
            Self::Portable | Self::OpenAi | Self::Anthropic => "",
            Self::Gemini => ".:",
            Self::Mcp => ".",
        };
        character.is_ascii_alphanumeric() || "_-".contains(character) || more.contains(character)
    }

    /// Whether a name may begin with the character.
    pub fn takes_first(self, character: char) -> bool {
        match self {
            Self::Portable | Self::Gemini => character.is_ascii_alphabetic() || character == '_',
            Self::OpenAi | Self::Anthropic | Self::Mcp => self.takes(character),
        }
    }

    /// Whether it takes the name.
    pub fn accepts(self, name: &str) -> bool {
        let begins_well = name.chars().next().is_some_and(|first| self.takes_first(first));
        begins_well && name.chars().all(|character| self.takes(character)) && name.len() <= self.name_chars_max()
    }
}
