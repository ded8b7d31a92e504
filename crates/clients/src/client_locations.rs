//! Where files of clients are: in the working folder or the user's home, on every system.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

/// Which of a client's files is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ClientFileScope {
    /// This folder.
    Project,
    /// This user.
    User,
}

/// The folders that locations of client files depend on.
#[derive(Debug, Clone)]
pub struct ClientFolders {
    /// The user's home.
    pub home: PathBuf,
    /// The working folder.
    pub here: PathBuf,
    /// `$XDG_CONFIG_HOME`, if it is set.
    pub config_home: Option<PathBuf>,
    /// `$CODEX_HOME`, if it is set.
    pub codex_home: Option<PathBuf>,
    /// `$CLAUDE_CONFIG_DIR`, if it is set.
    pub claude_home: Option<PathBuf>,
}

/// Where a client's file is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ClientFileLocation {
    /// In the working folder.
    Here(&'static str),
    /// In the user's home.
    Home(&'static str),
    /// In `~/.config`, on every system.
    Config(&'static str),
    /// In the system's folder for application settings.
    Application(&'static str),
    /// In Codex's folder.
    Codex(&'static str),
    /// In Claude Code's folder.
    Claude(&'static str),
    /// In Claude Code's folder of settings, which is the same one if `$CLAUDE_CONFIG_DIR` is set.
    ClaudeSettings(&'static str),
}

impl ClientFileScope {
    /// The word on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::User => "user",
        }
    }
}

impl ClientFolders {
    /// The folders of this process; none if the user has no home.
    pub fn from_environment() -> Option<Self> {
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        Some(Self {
            home: variable("HOME")?,
            here: std::env::current_dir().ok()?,
            config_home: variable("XDG_CONFIG_HOME"),
            codex_home: variable("CODEX_HOME"),
            claude_home: variable("CLAUDE_CONFIG_DIR"),
        })
    }

    /// A path as people write it in the working folder.
    pub fn shown(&self, path: &Path) -> String {
        if let Ok(near) = path.strip_prefix(&self.here) {
            return near.display().to_string();
        }
        path.strip_prefix(&self.home)
            .map_or_else(|_| path.display().to_string(), |near| format!("~/{}", near.display()))
    }

    pub(crate) fn path(&self, place: ClientFileLocation) -> PathBuf {
        let config = || self.config_home.clone().unwrap_or_else(|| self.home.join(".config"));
        match place {
            ClientFileLocation::Here(path) => self.here.join(path),
            ClientFileLocation::Home(path) => self.home.join(path),
            ClientFileLocation::Application(path) if cfg!(target_os = "macos") => {
                self.home.join("Library/Application Support").join(path)
            }
            ClientFileLocation::Application(path) | ClientFileLocation::Config(path) => config().join(path),
            ClientFileLocation::Codex(path) => {
                self.codex_home.clone().unwrap_or_else(|| self.home.join(".codex")).join(path)
            }
            ClientFileLocation::ClaudeSettings(path) => {
                self.claude_home.clone().unwrap_or_else(|| self.home.join(".claude")).join(path)
            }
            ClientFileLocation::Claude(path) => {
                self.claude_home.clone().unwrap_or_else(|| self.home.clone()).join(path)
            }
        }
    }
}
