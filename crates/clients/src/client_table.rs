//! The table of known clients. To add a client, add a row.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::{
    allow_rule::{AllowRule, AllowValue, SettingsLocation},
    client_locations::{ClientFileLocation, ClientFileScope, ClientFolders},
    notation::Notation,
    search_path::on_search_path,
};

/// A client, by its name on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ClientName {
    /// Claude Code: .mcp.json, or ~/.claude.json with --scope user.
    ClaudeCode,
    /// Claude Desktop; it starts the gateway as a command.
    ClaudeDesktop,
    /// Visual Studio Code: .vscode/mcp.json, or the profile's mcp.json with --scope user.
    #[value(name = "vscode")]
    VsCode,
    /// Cursor: .cursor/mcp.json, or ~/.cursor/mcp.json with --scope user.
    Cursor,
    /// Windsurf: its list of servers in ~/.codeium/windsurf.
    Windsurf,
    /// Zed: ~/.config/zed/settings.json.
    Zed,
    /// Gemini CLI: .gemini/settings.json, or ~/.gemini/settings.json with --scope user.
    GeminiCli,
    /// Codex: ~/.codex/config.toml, or .codex/config.toml with --scope project.
    Codex,
}

/// How a client writes a server that is reached over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpStyle {
    /// The client cannot reach servers over HTTP.
    None,
    /// `"type": "http", "url": …`.
    TypeAndUrl,
    /// The address alone, under this field.
    Address(&'static str),
}

/// What is known about a client.
#[derive(Debug)]
pub struct KnownClient {
    /// The name on the command line.
    pub name: ClientName,
    /// The name that people use.
    pub title: &'static str,
    /// How its file is written.
    pub notation: Notation,
    /// Whether it writes `"type": "stdio"` for a command.
    pub typed: bool,
    /// How it writes a server that is reached over HTTP.
    pub http: HttpStyle,
    /// The rule by which it lets every tool of one server pass without asking.
    pub allow: AllowRule,
    /// What a person has to do so that the client sees a change.
    pub then: &'static str,
    /// Its files, the usual one first.
    places: &'static [(ClientFileScope, ClientFileLocation)],
    /// What shows that it is installed: a program, or a folder of its own.
    program: &'static str,
    signs: &'static [ClientFileLocation],
}

/// What is said of a client in whose documentation no rule was found.
const UNKNOWN: &str = "no rule for one server is documented";

