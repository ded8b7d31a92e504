//! Rows 11, 13 and 14: two clients or replicas with the same key.

use std::time::Duration;

use tokio::time::sleep;

use super::{How, Row, Stop, Trial};
use crate::{
    agent::Answer,
    world::{Class, OWNER_SILENCE_MS},
};

/// Longer than an owner may be silent.
const PAUSE_MS: u64 = OWNER_SILENCE_MS + 700;
/// How long a replica stalls at its failpoint, so that it can be paused there.
const STALL_MS: u64 = 2_000;

/// The ways to these rows.
pub const ROWS: [Row; 5] = [
    Row { number: 11, way: "", how: How::Beside(|trial| Box::pin(duplicate(trial))) },
    Row { number: 13, way: "", how: How::Beside(|trial| Box::pin(zombie_before_the_fence(trial))) },
    Row { number: 13, way: "write", how: How::Beside(|trial| Box::pin(zombie_before_the_write(trial))) },
    Row { number: 14, way: "", how: How::Beside(|trial| Box::pin(late_answer(trial))) },
    Row { number: 14, way: "deadline", how: How::Beside(|trial| Box::pin(answer_after_the_deadline(trial))) },
];

/// On PostgreSQL the duplicate comes to another replica, on SQLite to the same.
async fn duplicate(trial: &mut Trial) -> Result<(), Stop> {
    trial.order.tool = trial.class.tool("slow");
    "hold,effect,answer|effect,answer".clone_into(&mut trial.order.script);
    let address = trial.start(None).await?;
    let home = trial.home().await?;
    let call = trial.begin(address);
    trial.held(&trial.order.business).await?;
    let second = trial.call(home).await;
    if trial.class.mutates() {
        let conflict = second.is_refused_as("IDEMPOTENCY_CONFLICT");
        trial.expect(conflict, || format!("the duplicate: {}", second.short()));
        if let Answer::Refused(refusal) = &second {
            trial.expect(refusal.retry_after_ms.is_some(), || "the conflict does not say when to ask again".to_owned());
            trial.expect(refusal.text.contains("eff_"), || "the conflict has no handle".to_owned());
        }
    }
    trial.release(&trial.order.business).await?;
    let first = call.await.map_err(|error| error.to_string())?;
    trial.expect_success("the first", &first);
    if trial.class.mutates() {
        trial.expect_replay("the duplicate, later", &first, home).await?;
        let calls = trial.account().await?.calls;
        trial.expect(calls == 1, || format!("{calls} calls to the upstream"));
    }
    trial.expect_effects("in the end", 1).await
}

/// Paused after its claim; another replica takes over; when it wakes up, its compare-and-set fails and it sends nothing.
async fn zombie_before_the_fence(trial: &mut Trial) -> Result<(), Stop> {
    trial.only_with_replicas()?;
    trial.checks_first()?;
    let address = trial.start(None).await?;
    trial.home().await?;
    let asked = format!("balance/{}", trial.order.business);
    trial.stage.hostile.plan(&asked, "hold,answer").await?;
    let call = trial.begin(address);
    if trial.held(&asked).await.is_err() {
        return Err(Stop::NotYet("the gateway asks no preconditions yet, so nothing stays claimed".to_owned()));
    }
    trial.victim()?.pause();
    let (answer, _) = trial.persist().await?;
    trial.victim()?.resume();
    trial.release(&asked).await?;
    trial.expect_success("the takeover", &answer);
    let zombie = call.await.map_err(|error| error.to_string())?;
    let calls = trial.account().await?.calls;
    trial.expect(calls == 1, || format!("the zombie sent: {calls} calls; it was told {}", zombie.short()));
    trial.expect_effects("in the end", 1).await
}

