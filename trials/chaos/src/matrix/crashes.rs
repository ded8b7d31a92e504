//! Rows 1 to 10, 15, 19 and 24: one replica, one call, a crash at one point of the call.

use std::time::Duration;

use tokio::{io::AsyncWriteExt as _, net::TcpStream, time::timeout};

use super::{How, Row, Stop, Trial, trial::CALL_PATIENCE};
use crate::effects;

/// How often a crash point is tried if another commit may reach it first.
const AIMS_MAX: u32 = 3;

/// The ways to these rows.
pub const ROWS: [Row; 20] = [
    Row { number: 1, way: "", how: How::Beside(|trial| Box::pin(before_the_claim(trial))) },
    Row { number: 2, way: "", how: How::Beside(|trial| Box::pin(claim_not_acknowledged(trial))) },
    Row { number: 3, way: "", how: How::Beside(|trial| Box::pin(claimed(trial))) },
    Row { number: 5, way: "", how: How::Beside(|trial| Box::pin(dispatch_not_acknowledged(trial))) },
    Row { number: 5, way: "error", how: How::Beside(|trial| Box::pin(dispatch_answered_with_an_error(trial))) },
    Row { number: 6, way: "", how: How::Beside(|trial| Box::pin(before_the_first_byte(trial))) },
    Row { number: 7, way: "", how: How::Beside(|trial| Box::pin(bytes_sent(trial))) },
    Row { number: 7, way: "reset", how: How::Beside(|trial| Box::pin(upstream_resets(trial))) },
    Row { number: 7, way: "timeout", how: How::Beside(|trial| Box::pin(upstream_is_silent(trial))) },
    Row { number: 8, way: "", how: How::Beside(|trial| Box::pin(done_and_killed(trial))) },
    Row { number: 8, way: "commit", how: How::Beside(|trial| Box::pin(done_and_not_committed(trial))) },
    Row { number: 8, way: "error", how: How::Beside(|trial| Box::pin(done_and(trial, "rpc_error"))) },
    Row { number: 8, way: "status", how: How::Beside(|trial| Box::pin(done_and(trial, "status:503"))) },
    Row { number: 8, way: "cut", how: How::Beside(|trial| Box::pin(done_and(trial, "cut:800"))) },
    Row { number: 9, way: "", how: How::Beside(|trial| Box::pin(result_not_acknowledged(trial))) },
    Row { number: 10, way: "", how: How::Beside(|trial| Box::pin(reply_lost(trial))) },
    Row { number: 10, way: "twice", how: How::Beside(|trial| Box::pin(answered_twice(trial))) },
    Row { number: 15, way: "", how: How::Beside(|trial| Box::pin(client_leaves_after(trial))) },
    Row { number: 15, way: "before", how: How::Beside(|trial| Box::pin(client_leaves_before(trial))) },
    Row { number: 24, way: "", how: How::Beside(|trial| Box::pin(record_beside_the_state(trial))) },
];

async fn before_the_claim(trial: &mut Trial) -> Result<(), Stop> {
    let address = trial.start(Some("ledger.before_commit=kill@1")).await?;
    trial.arm()?;
    trial.call(address).await;
    trial.died().await?;
    trial.expect_state("after the crash", &[""]).await;
    trial.expect_effects("after the crash", 0).await?;
    let (answer, _) = trial.persist().await?;
    trial.expect_success("the retry is a first run", &answer);
    trial.expect_effects("after the retry", 1).await
}

/// A claim is committed by itself only if something is asked before bytes may leave: the tool with a precondition.
async fn claim_not_acknowledged(trial: &mut Trial) -> Result<(), Stop> {
    trial.checks_first()?;
    let address = trial.start(Some("ledger.after_commit=kill@1")).await?;
    trial.arm()?;
    trial.call(address).await;
    trial.died().await?;
    trial.expect_effects("after the crash", 0).await?;
    let state = trial.seen().await?.map(|seen| seen.state);
    if state.as_deref() == Some("dispatching") {
        trial.expect_settled_by_class(false).await?;
        return Err(Stop::NotYet(
            "claim and dispatch are one commit even with a precondition: this was row 5".to_owned(),
        ));
    }
    trial.expect_state("after the crash", &["", "claimed"]).await;
    let (answer, _) = trial.persist().await?;
    trial.expect_success("the retry is a first run or a takeover", &answer);
    trial.expect_effects("after the retry", 1).await
}

