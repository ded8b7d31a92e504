//! Rows 16, 17 and 18: the store fails.

use super::{How, Row, Stop, Trial};
use crate::{agent::Answer, postgres::Postgres, world::Class};

/// Smaller than any file of the ledger, so that none can be written.
const FULL_DISK_BYTES: u64 = 1;

/// The ways to these rows.
pub const ROWS: [Row; 6] = [
    Row { number: 16, way: "", how: How::Alone(|trial, postgres| Box::pin(asynchronous_standby(trial, postgres))) },
    Row { number: 17, way: "error", how: How::Beside(|trial| Box::pin(down_before(trial))) },
    Row { number: 17, way: "disk", how: How::Beside(|trial| Box::pin(disk_full(trial))) },
    Row { number: 17, way: "crash", how: How::Alone(|trial, postgres| Box::pin(crashed_before(trial, postgres))) },
    Row { number: 18, way: "error", how: How::Beside(|trial| Box::pin(down_after(trial))) },
    Row { number: 18, way: "crash", how: How::Alone(|trial, postgres| Box::pin(crashed_after(trial, postgres))) },
];

async fn down_before(trial: &mut Trial) -> Result<(), Stop> {
    let address = trial.start(Some("ledger.before_commit=error@1")).await?;
    trial.arm()?;
    let refused = trial.call(address).await;
    expect_closed(trial, &refused).await?;
    trial.victim()?.disarm()?;
    healed(trial).await
}

async fn disk_full(trial: &mut Trial) -> Result<(), Stop> {
    trial.only_on_sqlite("the disk is the database's")?;
    let address = trial.start(None).await?;
    trial.victim()?.limit_files(Some(FULL_DISK_BYTES)).await?;
    let refused = trial.call(address).await;
    trial.victim()?.limit_files(None).await?;
    expect_closed(trial, &refused).await?;
    healed(trial).await
}

async fn crashed_before(trial: &mut Trial, postgres: &Postgres) -> Result<(), Stop> {
    let address = trial.start(None).await?;
    postgres.crash().await?;
    let refused = trial.call(address).await;
    postgres.up(None).await?;
    expect_closed(trial, &refused).await?;
    healed(trial).await
}

/// Nothing was sent. The gateway says so, or says that the key could not be looked up, which claims nothing. A read may pass:
/// it needs nothing durable first.
async fn expect_closed(trial: &mut Trial, refused: &Answer) -> Result<(), Stop> {
    if !trial.class.mutates() {
        return Ok(());
    }
    let closed =
        matches!(refused, Answer::Refused(refusal) if ["none", "unknown_before"].contains(&refusal.effect.as_str()));
    trial.expect(closed, || format!("without its ledger: {}", refused.short()));
    let calls = trial.account().await?.calls;
    trial.expect(calls == 0, || "bytes left without a record".to_owned());
    Ok(())
}

async fn healed(trial: &mut Trial) -> Result<(), Stop> {
    let (answer, _) = trial.persist().await?;
    trial.expect_success("when the ledger is back", &answer);
    trial.expect_effects("when the ledger is back", 1).await?;
    let home = trial.home().await?;
    trial.expect_replay("when the ledger is back", &answer, home).await
}

async fn down_after(trial: &mut Trial) -> Result<(), Stop> {
    trial.order.tool = trial.class.tool("slow");
    "effect,hold,answer|effect,answer".clone_into(&mut trial.order.script);
    let address = trial.start(Some("ledger.before_commit=error@1")).await?;
    let call = trial.begin(address);
    trial.held(&trial.order.business).await?;
    trial.arm()?;
    trial.release(&trial.order.business).await?;
    let told = call.await.map_err(|error| error.to_string())?;
    trial.victim()?.disarm()?;
    unrecorded(trial, &told).await
}

async fn crashed_after(trial: &mut Trial, postgres: &Postgres) -> Result<(), Stop> {
    "effect,hold,answer|effect,answer".clone_into(&mut trial.order.script);
    let address = trial.start(None).await?;
    let call = trial.begin(address);
    trial.held(&trial.order.business).await?;
    postgres.crash().await?;
    trial.release(&trial.order.business).await?;
    let told = call.await.map_err(|error| error.to_string())?;
    postgres.up(None).await?;
    unrecorded(trial, &told).await
}

/// It happened and could not be recorded: unknown until it is recorded, and nothing that was acknowledged is lost.
async fn unrecorded(trial: &mut Trial, told: &Answer) -> Result<(), Stop> {
    let not_executed = matches!(told, Answer::Refused(refusal) if refusal.effect == "none");
    trial.expect(!not_executed || !trial.class.mutates(), || "it says that nothing was sent".to_owned());
    let (answer, _) = trial.persist().await?;
    let known = match trial.class {
        Class::R | Class::K => answer.is_success(),
        Class::Q => answer.is_success() || answer.says_it_happened(),
        Class::N => answer.is_success() || answer.says_it_happened() || answer.is_unknown(),
    };
    trial.expect(known, || format!("when the ledger is back: {}", answer.short()));
    if let (Answer::Success { content: acknowledged, .. }, true) = (told, trial.class.mutates()) {
        let kept = matches!(&answer, Answer::Success { content, .. } if content == acknowledged);
        trial.expect(kept, || format!("an acknowledged success was lost: {}", answer.short()));
    }
    trial.expect_effects("when the ledger is back", 1).await
}

/// I9: with a standby that may lag, class N is refused; the others find out by themselves what was lost.
async fn asynchronous_standby(trial: &mut Trial, postgres: &Postgres) -> Result<(), Stop> {
    let standby = postgres.standby(&trial.folder.join("standby")).await;
    let standby = standby.map_err(|why| Stop::NotYet(format!("a standby could not be set up: {why}")))?;
    let started = trial.start(None).await;
    let answer = match started {
        Ok(address) => trial.call(address).await,
        // It may also refuse to start with such a contract.
        Err(Stop::Broken(why)) => Answer::Nothing(why),
        Err(stop) => return Err(stop),
    };
    drop(standby);
    if trial.class == Class::N {
        let refused = matches!(&answer, Answer::Refused(refusal) if refusal.effect == "none")
            || matches!(&answer, Answer::Nothing(why) if why.contains("standby"));
        trial.expect(refused, || format!("class N with an asynchronous standby: {}", answer.short()));
        return trial.expect_effects("with an asynchronous standby", 0).await;
    }
    trial.expect_success("with an asynchronous standby", &answer);
    Ok(())
}
