//! Where a configuration keeps its ledger: a file beside it, or a PostgreSQL database that several gateways share; and the position file
//! beside the configuration. Also how to show that place, without its password.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use servanda_files::ModeRepair;
use servanda_ledger::{Ledger, LedgerError, LedgerGuard, LedgerReader, LedgerSchemaPolicy, Upkeep};

use crate::expansion::{ExpansionError, expand};

/// Where the ledger is, and its position file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerPlace {
    store: StorePlace,
    position_file: PathBuf,
    /// Whether a process that opens it for writing also writes the verifiable log.
    writes_log: bool,
}

/// A file, or a database.
#[derive(Debug, Clone, PartialEq, Eq)]
enum StorePlace {
    /// An embedded database file.
    File(PathBuf),
    /// PostgreSQL, by its URL with all references filled in.
    Postgres(String),
}

impl LedgerPlace {
    /// Reads the configuration's value; `beside` resolves paths.
    pub(crate) fn parse(
        text: &str,
        position_file: PathBuf,
        beside: impl FnOnce(&str) -> PathBuf,
    ) -> Result<Self, ExpansionError> {
        if !is_url(text) {
            return Ok(Self { store: StorePlace::File(beside(text)), position_file, writes_log: false });
        }
        Ok(Self { store: StorePlace::Postgres(expand(text)?), position_file, writes_log: false })
    }

    /// The same place, where the verifiable log is written or not.
    pub(crate) fn with_log(self, writes_log: bool) -> Self {
        Self { writes_log, ..self }
    }

    /// Opens it for writing, and creates it if it does not exist. A ledger of an earlier version is refused.
    pub async fn open(&self) -> Result<Arc<Ledger>, LedgerError> {
        self.open_with(LedgerSchemaPolicy::Require).await
    }

    /// The same, with a policy for a ledger of an earlier version.
    pub async fn open_with(&self, schema: LedgerSchemaPolicy) -> Result<Arc<Ledger>, LedgerError> {
        let guard = LedgerGuard { position_file: Some(self.position_file.clone()), schema };
        let ledger = match &self.store {
            StorePlace::File(file) => Ledger::open_guarded(file, &guard)?,
            StorePlace::Postgres(url) => Ledger::connect_guarded(url, &guard).await?,
        };
        ledger.switch_log(self.writes_log);
        Ok(Arc::new(ledger))
    }

    /// Takes all permissions of others from its files; returns what was repaired.
    pub(crate) fn make_private(&self) -> Result<Vec<ModeRepair>, LedgerError> {
        match &self.store {
            StorePlace::File(file) => servanda_ledger::make_private(file),
            StorePlace::Postgres(_) => Ok(Vec::new()),
        }
    }

    /// Opens it for reading.
    pub async fn read(&self) -> Result<LedgerReader, LedgerError> {
        match &self.store {
            StorePlace::File(file) => LedgerReader::open(file),
            StorePlace::Postgres(url) => LedgerReader::connect(url).await,
        }
    }

    /// Maintains it from outside a gateway.
    pub fn upkeep(&self) -> Upkeep {
        let position_file = self.position_file.clone();
        match &self.store {
            StorePlace::File(file) => Upkeep::file(file.clone(), position_file),
            StorePlace::Postgres(url) => Upkeep::server(url.clone(), position_file),
        }
    }

    /// The file, if the ledger is one.
    pub fn file(&self) -> Option<&Path> {
        match &self.store {
            StorePlace::File(file) => Some(file),
            StorePlace::Postgres(_) => None,
        }
    }

    /// The URL, if the ledger is a database. It may contain a password.
    pub fn url(&self) -> Option<&str> {
        match &self.store {
            StorePlace::File(_) => None,
            StorePlace::Postgres(url) => Some(url),
        }
    }

    /// Whether there is no ledger yet. For a database, only reading can tell.
    pub fn is_missing(&self) -> bool {
        matches!(&self.store, StorePlace::File(file) if !file.exists() && !self.position_file.exists())
    }
}

/// Whether the configuration's `ledger` is a database URL; anything else is a file.
pub fn is_url(text: &str) -> bool {
    ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme)) || text.starts_with("${")
}

impl fmt::Display for LedgerPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.store {
            StorePlace::File(file) => write!(formatter, "{}", file.display()),
            StorePlace::Postgres(url) => {
                // Everything up to the last `@` of the authority may be a password, and so may a query value.
                let rest = url.split_once("://").map_or("", |(_, rest)| rest);
                let end = rest.find(['/', '?']).unwrap_or(rest.len());
                let (authority, path) = rest.split_at(end);
                let host = authority.rsplit('@').next().unwrap_or_default();
                let path = path.split('?').next().unwrap_or_default();
                write!(formatter, "postgres://{host}{path}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{LedgerPlace, StorePlace};

    #[test]
    fn a_url_is_a_database_and_its_password_is_never_shown() {
        let table = [
            ("postgresql://db/servanda", "postgres://db/servanda"),
            ("postgres://ada:secret@db/servanda?sslpassword=x", "postgres://db/servanda"),
            ("postgres:///servanda?host=/run/postgresql", "postgres:///servanda"),
        ];
        for (url, shown) in table {
            let place = LedgerPlace::parse(url, PathBuf::new(), |file| PathBuf::from(file)).unwrap();
            assert_eq!(place.store, StorePlace::Postgres(url.to_owned()));
            assert_eq!(place.to_string(), shown);
        }
        let file = LedgerPlace::parse(".servanda/ledger.db", PathBuf::new(), |text| PathBuf::from("/here").join(text))
            .unwrap();
        assert_eq!(file.to_string(), "/here/.servanda/ledger.db");
        let unset =
            LedgerPlace::parse("${SERVANDA_NO_SUCH_VARIABLE}", PathBuf::new(), |file| PathBuf::from(file)).unwrap_err();
        assert!(unset.to_string().contains("SERVANDA_NO_SUCH_VARIABLE"), "{unset}");
    }
}
