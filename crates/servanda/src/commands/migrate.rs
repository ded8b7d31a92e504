//! `servanda migrate`: updates the ledger of an earlier version, after a backup. `serve` and `stdio` do the same when they start; other
//! commands do not.

use std::path::Path;

use servanda_ledger::{Migration, MigrationPlan};

use crate::{cli::MigrateArgs, configuration, failure::CommandFailure, screen::Screen};

pub(crate) async fn run(config: &Path, args: &MigrateArgs, screen: Screen) -> Result<(), CommandFailure> {
    let place = configuration::ledger_place(&configuration::read(config)?)?;
    let upkeep = place.upkeep();
    let plan = upkeep.plan().await?;
    if args.dry_run {
        if screen.json {
            return screen.json(&plan);
        }
        return screen.page(describe(&plan, "would be"));
    }
    if plan.found != 0 && plan.found != plan.needed {
        tell(upkeep.migrate().await?.as_ref(), screen);
    }
    if screen.json {
        return screen.json(&plan);
    }
    screen.page(describe(&plan, "was"))
}

/// Reports that a ledger was updated, and where its backup is.
pub(crate) fn tell(migration: Option<&Migration>, screen: Screen) {
    let Some(Migration { found, newest, backup }) = migration else { return };
    match backup {
        Some(backup) => screen.say(format_args!(
            "the ledger was brought from version {found} to {newest}; as it was before it is in {}",
            backup.display()
        )),
        None => screen.say(format_args!("the ledger was brought from version {found} to {newest}")),
    }
}

fn describe(plan: &MigrationPlan, verb: &str) -> String {
    let MigrationPlan { found, needed, backup, backup_bytes } = plan;
    if *found == 0 {
        return format!("there is no ledger yet; the first start makes one of version {needed}");
    }
    if found == needed {
        return format!("the ledger has version {found}, which is what this servanda needs");
    }
    let copied = match (backup, backup_bytes) {
        (Some(backup), Some(bytes)) => {
            let size = bytes.div_ceil(1 << 20);
            format!("copied to {} first (at most {size} MiB)", backup.display())
        }
        _ => "not copied first: make a backup with `pg_dump` before".to_owned(),
    };
    format!("the ledger {verb} brought from version {found} to {needed}, and {verb} {copied}")
}
