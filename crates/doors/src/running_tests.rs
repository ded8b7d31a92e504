//! The order of the last events.

use serde_json::value::to_raw_value;
use servanda_engine::{ClientQuestion, PendingQuestion, Requester};
use servanda_mcp::{ClientCapabilities, ProtocolVersion};
use tokio::sync::oneshot;

use super::*;
use crate::{
    client_messages::{ClientLogFilter, ClientMessageAudience},
    server_info::ServerIdentity,
    session::SessionLimits,
};

/// A question that is still queued when the work is done is not asked.
#[tokio::test]
async fn a_question_that_waits_is_declined_once_there_is_an_answer() {
    let capabilities = serde_json::value::RawValue::from_string(r#"{"roots":{}}"#.to_owned()).unwrap();
    let requester = Requester { capabilities: ClientCapabilities::parse(Some(&capabilities)), ..Requester::local() };
    let limits = SessionLimits { questions_max: 1, watches_max: 1 };
    let session = Arc::new(LegacyClientSession::new(requester, ProtocolVersion::NEWEST_LEGACY, Arc::default(), limits));
    let (sender, client_messages) = mpsc::channel(2);
    let (reply, mut answered) = oneshot::channel();
    let ask = PendingQuestion { question: ClientQuestion::unrestricted("up", "roots/list", None).unwrap(), reply };
    sender.try_send(ClientMessage::Ask(ask)).unwrap();
    let audience =
        ClientMessageAudience { progress_token: None, log: ClientLogFilter::OfSession, session: Some(session) };
    let mut running = finished(client_messages, audience);
    assert!(matches!(running.next().await, RunningRequestEvent::Answered(_)));
    assert!(matches!(answered.try_recv(), Err(oneshot::error::TryRecvError::Closed)));
}

/// The task may send its last progress and end between two polls of the channel.
#[tokio::test]
async fn progress_that_waits_goes_out_before_the_answer() {
    let (sender, client_messages) = mpsc::channel(2);
    sender.try_send(ClientMessage::Progress(to_raw_value(&["not an object"]).unwrap())).unwrap();
    sender.try_send(ClientMessage::Progress(to_raw_value(&serde_json::json!({"progress": 1})).unwrap())).unwrap();
    let audience =
        ClientMessageAudience { progress_token: Some("7".to_owned()), log: ClientLogFilter::None, session: None };
    let mut running = finished(client_messages, audience);
    assert!(matches!(running.next().await, RunningRequestEvent::Message(note) if note.ends_with(br#""progress":1}}"#)));
    assert!(matches!(running.next().await, RunningRequestEvent::Answered(answered) if answered.message == b"answer"));
}

/// A request whose answer is there, with messages still queued.
fn finished(client_messages: mpsc::Receiver<ClientMessage>, audience: ClientMessageAudience) -> RunningRequest {
    let server = ServerIdentity { name: String::new(), version: String::new(), instructions: None };
    let server_info = Arc::new(RenderedServerInfo::new(&server));
    RunningRequest {
        renderer: AnswerRenderer { id: Id::Number(1), era: Era::Legacy, server_info, session: None },
        work: DoorWork::Done,
        slots: None,
        client_messages: Some(client_messages),
        relay: ClientMessageRelay::new(audience),
        finished: Some(RenderedAnswer {
            message: b"answer".to_vec(),
            status: StatusCode::OK,
            scopes_needed: Vec::new(),
        }),
        _cancel_on_drop: None,
        cancel: CancellationToken::new(),
    }
}
