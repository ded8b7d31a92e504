//! Row 4: a call waits for people and its gateway dies. Rows 21 and 22 belong to compensations and sagas. They are listed, so that readers do
//! not believe that they are done.

use super::{How, Row, Stop, Trial};
use crate::{
    agent::{Answer, Refusal},
    people::{self, Keys},
    world::{ApprovalTimes, Setup},
};

const DAY_SEC: u64 = 86_400;

/// The rows of approvals and the rows that wait.
pub const ROWS: [Row; 3] = [
    Row { number: 4, way: "", how: How::Beside(|trial| Box::pin(dies_while_people_decide(trial))) },
    Row { number: 21, way: "", how: How::NotYet("compensations are not built") },
    Row { number: 22, way: "", how: How::NotYet("sagas are not built") },
];

/// Nothing is claimed while people decide, so nothing is left behind but the ticket; it survives, and the same bytes take it up.
async fn dies_while_people_decide(trial: &mut Trial) -> Result<(), Stop> {
    if !trial.class.mutates() {
        return Err(Stop::NotHere("reads need no approval here".to_owned()));
    }
    let times = ApprovalTimes { decide_within_sec: DAY_SEC, use_within_sec: DAY_SEC };
    let setup = Setup { approvals: Some(times), ..trial.stage.setup.clone() };
    trial.write(&setup)?;
    let keys = Keys::make(&setup, &trial.folder).await?;
    trial.order.credential = Some(keys.agent.clone());
    let address = trial.start(None).await?;
    let first = pending(&trial.call(address).await)?;
    trial.kill().await?;
    trial.expect_state("after the crash", &[""]).await;
    trial.expect_effects("after the crash", 0).await?;
    let home = trial.start(None).await?;
    let again = pending(&trial.call(home).await)?;
    trial.expect(again.handle == first.handle, || format!("another ticket: {:?}, {:?}", first.handle, again.handle));
    trial.expect_effects("while it waits", 0).await?;
    people::approve(&setup, &trial.folder, &first.handle.unwrap_or_default(), &keys.approver).await?;
    trial.kill().await?;
    let home = trial.start(None).await?;
    let done = trial.call(home).await;
    trial.expect_success("approved", &done);
    trial.expect_effects("approved", 1).await?;
    trial.expect_replay("approved", &done, home).await
}

fn pending(answer: &Answer) -> Result<Refusal, Stop> {
    match answer {
        Answer::Refused(refusal) if refusal.message.contains("waits for approval") => Ok(refusal.clone()),
        answer => Err(Stop::Broken(format!("a call that needs an approval: {}", answer.short()))),
    }
}
