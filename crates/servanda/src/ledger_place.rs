//! Where a configuration keeps its ledger: a file beside it, or a PostgreSQL that several gateways share. Who opens it, and
//! what a screen may say about it: never the password.

use std::{fmt, path::PathBuf, sync::Arc};

use servanda_ledger::{Ledger, LedgerError, Reader};

use crate::{expansion, failure::Failure};

/// A file, or a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LedgerPlace {
    /// An embedded one.
    File(PathBuf),
    /// PostgreSQL, by its URL with all references filled in.
    Postgres(String),
}

impl LedgerPlace {
    /// What the configuration says; `beside` finds files.
    pub(crate) fn of(text: &str, beside: impl FnOnce(&str) -> PathBuf) -> Result<Self, Failure> {
        if !is_url(text) {
            return Ok(Self::File(beside(text)));
        }
        expansion::expand(text).map(Self::Postgres).map_err(|why| {
            Failure::bad_input(format!("`ledger` cannot be used: {why}"))
                .hint("set the variable before starting, e.g. `export DATABASE_URL=…`")
        })
    }

    /// Opens it for writing, making it or bringing it up to date first.
    pub(crate) async fn open(&self) -> Result<Arc<Ledger>, LedgerError> {
        match self {
            Self::File(file) => Ledger::open(file).map(Arc::new),
            Self::Postgres(url) => Ledger::connect(url).await.map(Arc::new),
        }
    }

    /// Opens it for reading.
    pub(crate) async fn read(&self) -> Result<Reader, LedgerError> {
        match self {
            Self::File(file) => Reader::open(file),
            Self::Postgres(url) => Reader::connect(url).await,
        }
    }

    /// Whether there is nothing to read yet. Of a database only reading tells.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::File(file) if !file.exists())
    }
}

/// Whether a `ledger` of a configuration names a database; everything else is a file.
pub(crate) fn is_url(text: &str) -> bool {
    ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme)) || text.starts_with("${")
}

impl fmt::Display for LedgerPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => write!(formatter, "{}", file.display()),
            Self::Postgres(url) => {
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

    use super::LedgerPlace;

    #[test]
    fn a_url_is_a_database_and_its_password_is_never_shown() {
        let table = [
            ("postgresql://db/servanda", "postgres://db/servanda"),
            ("postgres://ada:secret@db/servanda?sslpassword=x", "postgres://db/servanda"),
            ("postgres:///servanda?host=/run/postgresql", "postgres:///servanda"),
        ];
        for (url, shown) in table {
            let place = LedgerPlace::of(url, |file| PathBuf::from(file)).unwrap();
            assert_eq!(place, LedgerPlace::Postgres(url.to_owned()));
            assert_eq!(place.to_string(), shown);
        }
        let file = LedgerPlace::of(".servanda/ledger.db", |text| PathBuf::from("/here").join(text)).unwrap();
        assert_eq!(file.to_string(), "/here/.servanda/ledger.db");
        let unset = LedgerPlace::of("${SERVANDA_NO_SUCH_VARIABLE}", |file| PathBuf::from(file)).unwrap_err();
        assert!(unset.to_string().contains("SERVANDA_NO_SUCH_VARIABLE"), "{unset}");
    }
}
