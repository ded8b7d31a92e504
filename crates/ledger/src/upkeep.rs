//! Maintenance of a ledger from outside a gateway: status, verification, backup, restore, accepting another
//! ledger than the known one, and migration. For commands; no call comes this way.

use std::path::{Path, PathBuf};

use servanda_effects::PortFuture;

use crate::{
    AdoptionRequest, Ledger, LedgerError, LedgerGuard, LedgerSchemaPolicy, LossSettlement,
    postgres::upkeep as server,
    report::{LedgerRestoration, LedgerStatus, LedgerVerification, MigrationPlan, Soundness},
    sqlite::upkeep as file,
    store::Migration,
};

const PG_BACKUP: &str = "a ledger in PostgreSQL is backed up with PostgreSQL's own means: `pg_dump --format=custom`, or base \
                         backups with archived WAL for a point in time";
const PG_RESTORE: &str = "a ledger in PostgreSQL is restored with PostgreSQL's own means (`pg_restore`, or recovery to a point \
                          in time), and then accepted with `servanda ledger adopt --evidence TEXT`";

/// The ledger to maintain, and its position file.
#[derive(Debug, Clone)]
pub struct Upkeep {
    place: LedgerLocation,
    position_file: PathBuf,
}

#[derive(Debug, Clone)]
enum LedgerLocation {
    File(PathBuf),
    Server(String),
}

impl Upkeep {
    /// For a ledger file.
    pub fn file(path: PathBuf, position_file: PathBuf) -> Self {
        Self { place: LedgerLocation::File(path), position_file }
    }

    /// For a ledger in a database.
    pub fn server(url: String, position_file: PathBuf) -> Self {
        Self { place: LedgerLocation::Server(url), position_file }
    }

    /// The ledger's status. Read-only.
    pub fn status(&self) -> PortFuture<'_, Result<LedgerStatus, LedgerError>> {
        Box::pin(async move {
            match &self.place {
                LedgerLocation::File(path) => file::status(path, &self.guard()),
                LedgerLocation::Server(url) => server::status(url, &self.guard()).await,
            }
        })
    }

    /// Reads the whole ledger and reports what is wrong. Read-only.
    pub fn verify(&self) -> PortFuture<'_, Result<LedgerVerification, LedgerError>> {
        Box::pin(async move {
            match &self.place {
                LedgerLocation::File(path) => file::verify(path),
                LedgerLocation::Server(url) => server::verify(url).await,
            }
        })
    }

    /// Copies it to a new file, even while a gateway writes.
    pub fn backup(&self, to: &Path) -> Result<(), LedgerError> {
        match &self.place {
            LedgerLocation::File(path) => file::backup(path, to),
            LedgerLocation::Server(_) => Err(LedgerError::NotHere(PG_BACKUP)),
        }
    }

    /// Replaces the ledger with a copy and accepts it. Refused while a gateway runs.
    pub fn restore(&self, from: &Path, terms: &AdoptionRequest) -> Result<LedgerRestoration, LedgerError> {
        match &self.place {
            LedgerLocation::File(path) => file::restore(path, &self.guard(), from, terms),
            LedgerLocation::Server(_) => Err(LedgerError::NotHere(PG_RESTORE)),
        }
    }

    /// Accepts a ledger that is not the known one, or of which a part is missing. If it cannot be read, a new
    /// one begins. Refused while a gateway writes to the file.
    pub fn adopt<'a>(&'a self, terms: &'a AdoptionRequest) -> PortFuture<'a, Result<LedgerRestoration, LedgerError>> {
        Box::pin(async move {
            match &self.place {
                LedgerLocation::File(path) => file::adopt(path, &self.guard(), terms),
                LedgerLocation::Server(url) => {
                    let adoption = server::adopt(url, &self.guard(), terms).await?;
                    Ok(LedgerRestoration { set_aside: None, adoption })
                }
            }
        })
    }

    /// Settles the lost windows of all acceptances: keys that the ledger does not know run again. Returns how
    /// many there were.
    pub fn settle<'a>(&'a self, settling: &'a LossSettlement) -> PortFuture<'a, Result<usize, LedgerError>> {
        Box::pin(async move {
            match &self.place {
                LedgerLocation::File(path) => file::settle(path, &self.guard(), settling),
                LedgerLocation::Server(url) => server::settle(url, &self.guard(), settling).await,
            }
        })
    }

    /// What [`Self::migrate`] would do. Read-only.
    pub fn plan(&self) -> PortFuture<'_, Result<MigrationPlan, LedgerError>> {
        Box::pin(async move {
            match &self.place {
                LedgerLocation::File(path) => file::plan(path, &self.guard()),
                LedgerLocation::Server(url) => server::plan(url, &self.guard()).await,
            }
        })
    }

    /// Brings it up to date; none if it already was.
    pub fn migrate(&self) -> PortFuture<'_, Result<Option<Migration>, LedgerError>> {
        Box::pin(async move {
            let guard = LedgerGuard { schema: LedgerSchemaPolicy::Migrate, ..self.guard() };
            let ledger = match &self.place {
                LedgerLocation::File(path) => Ledger::open_guarded(path, &guard)?,
                LedgerLocation::Server(url) => Ledger::connect_guarded(url, &guard).await?,
            };
            let migration = ledger.migration().cloned();
            ledger.close().await;
            Ok(migration)
        })
    }

    /// Writes to an existing ledger and to its disk, for real, and looks for damage for a bounded time.
    pub fn probe(&self) -> PortFuture<'_, Result<Soundness, LedgerError>> {
        Box::pin(async move {
            match &self.place {
                LedgerLocation::File(path) => file::probe(path, &self.guard()),
                LedgerLocation::Server(url) => server::probe(url).await.map(|()| Soundness::Sound),
            }
        })
    }

    /// Whether a ledger file could be made where there is none yet.
    pub fn probe_place(&self) -> Result<(), LedgerError> {
        match &self.place {
            LedgerLocation::File(path) => file::probe_place(path),
            LedgerLocation::Server(_) => Ok(()),
        }
    }

    fn guard(&self) -> LedgerGuard {
        LedgerGuard { position_file: Some(self.position_file.clone()), schema: LedgerSchemaPolicy::Require }
    }
}