async fn claimed(trial: &mut Trial) -> Result<(), Stop> {
    trial.checks_first()?;
    let address = trial.start(None).await?;
    let asked = format!("balance/{}", trial.order.business);
    trial.stage.hostile.plan(&asked, "hold,answer").await?;
    let call = trial.begin(address);
    if trial.held(&asked).await.is_err() {
        return Err(Stop::NotYet("the gateway asks no preconditions yet, so nothing stays claimed".to_owned()));
    }
    let running = trial.call(address).await;
    trial.expect_state("while it is asked", &["claimed"]).await;
    trial.kill().await?;
    call.abort();
    trial.expect(running.is_refused_as("IDEMPOTENCY_CONFLICT"), || format!("while it is claimed: {}", running.short()));
    trial.expect_state("after the crash", &["claimed"]).await;
    trial.expect_effects("after the crash", 0).await?;
    let (answer, _) = trial.persist().await?;
    trial.expect_success("the takeover", &answer);
    trial.expect_effects("after the takeover", 1).await?;
    let epoch = trial.seen().await?.map_or(0, |seen| seen.epoch);
    trial.expect(epoch >= 2, || format!("the takeover left epoch {epoch}"));
    Ok(())
}

async fn dispatch_not_acknowledged(trial: &mut Trial) -> Result<(), Stop> {
    for _ in 0..AIMS_MAX {
        let address = trial.start(Some("ledger.after_commit=kill@1")).await?;
        trial.arm()?;
        trial.call(address).await;
        trial.died().await?;
        // Owners commit a beat regularly, so the fault may have hit that commit.
        if !matches!(trial.seen().await, Ok(None)) {
            break;
        }
    }
    trial.expect_state("after the crash", &["dispatching"]).await;
    trial.expect_effects("after the crash", 0).await?;
    trial.expect_settled_by_class(false).await
}

/// The commit succeeded and the owner is told that it failed: the sender must read the store before it sends bytes.
async fn dispatch_answered_with_an_error(trial: &mut Trial) -> Result<(), Stop> {
    let address = trial.start(Some("ledger.after_commit=error@1")).await?;
    trial.arm()?;
    let first = trial.call(address).await;
    trial.victim()?.disarm()?;
    let (answer, _) = trial.persist().await?;
    if first.is_success() {
        trial.expect_success("what was acknowledged", &answer);
    }
    let known = answer.is_success() || answer.is_unknown() || answer.says_it_happened();
    trial.expect(known, || format!("the retry: {}", answer.short()));
    let effects = trial.account().await?.receipts.len();
    trial.expect(!answer.is_success() || effects == usize::from(trial.class.mutates()), || {
        format!("it was answered with success, and there are {effects} effects")
    });
    Ok(())
}

async fn before_the_first_byte(trial: &mut Trial) -> Result<(), Stop> {
    let address = trial.start(Some("upstream.before_write=kill@1")).await?;
    trial.arm()?;
    trial.call(address).await;
    trial.died().await?;
    trial.expect_state("after the crash", &["dispatching"]).await;
    trial.expect_effects("after the crash", 0).await?;
    let calls = trial.account().await?.calls;
    trial.expect(calls == 0, || "bytes had left".to_owned());
    trial.expect_settled_by_class(false).await
}

async fn bytes_sent(trial: &mut Trial) -> Result<(), Stop> {
    // Silent, so that only the crash ends it.
    "never".clone_into(&mut trial.order.script);
    let address = trial.start(Some("upstream.after_write=kill@1")).await?;
    trial.arm()?;
    trial.call(address).await;
    trial.died().await?;
    trial.expect_state("after the crash", &["dispatching"]).await;
    trial.expect_effects("after the crash", 0).await?;
    trial.expect_settled_by_class(false).await
}

