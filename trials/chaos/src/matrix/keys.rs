//! Rows 12, 19, 20 and 23: what a key means after it was used, whatever the clock shows.

use super::{How, Row, Stop, Trial, trial::CALL_PATIENCE};
use crate::{
    agent::Answer,
    gateway::{Launch, faketime},
    postgres::Postgres,
    world::{Class, Store},
};

/// Longer than answers are remembered.
const LONG_AFTER: &str = "+25h";

/// The ways to these rows.
pub const ROWS: [Row; 7] = [
    Row { number: 12, way: "", how: How::Beside(|trial| Box::pin(other_payload(trial))) },
    Row { number: 12, way: "running", how: How::Beside(|trial| Box::pin(other_payload_while_running(trial))) },
    Row { number: 19, way: "", how: How::Beside(|trial| Box::pin(broken_output(trial))) },
    Row { number: 20, way: "", how: How::Beside(|trial| Box::pin(expired(trial))) },
    Row {
        number: 20,
        way: "store",
        how: How::Alone(|trial, postgres| Box::pin(expired_in_the_store(trial, postgres))),
    },
    Row { number: 23, way: "ahead", how: How::Beside(|trial| Box::pin(clock_jumps(trial, "+1h"))) },
    Row { number: 23, way: "behind", how: How::Beside(|trial| Box::pin(clock_jumps(trial, "-1h"))) },
];

async fn other_payload(trial: &mut Trial) -> Result<(), Stop> {
    let address = trial.start(None).await?;
    let first = trial.call(address).await;
    trial.expect_success("the first run", &first);
    let other = trial.order.other_payload().call(trial.home().await?, CALL_PATIENCE).await;
    expect_mismatch(trial, &other);
    if trial.class.mutates() {
        let calls = trial.account().await?.calls;
        trial.expect(calls == 1, || "the other payload reached the upstream".to_owned());
    }
    trial.expect_effects("after the other payload", 1).await?;
    let home = trial.home().await?;
    trial.expect_replay("the first payload again", &first, home).await
}

async fn other_payload_while_running(trial: &mut Trial) -> Result<(), Stop> {
    trial.order.tool = trial.class.tool("slow");
    "hold,effect,answer|effect,answer".clone_into(&mut trial.order.script);
    if !trial.class.mutates() {
        return Err(Stop::NotHere("reads run side by side".to_owned()));
    }
    let address = trial.start(None).await?;
    let home = trial.home().await?;
    let call = trial.begin(address);
    trial.held(&trial.order.business).await?;
    let other = trial.order.other_payload().call(home, CALL_PATIENCE).await;
    expect_mismatch(trial, &other);
    trial.release(&trial.order.business).await?;
    let first = call.await.map_err(|error| error.to_string())?;
    trial.expect_success("the first payload", &first);
    trial.expect_effects("in the end", 1).await
}

fn expect_mismatch(trial: &mut Trial, other: &Answer) {
    if !trial.class.mutates() {
        return;
    }
    let mismatch = other.is_refused_as("SIGNATURE_MISMATCH");
    trial.expect(mismatch, || format!("the other payload: {}", other.short()));
    let receipt = format!("{}#", trial.order.business);
    let echoed = matches!(other, Answer::Refused(refusal) if refusal.text.contains(&receipt));
    trial.expect(!echoed, || "the stored body was echoed to another payload".to_owned());
}

async fn broken_output(trial: &mut Trial) -> Result<(), Stop> {
    "effect,bad_schema|effect,bad_schema|effect,bad_schema".clone_into(&mut trial.order.script);
    let address = trial.start(None).await?;
    for when in ["the first run", "the retry"] {
        let answer = trial.call(address).await;
        let broken = answer.is_refused_as("OBSERVATION_NORMALIZATION_FAIL");
        trial.expect(broken, || format!("{when}: {}", answer.short()));
        if trial.class.mutates() {
            trial.expect(answer.says_it_happened(), || format!("{when} does not say that it happened"));
            let calls = trial.account().await?.calls;
            trial.expect(calls == 1, || format!("{when}: {calls} calls to the upstream"));
        }
    }
    trial.expect_state("in the end", &["completed"]).await;
    trial.expect_effects("in the end", 1).await
}

