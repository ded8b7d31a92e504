//! Requesters that come too late are answered and not left waiting.

use std::{sync::Arc, time::Duration};

use servanda_contract::{Caller, Digest, digest::DigestDomain};
use servanda_effects::InMemoryNotebook;
use tokio::{sync::Semaphore, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{Bridge, MessageSubscriber, ParkedReply, ParkedRequest, RequestAnswer, RequestBinding};
use crate::{InquiryAnswer, SystemClock};

/// What two requesters are told that came back while the request was not looking, just before it ended.
async fn too_late(answer_is_kept: bool) -> Vec<String> {
    let bridge = Arc::new(Bridge::new(Arc::new(InMemoryNotebook::default()), Arc::new(SystemClock), Arc::default()));
    let claim = RequestBinding {
        caller: Caller::local().into(),
        request: Digest::compute(DigestDomain::Request, &[]),
        first_call: None,
        key: None,
    };
    let (parked_request, turns) = ParkedRequest::open(claim, MessageSubscriber::default());
    assert!(bridge.parked.enter(&parked_request) && parked_request.reply(ParkedReply::Input("{}".to_owned())).is_ok());
    parked_request.set_lapse(answer_is_kept.then(|| Instant::now() + Duration::from_mins(1)));
    let may_end = Arc::new(Semaphore::new(0));
    let gate = Arc::clone(&may_end);
    let underway = Box::pin(async move {
        let _ = gate.acquire().await;
        RequestAnswer::Inquiry(Ok(InquiryAnswer::Complete("{}".to_owned())))
    });
    let id = parked_request.id.clone();
    let told = bridge.run_until_answer(parked_request, turns, underway, &CancellationToken::new()).await;
    assert!(matches!(told, ParkedReply::Input(_)));
    let visiting: Vec<_> = (0..2)
        .map(|_| {
            let (bridge, id) = (Arc::clone(&bridge), id.clone());
            tokio::spawn(async move {
                bridge.rejoin(&id, None, None, MessageSubscriber::default(), &CancellationToken::new()).await
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    may_end.add_permits(1);
    let mut told = Vec::new();
    for returning_request in visiting {
        let turn = tokio::time::timeout(Duration::from_hours(1), returning_request)
            .await
            .expect("a requester is left waiting");
        told.push(match turn.unwrap() {
            ParkedReply::Done(_) => "done".to_owned(),
            ParkedReply::Refused(error) => error.message,
            ParkedReply::Input(_) => "input".to_owned(),
        });
    }
    assert_eq!(bridge.parked(), 0);
    told
}

#[tokio::test(start_paused = true)]
async fn a_requester_that_comes_when_the_request_is_over_is_told() {
    let gone = "the request that this `requestState` belongs to is no longer waiting";
    assert_eq!(too_late(false).await, [gone, gone]);
    assert_eq!(too_late(true).await, ["done", gone]);
}