async fn upstream_resets(trial: &mut Trial) -> Result<(), Stop> {
    "reset".clone_into(&mut trial.order.script);
    let address = trial.start(None).await?;
    let first = trial.call(address).await;
    uncertain(trial, &first, false).await
}

async fn upstream_is_silent(trial: &mut Trial) -> Result<(), Stop> {
    "never".clone_into(&mut trial.order.script);
    let address = trial.start(None).await?;
    let first = trial.call(address).await;
    uncertain(trial, &first, false).await
}

/// An error or a partial answer after the effect says nothing about the effect.
async fn done_and(trial: &mut Trial, then: &str) -> Result<(), Stop> {
    trial.order.script = format!("effect,{then}");
    let address = trial.start(None).await?;
    let first = trial.call(address).await;
    uncertain(trial, &first, true).await
}

/// The first of two answers counts and is stored.
async fn answered_twice(trial: &mut Trial) -> Result<(), Stop> {
    "effect,twice".clone_into(&mut trial.order.script);
    let address = trial.start(None).await?;
    let first = trial.call(address).await;
    trial.expect_success("the first answer", &first);
    expect_stored(trial).await
}

/// The gateway lives and does not know how the dispatch ended. It may already have settled it.
async fn uncertain(trial: &mut Trial, first: &crate::agent::Answer, done: bool) -> Result<(), Stop> {
    let honest = first.is_unknown() || first.is_success() || first.says_it_happened();
    // A class that can find out may also answer "provably never ran".
    let honest = honest
        || (trial.class != crate::world::Class::N && !done && !matches!(first, crate::agent::Answer::Nothing(_)));
    let read = !trial.class.mutates();
    trial.expect(honest || read, || format!("the caller was told: {}", first.short()));
    trial.expect_settled_by_class(done).await
}

async fn done_and_killed(trial: &mut Trial) -> Result<(), Stop> {
    "effect,hold,answer".clone_into(&mut trial.order.script);
    let address = trial.start(None).await?;
    let call = trial.begin(address);
    trial.held(&trial.order.business).await?;
    trial.kill().await?;
    call.abort();
    trial.expect_state("after the crash", &["dispatching"]).await;
    trial.expect_effects("after the crash", 1).await?;
    trial.expect_settled_by_class(true).await
}

async fn done_and_not_committed(trial: &mut Trial) -> Result<(), Stop> {
    dies_at_the_result(trial, "ledger.before_commit=kill@1").await?;
    trial.expect_state("after the crash", &["dispatching"]).await;
    trial.expect_effects("after the crash", 1).await?;
    trial.expect_settled_by_class(true).await
}

async fn result_not_acknowledged(trial: &mut Trial) -> Result<(), Stop> {
    dies_at_the_result(trial, "ledger.after_commit=kill@1").await?;
    trial.expect_effects("after the crash", 1).await?;
    let state = trial.seen().await?.map(|seen| seen.state);
    if state.as_deref() == Some("dispatching") {
        return trial.expect_settled_by_class(true).await;
    }
    trial.expect_state("after the crash", &["completed"]).await;
    expect_stored(trial).await
}

/// The upstream holds its answer until the fault is armed, so that the next commit is that of the result.
async fn dies_at_the_result(trial: &mut Trial, fault: &str) -> Result<(), Stop> {
    trial.order.tool = trial.class.tool("slow");
    "effect,hold,answer".clone_into(&mut trial.order.script);
    let address = trial.start(Some(fault)).await?;
    let call = trial.begin(address);
    trial.held(&trial.order.business).await?;
    trial.arm()?;
    trial.release(&trial.order.business).await?;
    let died = trial.died().await;
    call.abort();
    died
}