async fn expired(trial: &mut Trial) -> Result<(), Stop> {
    trial.only_on_sqlite("the store's own time counts: see row20_*_store")?;
    clock_is_there()?;
    let address = trial.start(None).await?;
    let first = trial.call(address).await;
    trial.expect_success("the first run", &first);
    trial.kill().await?;
    let later = trial.start_with(&at(LONG_AFTER)).await?;
    expect_expired(trial, later).await
}

async fn expired_in_the_store(trial: &mut Trial, postgres: &Postgres) -> Result<(), Stop> {
    clock_is_there()?;
    let home = trial.home().await?;
    let (first, _) = trial.persist_at(home).await?;
    trial.expect_success("the first run", &first);
    postgres.crash().await?;
    postgres.up(Some(LONG_AFTER)).await?;
    let checked = expect_expired(trial, home).await;
    postgres.crash().await?;
    postgres.up(None).await?;
    checked
}

async fn expect_expired(trial: &mut Trial, address: std::net::SocketAddr) -> Result<(), Stop> {
    if trial.class == Class::R {
        return Err(Stop::NotHere("reads leave no tombstone".to_owned()));
    }
    let (again, _) = trial.persist_at(address).await?;
    if again.is_success() {
        // A clock that jumps is no proof that time has passed: the stored answer, without a second run, is also right.
        let calls = trial.account().await?.calls;
        trial.expect(calls == 1, || "the key ran again".to_owned());
        let why =
            "this binary bridges a clock that jumps, so that nothing expires by one; the trial `clocks` is about that";
        return Err(Stop::NotHere(why.to_owned()));
    }
    let expired = matches!(&again, Answer::Refused(refusal) if refusal.says_expired());
    trial.expect(expired, || format!("after its time: {}", again.short()));
    let calls = trial.account().await?.calls;
    trial.expect(calls == 1, || "the key ran again".to_owned());
    trial.expect_effects("after its time", 1).await?;
    trial.expect_state("after its time", &["expired"]).await;
    Ok(())
}

/// A replica with another clock than its store and the other replicas: keys mean the same to all of them.
async fn clock_jumps(trial: &mut Trial, clock: &str) -> Result<(), Stop> {
    clock_is_there()?;
    let address = trial.start(None).await?;
    let first = trial.call(address).await;
    trial.expect_success("before the jump", &first);
    trial.kill().await?;
    let skewed = trial.start_with(&at(clock)).await?;
    trial.expect_replay("after the jump", &first, skewed).await?;
    trial.expect_effects("after the jump", 1).await?;
    trial.expect_state("after the jump", &["completed"]).await;
    let early = trial.order.clone();
    trial.order.key.push_str("-jumped");
    trial.order.business.push_str("-jumped");
    let (later, _) = trial.persist_at(skewed).await?;
    trial.expect_success("a new key after the jump", &later);
    if trial.stage.store == Store::Postgres {
        let home = trial.home().await?;
        trial.expect_replay("on a replica whose clock is right", &later, home).await?;
    } else {
        trial.kill().await?;
        let back = trial.start(None).await?;
        trial.expect_replay("after the jump back", &later, back).await?;
    }
    trial.expect_effects("of the new key", 1).await?;
    trial.order = early;
    Ok(())
}

fn at(clock: &str) -> Launch {
    Launch { clock: Some(clock.to_owned()), ..Launch::default() }
}

fn clock_is_there() -> Result<(), Stop> {
    let missing = || Stop::NotYet("libfaketime is not installed: apt-get install faketime".to_owned());
    faketime().map(drop).ok_or_else(missing)
}
