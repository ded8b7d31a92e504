//! Follows the server's stream of announcements: the GET stream of a legacy session, a listen request in the modern era.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use reqwest::{Method, Response};
use servanda_mcp::{Era, Id, Message, fields::method};

use super::{
    HttpWire,
    answer::{ContentType, content_type},
};
use crate::{announcement::Followed, handshake::Peer, message, sse::EventReader};

impl HttpWire {
    /// Opens the stream and follows it to its end. Cancel safe: dropping it closes the stream.
    pub(crate) async fn follow(&self, peer: &Peer) -> Followed {
        let id = self.setting.next_id();
        let version = Some(peer.version);
        let request = match peer.era() {
            Era::Legacy => self.builder(Method::GET, version, None, None),
            Era::Modern => {
                self.builder(Method::POST, version, Some(method::SUBSCRIPTIONS_LISTEN), None).body(message::listen(id))
            }
        };
        let opening_max = Duration::from_millis(self.setting.spec.limits.connect_ms_max);
        match tokio::time::timeout(opening_max, request.send()).await {
            Ok(Ok(response)) => self.follow_events(response, id).await,
            Ok(Err(_)) | Err(_) => Followed::Broke,
        }
    }

    async fn follow_events(&self, response: Response, id: i64) -> Followed {
        let status = response.status();
        if !status.is_success() || content_type(&response) != ContentType::EventStream {
            // A server in trouble may offer it later; any other answer is a no.
            return if status.is_server_error() { Followed::Broke } else { Followed::NotOffered };
        }
        let mut events = EventReader::new(self.setting.spec.limits.message_bytes_max);
        let mut chunks = response.bytes_stream();
        while let Some(Ok(chunk)) = chunks.next().await {
            let mut ended = None;
            let read = events.read(&chunk, |event| {
                ended = self.on_announcement(&Bytes::from(event), id);
                ended.is_none()
            });
            match (ended, read) {
                (Some(ended), _) => return ended,
                (None, Err(_)) => return Followed::Broke,
                (None, Ok(())) => {}
            }
        }
        Followed::Broke
    }

    fn on_announcement(&self, event: &[u8], listen_id: i64) -> Option<Followed> {
        let ours = |id: &Id| *id == Id::Number(listen_id);
        match Message::parse(event) {
            Ok(Message::Notification { method, .. }) if method == method::TOOLS_LIST_CHANGED => {
                self.setting.announce_change();
                None
            }
            Ok(Message::Request { id, method, .. }) => {
                self.answer_server(&id, &method);
                None
            }
            Ok(Message::Response { id, .. }) if ours(&id) => Some(Followed::Broke),
            Ok(Message::Failure { id, .. }) if id.as_ref().is_none_or(ours) => Some(Followed::NotOffered),
            _ => None,
        }
    }
}