/// The result is stored: the gateway answers without the upstream.
async fn expect_stored(trial: &mut Trial) -> Result<(), Stop> {
    let before = trial.account().await?;
    let (answer, _) = trial.persist().await?;
    trial.expect_success("the stored result", &answer);
    if !trial.class.mutates() {
        return Ok(());
    }
    let receipt = before.receipts.first().cloned().unwrap_or_default();
    let same =
        matches!(&answer, crate::agent::Answer::Success { content, .. } if content.contains(&format!("\"{receipt}\"")));
    trial.expect(same, || format!("the stored result is not that of `{receipt}`: {}", answer.short()));
    let calls = trial.account().await?.calls;
    trial.expect(calls == before.calls, || "the stored result made a call to the upstream".to_owned());
    let home = trial.home().await?;
    trial.expect_replay("once more", &answer, home).await?;
    trial.expect_effects("in the end", 1).await
}

async fn reply_lost(trial: &mut Trial) -> Result<(), Stop> {
    let address = trial.start(None).await?;
    let request = trial.order.request(address);
    let lost = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(&request).await?;
        stream.readable().await
    };
    let lost = timeout(CALL_PATIENCE, lost).await.map_err(|_| "no reply came".to_owned())?;
    lost.map_err(|error| error.to_string())?;
    trial.expect_state("when the reply is lost", &["completed"]).await;
    trial.expect_effects("when the reply is lost", 1).await?;
    expect_stored(trial).await
}

async fn client_leaves_after(trial: &mut Trial) -> Result<(), Stop> {
    "hold,effect,answer".clone_into(&mut trial.order.script);
    let address = trial.start(None).await?;
    let call = trial.begin(address);
    trial.held(&trial.order.business).await?;
    call.abort();
    let _ = call.await;
    trial.release(&trial.order.business).await?;
    if !trial.class.mutates() {
        let (answer, _) = trial.persist().await?;
        trial.expect_success("the retry of a read", &answer);
        return Ok(());
    }
    // The same replica, because it continues to read.
    let (answer, _) = trial.persist_at(address).await?;
    trial.expect_success("what went on without its client", &answer);
    let calls = trial.account().await?.calls;
    trial.expect(calls == 1, || format!("{calls} calls to the upstream"));
    trial.expect_effects("in the end", 1).await?;
    trial.expect_state("in the end", &["completed"]).await;
    trial.expect_replay("in the end", &answer, address).await
}

async fn client_leaves_before(trial: &mut Trial) -> Result<(), Stop> {
    trial.checks_first()?;
    let address = trial.start(None).await?;
    let asked = format!("balance/{}", trial.order.business);
    trial.stage.hostile.plan(&asked, "hold,answer").await?;
    let call = trial.begin(address);
    if trial.held(&asked).await.is_err() {
        return Err(Stop::NotYet(
            "the gateway asks no preconditions yet, so there is no time before a dispatch".to_owned(),
        ));
    }
    call.abort();
    let _ = call.await;
    // Long enough for the gateway to notice that its client is gone.
    tokio::time::sleep(Duration::from_millis(300)).await;
    trial.release(&asked).await?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    trial.expect_effects("after the client left", 0).await?;
    trial.expect_state("after the client left", &["", "failed_retryable"]).await;
    let (answer, _) = trial.persist().await?;
    trial.expect_success("the retry", &answer);
    trial.expect_effects("after the retry", 1).await
}

/// State and record commit together. Publishing records from there to a log is not built yet; this checks that none is missing.
async fn record_beside_the_state(trial: &mut Trial) -> Result<(), Stop> {
    dies_at_the_result(trial, "ledger.after_commit=kill@1").await?;
    if !trial.class.mutates() {
        let (answer, _) = trial.persist().await?;
        trial.expect_success("the retry of a read", &answer);
        return Ok(());
    }
    let seen = trial.seen().await?.ok_or_else(|| Stop::Broken("the effect is not there".to_owned()))?;
    let record = effects::record(&trial.stage.setup, &trial.folder, &seen.call_id).await;
    let record = record.unwrap_or_else(|error| serde_json::json!({ "outcome": error }));
    let outcome = record["outcome"].as_str().unwrap_or_default().to_owned();
    let expected = if seen.state == "completed" { "completed" } else { "dispatching" };
    trial.expect(outcome == expected, || format!("the state is `{}`, the record says `{outcome}`", seen.state));
    Ok(())
}