/// Paused between its commit and its first byte, for longer than its lease. When it wakes up, it does not send a call that
/// cannot be repeated; another replica has already sent one that can.
async fn zombie_before_the_write(trial: &mut Trial) -> Result<(), Stop> {
    trial.only_with_replicas()?;
    trial.order.tool = trial.class.tool("slow");
    let address = trial.start(Some(&format!("upstream.before_write=pause:{STALL_MS}@1"))).await?;
    trial.home().await?;
    trial.arm()?;
    let call = trial.begin(address);
    if trial.class.mutates() {
        trial.reaches("dispatching").await?;
    }
    trial.victim()?.pause();
    let calls = trial.account().await?.calls;
    trial.expect(calls == 0, || "the crash point was not reached: the fault did not fire".to_owned());
    sleep(Duration::from_millis(PAUSE_MS)).await;
    if trial.class == Class::N {
        let (meanwhile, _) = trial.persist().await?;
        trial.expect(meanwhile.is_unknown(), || format!("while its owner is away: {}", meanwhile.short()));
    } else if trial.class == Class::K {
        let (meanwhile, _) = trial.persist().await?;
        trial.expect_success("the takeover", &meanwhile);
    }
    trial.victim()?.resume();
    let zombie = call.await.map_err(|error| error.to_string())?;
    let (meanwhile, _) = trial.persist().await?;
    let told = meanwhile.is_success() || (trial.class == Class::N && meanwhile.is_unknown());
    trial.expect(told, || format!("meanwhile: {}; the zombie: {}", meanwhile.short(), zombie.short()));
    trial.expect_effects("in the end", usize::from(trial.class != Class::N)).await
}

/// The owner is paused while the upstream works; another replica reports the outcome as unknown; then the answer comes.
async fn late_answer(trial: &mut Trial) -> Result<(), Stop> {
    trial.only_with_replicas()?;
    trial.order.tool = trial.class.tool("slow");
    "hold,effect,answer|effect,answer".clone_into(&mut trial.order.script);
    let address = trial.start(None).await?;
    trial.home().await?;
    let call = trial.begin(address);
    trial.held(&trial.order.business).await?;
    trial.victim()?.pause();
    if trial.class == Class::N {
        let (meanwhile, _) = trial.persist().await?;
        trial.expect(meanwhile.is_unknown(), || format!("while its owner is away: {}", meanwhile.short()));
    } else {
        sleep(Duration::from_millis(PAUSE_MS)).await;
    }
    trial.victim()?.resume();
    trial.release(&trial.order.business).await?;
    let first = call.await.map_err(|error| error.to_string())?;
    let (answer, _) = trial.persist().await?;
    trial.expect_success("after the late answer", &answer);
    if first.is_success() && trial.class.mutates() {
        let home = trial.home().await?;
        trial.expect_replay("what the late answer said", &first, home).await?;
    }
    trial.expect_state("after the late answer", &["completed"]).await;
    trial.expect_effects("in the end", 1).await
}

async fn answer_after_the_deadline(trial: &mut Trial) -> Result<(), Stop> {
    "effect,delay:3000,answer|effect,answer".clone_into(&mut trial.order.script);
    let address = trial.start(None).await?;
    let first = trial.call(address).await;
    let honest = first.is_unknown() || first.is_success() || first.says_it_happened() || !trial.class.mutates();
    trial.expect(honest, || format!("at the deadline: {}", first.short()));
    let (answer, _) = trial.persist().await?;
    match trial.class {
        // The gateway may or may not wait for an answer after the deadline; it must never send again.
        Class::N => trial.expect(answer.is_unknown() || answer.is_success(), || format!("later: {}", answer.short())),
        Class::Q => {
            trial.expect(answer.is_success() || answer.says_it_happened(), || format!("later: {}", answer.short()));
        }
        _ => trial.expect_success("later", &answer),
    }
    let calls = trial.account().await?.calls;
    trial.expect(calls == 1 || trial.class != Class::N, || "class N was sent again".to_owned());
    trial.expect_effects("in the end", 1).await
}
