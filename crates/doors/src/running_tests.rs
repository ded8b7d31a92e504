//! The order of the last events.

use serde_json::value::to_raw_value;

use super::*;
use crate::{
    options::ServerIdentity,
    remarks::{Audience, Log},
};

/// The task may send its last progress and end between two looks at the channel.
#[tokio::test]
async fn progress_that_waits_goes_out_before_the_answer() {
    let server = ServerIdentity { name: String::new(), version: String::new(), instructions: None };
    let (sender, remarks) = mpsc::channel(2);
    sender.try_send(Remark::Progress(to_raw_value(&["not an object"]).unwrap())).unwrap();
    sender.try_send(Remark::Progress(to_raw_value(&serde_json::json!({"progress": 1})).unwrap())).unwrap();
    let greeting = Arc::new(Greeting::new(&server));
    let asker = Asker { id: Id::Number(1), era: Era::Legacy, greeting, session: None };
    let mut running = Running {
        asker,
        work: tokio::spawn(std::future::pending()),
        held: None,
        remarks: Some(remarks),
        relay: Relay::new(Audience { progress_token: Some("7".to_owned()), log: Log::None, session: None }),
        finished: Some(Answered { message: b"answer".to_vec(), status: StatusCode::OK }),
        _cancel_on_drop: None,
        cancel: CancellationToken::new(),
    };
    assert!(matches!(running.next().await, Event::Said(note) if note.ends_with(br#""progress":1}}"#)));
    assert!(matches!(running.next().await, Event::Answered(answered) if answered.message == b"answer"));
}