const CLIENTS: [KnownClient; 8] = [
    KnownClient {
        name: ClientName::ClaudeCode,
        title: "Claude Code",
        notation: Notation::Json("mcpServers"),
        typed: true,
        http: HttpStyle::TypeAndUrl,
        allow: AllowRule::SettingsList {
            places: &[
                // The user's own: a rule of this kind is not for everybody who has the repository.
                (ClientFileScope::Project, SettingsLocation(ClientFileLocation::Here(".claude/settings.local.json"))),
                (ClientFileScope::User, SettingsLocation(ClientFileLocation::ClaudeSettings("settings.json"))),
            ],
        },
        then: "start `claude` here and approve the server; /mcp shows it",
        places: &[
            (ClientFileScope::Project, ClientFileLocation::Here(".mcp.json")),
            (ClientFileScope::User, ClientFileLocation::Claude(".claude.json")),
        ],
        program: "claude",
        signs: &[ClientFileLocation::Home(".claude"), ClientFileLocation::Claude(".claude.json")],
    },
    KnownClient {
        name: ClientName::ClaudeDesktop,
        title: "Claude Desktop",
        notation: Notation::Json("mcpServers"),
        typed: false,
        http: HttpStyle::None,
        allow: AllowRule::NotDocumented(UNKNOWN),
        then: "quit Claude Desktop and start it again",
        places: &[(ClientFileScope::User, ClientFileLocation::Application("Claude/claude_desktop_config.json"))],
        program: "claude-desktop",
        signs: &[ClientFileLocation::Application("Claude")],
    },
    KnownClient {
        name: ClientName::VsCode,
        title: "VS Code",
        notation: Notation::Json("servers"),
        typed: true,
        http: HttpStyle::TypeAndUrl,
        allow: AllowRule::NotDocumented(UNKNOWN),
        then: "open the file in VS Code and start the server above its entry, or run `MCP: List Servers`",
        places: &[
            (ClientFileScope::Project, ClientFileLocation::Here(".vscode/mcp.json")),
            (ClientFileScope::User, ClientFileLocation::Application("Code/User/mcp.json")),
        ],
        program: "code",
        signs: &[ClientFileLocation::Home(".vscode"), ClientFileLocation::Application("Code")],
    },
    KnownClient {
        name: ClientName::Cursor,
        title: "Cursor",
        notation: Notation::Json("mcpServers"),
        typed: false,
        http: HttpStyle::Address("url"),
        allow: AllowRule::NotDocumented(
            "its `mcpAllowlist` in ~/.cursor/permissions.json replaces the list in its own settings, so it is left to you",
        ),
        then: "restart Cursor, and switch the server on in its settings if it is off",
        places: &[
            (ClientFileScope::Project, ClientFileLocation::Here(".cursor/mcp.json")),
            (ClientFileScope::User, ClientFileLocation::Home(".cursor/mcp.json")),
        ],
        program: "cursor",
        signs: &[ClientFileLocation::Home(".cursor")],
    },
    KnownClient {
        name: ClientName::Windsurf,
        title: "Windsurf",
        notation: Notation::Json("mcpServers"),
        typed: false,
        http: HttpStyle::Address("serverUrl"),
        allow: AllowRule::NotDocumented(UNKNOWN),
        then: "refresh the servers in Windsurf's MCP panel, or restart it",
        places: &[(ClientFileScope::User, ClientFileLocation::Home(".codeium/windsurf/mcp_config.json"))],
        program: "windsurf",
        signs: &[ClientFileLocation::Home(".codeium/windsurf")],
    },
    KnownClient {
        name: ClientName::Zed,
        title: "Zed",
        notation: Notation::Json("context_servers"),
        typed: false,
        http: HttpStyle::Address("url"),
        allow: AllowRule::NotDocumented("its `agent.tool_permissions` are for one tool each, and not for a server"),
        then: "Zed sees the change at once; its agent panel shows the server",
        places: &[(ClientFileScope::User, ClientFileLocation::Config("zed/settings.json"))],
        program: "zed",
        signs: &[ClientFileLocation::Config("zed")],
    },
    KnownClient {
        name: ClientName::GeminiCli,
        title: "Gemini CLI",
        notation: Notation::Json("mcpServers"),
        typed: false,
        http: HttpStyle::Address("httpUrl"),
        allow: AllowRule::EntryField { name: "trust", value: AllowValue::Yes },
        then: "start `gemini` again; /mcp shows the server",
        places: &[
            (ClientFileScope::Project, ClientFileLocation::Here(".gemini/settings.json")),
            (ClientFileScope::User, ClientFileLocation::Home(".gemini/settings.json")),
        ],
        program: "gemini",
        signs: &[ClientFileLocation::Home(".gemini")],
    },
    KnownClient {
        name: ClientName::Codex,
        title: "Codex",
        notation: Notation::Toml,
        typed: false,
        http: HttpStyle::Address("url"),
        allow: AllowRule::EntryField { name: "default_tools_approval_mode", value: AllowValue::Word("approve") },
        then: "start `codex` again; /mcp shows the server",
        places: &[
            (ClientFileScope::User, ClientFileLocation::Codex("config.toml")),
            (ClientFileScope::Project, ClientFileLocation::Here(".codex/config.toml")),
        ],
        program: "codex",
        signs: &[ClientFileLocation::Codex("")],
    },
];

impl ClientName {
    /// The client's row in the table.
    pub fn client(self) -> &'static KnownClient {
        // The table has a row for every name; a test checks that.
        CLIENTS.iter().find(|client| client.name == self).unwrap_or(&CLIENTS[0])
    }

    /// The name on the command line.
    pub fn word(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

impl KnownClient {
    /// All of them.
    pub fn all() -> &'static [Self] {
        &CLIENTS
    }

    /// The client's file for a scope, or its usual file.
    pub fn file(&self, scope: Option<ClientFileScope>, around: &ClientFolders) -> Option<(ClientFileScope, PathBuf)> {
        let (scope, place) = self.places.iter().find(|(there, _)| scope.is_none_or(|wanted| wanted == *there))?;
        Some((*scope, around.path(*place)))
    }

    /// Whether the client's usual file has this scope.
    pub fn is_usual(&self, scope: ClientFileScope) -> bool {
        self.places.first().is_some_and(|(usual, _)| *usual == scope)
    }

    /// All its files.
    pub fn files(&self, around: &ClientFolders) -> Vec<(ClientFileScope, PathBuf)> {
        self.places.iter().map(|(scope, place)| (*scope, around.path(*place))).collect()
    }

    /// Whether it seems to be installed.
    pub fn is_found(&self, around: &ClientFolders) -> bool {
        on_search_path(self.program).is_some() || self.signs.iter().any(|sign| around.path(*sign).exists())
    }
}

impl Notation {
    /// The client that owns this notation, if only one client uses it.
    pub fn client(self) -> Option<&'static KnownClient> {
        match self {
            Self::Json("servers") => Some(ClientName::VsCode.client()),
            Self::Json("context_servers") => Some(ClientName::Zed.client()),
            Self::Toml => Some(ClientName::Codex.client()),
            Self::Json(_) => None,
        }
    }
}

/// The client that reads a file, recognised by the file's path.
pub fn client_of(file: &Path, around: &ClientFolders) -> Option<(&'static KnownClient, ClientFileScope)> {
    let file = std::path::absolute(file).ok()?;
    CLIENTS.iter().find_map(|client| {
        let (scope, _) = client.files(around).into_iter().find(|(_, there)| *there == file)?;
        Some((client, scope))
    })
}
