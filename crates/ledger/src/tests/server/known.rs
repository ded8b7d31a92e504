//! Which ledger a database holds, and how far it has come, compared with a gateway's own position file.

use std::path::{Path, PathBuf};

use servanda_effects::effect::{EffectReply, EffectStore as _, OwnerId};

use super::super::{
    cluster::Cluster,
    samples::{begin, begin_keyless, begun},
};
use crate::{
    AdoptionRequest, Ledger, LedgerDamage, LedgerError, LedgerGuard, LedgerSchemaPolicy, LossSettlement, Upkeep,
};

fn guard(position_file: &Path) -> LedgerGuard {
    LedgerGuard { position_file: Some(position_file.to_owned()), schema: LedgerSchemaPolicy::Migrate }
}

fn owner() -> OwnerId {
    OwnerId::from("own_a".to_owned())
}

async fn refused(url: &str, position_file: &Path) -> LedgerDamage {
    match Ledger::connect_guarded(url, &guard(position_file)).await.unwrap_err() {
        LedgerError::Refused(refused) => refused.damage,
        error => panic!("{error}"),
    }
}

/// A gateway that has lived for a few beats.
async fn lived(url: &str, position_file: &Path) {
    let ledger = Ledger::connect_guarded(url, &guard(position_file)).await.unwrap();
    for _ in 0..3 {
        ledger.heartbeat(owner()).await.unwrap();
    }
    ledger.close().await;
}

pub(super) async fn a_database_that_is_not_the_known_one_is_refused(cluster: &Cluster) {
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<PathBuf> = ["a.position", "b.position"].iter().map(|name| folder.path().join(name)).collect();
    let url = cluster.schema().await;
    let schema = url.rsplit("%3D").next().unwrap();
    for file in &files {
        lived(&url, file).await;
    }
    lived(&url, &files[0]).await;
    assert_eq!(refused(&cluster.schema().await, &files[0]).await, LedgerDamage::Empty);
    let other = cluster.schema().await;
    Ledger::connect(&other).await.unwrap().close().await;
    assert!(matches!(refused(&other, &files[0]).await, LedgerDamage::Foreign(Some(_))));
    cluster.sql(&format!("update {schema}.ledger_identity set position = 2")).await;
    assert_eq!(refused(&url, &files[0]).await, LedgerDamage::Behind(2));
    let upkeep = Upkeep::server(url.clone(), files[0].clone());
    assert!(upkeep.status().await.unwrap().refused.is_some());
    let terms = AdoptionRequest { by: "ada".to_owned(), evidence: "point in time".to_owned(), in_force_ms: 3_600_000 };
    assert!(upkeep.adopt(&terms).await.unwrap().adoption.is_some());
    assert_eq!(upkeep.adopt(&terms).await.unwrap().adoption, None);
    // The position file of the other gateway knows the ledger that this one replaced.
    for file in &files {
        lived(&url, file).await;
    }
    let ledger = Ledger::connect_guarded(&url, &guard(&files[0])).await.unwrap();
    let reply = async |begin| ledger.apply(begun(begin)).await.unwrap().reply;
    assert!(matches!(reply(begin_keyless("call_1")).await, EffectReply::Mine(_)));
    assert_eq!(reply(begin("k-1")).await, EffectReply::Unknown);
    assert_eq!(reply(begin("k-1")).await, EffectReply::Unknown);
    let settling = LossSettlement { by: "ada".to_owned(), evidence: "the list".to_owned() };
    assert_eq!(upkeep.settle(&settling).await.unwrap(), 1);
    ledger.heartbeat(owner()).await.unwrap();
    assert!(matches!(reply(begin("k-2")).await, EffectReply::Mine(_)));
    assert!(upkeep.verify().await.unwrap().problems.is_empty());
    upkeep.probe().await.unwrap();
    assert!(matches!(upkeep.backup(&folder.path().join("x")), Err(LedgerError::NotHere(_))));
    ledger.close().await;
}

pub(super) async fn a_database_that_was_put_back_under_a_running_gateway_is_noticed(cluster: &Cluster) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.position");
    let url = cluster.schema().await;
    let schema = url.rsplit("%3D").next().unwrap();
    let ledger = Ledger::connect_guarded(&url, &guard(&file)).await.unwrap();
    for _ in 0..3 {
        ledger.heartbeat(owner()).await.unwrap();
    }
    let replaced =
        |reason: Option<String>| reason.is_some_and(|reason| reason.contains("was replaced while the gateway ran"));
    assert!(!replaced(ledger.may_lose_commits()));
    cluster.sql(&format!("update {schema}.ledger_identity set position = 1")).await;
    ledger.heartbeat(owner()).await.unwrap();
    assert!(replaced(ledger.may_lose_commits()), "{:?}", ledger.may_lose_commits());
    ledger.close().await;
    assert!(matches!(refused(&url, &file).await, LedgerDamage::Behind(_)));
}

/// A gateway writes the database first and its position file second. A command that runs at the same time must
/// not mistake that for a restored database.
pub(super) async fn a_ledger_that_moves_on_meanwhile_is_not_behind(cluster: &Cluster) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.position");
    let url = cluster.schema().await;
    let ledger = Ledger::connect_guarded(&url, &guard(&file)).await.unwrap();
    let upkeep = Upkeep::server(url, file);
    let beats = async {
        loop {
            ledger.heartbeat(owner()).await.unwrap();
        }
    };
    let looks = async {
        for _ in 0..60 {
            let refused = upkeep.status().await.unwrap().refused;
            assert!(refused.is_none(), "{refused:?}");
        }
    };
    tokio::select! {
        () = looks => {}
        () = beats => {}
    }
    ledger.close().await;
}
