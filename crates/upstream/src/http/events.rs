//! The HTTP transport of 2024-11-05: the server speaks on one long stream of events, and the first event says where messages are posted.
//! Some servers know no other transport.
//!
//! Such a connection is made only after the server has refused Streamable HTTP. It cannot be resumed: when the stream ends, the connection
//! is lost.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use hyper::{
    Method,
    header::{ACCEPT, CONTENT_TYPE, HeaderValue},
};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::{CancellationToken, DropGuard};
use url::Url;

use super::{
    content_type::{ContentType, content_type},
    sse::EventReader,
};
use crate::{
    UpstreamRequester,
    conversation::{
        Conversations,
        duplex::Duplex,
        inbound::InboundRouter,
        loss::{ConnectionLoss, LossReason},
        pending::PendingRequests,
    },
    http_client::{HttpEndpoint, HttpRequestBody, RequestTarget, UpstreamResponse},
    request::{ExchangeEnd, WireRequest, WireRequestTerms, parcel::Parcel},
    shared::SharedContext,
};

/// The name of the event that says where messages are posted.
const ENDPOINT: &str = "endpoint";
/// How long that event may take. Such servers write it at once.
const ENDPOINT_MS_MAX: u64 = 10_000;
/// How long posting one message may take.
const POST_MS_MAX: u64 = 30_000;

/// A server on such a connection.
#[derive(Debug)]
pub(crate) struct EventWire {
    duplex: Duplex,
    stop: CancellationToken,
    _stop_when_dropped: DropGuard,
}

/// The stream, read up to its first event.
struct OpenedEventStream {
    events: EventReader,
    stream: UpstreamResponse,
    /// Messages that came with the first event.
    messages: Vec<Bytes>,
    target: RequestTarget,
}

impl EventWire {
    /// Opens the stream and waits for its first event, or says why the server does not speak this transport.
    pub(crate) async fn open(
        context: &Arc<SharedContext>,
        requester: Option<UpstreamRequester>,
        endpoint: &HttpEndpoint,
        deadline: Instant,
    ) -> Result<Self, String> {
        let bytes_max = context.spec.limits.message_bytes_max;
        let deadline = deadline.min(Instant::now() + Duration::from_millis(ENDPOINT_MS_MAX));
        let opened = tokio::time::timeout_at(deadline, open(context, requester.as_ref(), endpoint, bytes_max))
            .await
            .map_err(|_| "its stream brought no `endpoint` event in time".to_owned())??;
        let (duplex, inbound, parcels) = Duplex::new(context, requester.clone());
        let stop = CancellationToken::new();
        let target = opened.target.clone();
        let reading = read(opened, inbound);
        let writing = write(Arc::clone(context), requester, endpoint.clone(), target, parcels);
        let (pending, loss) = (Arc::clone(&duplex.pending), duplex.loss().clone());
        let stopped = stop.clone();
        context.tasks.spawn(async move {
            let why = tokio::select! {
                biased;
                () = stopped.cancelled() => "it was closed".to_owned(),
                () = reading => "its stream of events ended".to_owned(),
                why = writing => why,
            };
            end(&pending, &loss, why);
        });
        let stop_when_dropped = stop.clone().drop_guard();
        Ok(Self { duplex, stop, _stop_when_dropped: stop_when_dropped })
    }

    /// Makes a request and waits for its end. Not cancel safe: a dropped request may still be executed.
    pub(crate) fn exchange<'a>(
        &'a self,
        request: WireRequest<'a>,
        terms: WireRequestTerms,
    ) -> impl Future<Output = ExchangeEnd> + Send + 'a {
        self.duplex.exchange(request, terms)
    }

    /// Sends a notification, or reports that it could not be sent in time.
    pub(crate) async fn notify(&self, body: Vec<u8>, deadline: Instant) -> Result<(), String> {
        self.duplex.notify(body, deadline).await
    }

    pub(crate) fn loss(&self) -> &ConnectionLoss {
        self.duplex.loss()
    }

    pub(crate) fn conversations(&self) -> &Conversations {
        self.duplex.conversations()
    }

    /// Closes the stream, which ends the session.
    pub(crate) fn close(&self) {
        self.stop.cancel();
    }
}

fn end(pending: &PendingRequests, loss: &ConnectionLoss, why: String) {
    pending.close(&why);
    loss.report(LossReason::Broke { why });
}

async fn open(
    context: &SharedContext,
    requester: Option<&UpstreamRequester>,
    endpoint: &HttpEndpoint,
    bytes_max: usize,
) -> Result<OpenedEventStream, String> {
    let shown = context.connection_headers(requester).await.map_err(|why| why.to_string())?;
    let mut headers = endpoint.headers();
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    headers.extend(shown);
    let response = endpoint.send(Method::GET, headers, HttpRequestBody::none()).await;
    let response = response.map_err(|error| error.to_string())?;
    if !response.status().is_success() || content_type(&response) != ContentType::EventStream {
        return Err(format!("it offers no stream of events either (HTTP status {})", response.status().as_u16()));
    }
    first_event(response, endpoint, bytes_max).await
}

async fn first_event(
    mut stream: UpstreamResponse,
    endpoint: &HttpEndpoint,
    bytes_max: usize,
) -> Result<OpenedEventStream, String> {
    let mut events = EventReader::new(bytes_max);
    let mut seen = Vec::new();
    while let Some(chunk) = stream.chunk().await {
        let chunk = chunk.map_err(|error| error.to_string())?;
        let read = events.read(&chunk, |event| {
            seen.push(event);
            true
        });
        read.map_err(|_| "its first event is too long".to_owned())?;
        if seen.is_empty() {
            continue;
        }
        let first = seen.remove(0);
        if first.name != ENDPOINT {
            return Err("its stream of events does not begin with an `endpoint`".to_owned());
        }
        let target = target(endpoint.url(), &String::from_utf8_lossy(&first.data))?;
        let target = RequestTarget::from_url(&target)?;
        let messages = seen.into_iter().map(|event| event.data).collect();
        return Ok(OpenedEventStream { events, stream, messages, target });
    }
    Err("its stream of events ended before the first event".to_owned())
}

/// Where messages are posted. It must be on the same origin, because our headers are for one origin only.
fn target(base: &Url, reference: &str) -> Result<Url, String> {
    let target = base.join(reference.trim()).map_err(|_| "its `endpoint` is not a URL".to_owned())?;
    if target.origin() == base.origin() {
        Ok(target)
    } else {
        Err("its `endpoint` is on another origin, which would get our headers".to_owned())
    }
}

async fn read(opened: OpenedEventStream, inbound: InboundRouter) {
    let OpenedEventStream { mut events, mut stream, messages, .. } = opened;
    for message in messages {
        inbound.on_line(&message);
    }
    while let Some(Ok(chunk)) = stream.chunk().await {
        let read = events.read(&chunk, |event| {
            inbound.on_line(&event.data);
            true
        });
        if read.is_err() {
            return;
        }
    }
}

/// Posts one message after the other. Returns when a message was not taken, because its answer would never come.
async fn write(
    context: Arc<SharedContext>,
    requester: Option<UpstreamRequester>,
    endpoint: HttpEndpoint,
    target: RequestTarget,
    mut parcels: mpsc::Receiver<Parcel>,
) -> String {
    while let Some(parcel) = parcels.recv().await {
        let shown = match context.connection_headers(requester.as_ref()).await {
            Ok(shown) => shown,
            Err(why) => return why.to_string(),
        };
        let Some(body) = parcel.take() else { continue };
        let mut headers = endpoint.headers();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.extend(shown);
        let sending = endpoint.send_to(&target, Method::POST, headers, HttpRequestBody::bytes(body.clone()));
        match tokio::time::timeout(Duration::from_millis(POST_MS_MAX), sending).await {
            Ok(Ok(response)) if response.status().is_success() => {}
            Ok(Ok(response)) => {
                return format!("it answered a message with HTTP status {}", response.status().as_u16());
            }
            Ok(Err(error)) => {
                if error.is_connect() {
                    parcel.put_back(body);
                }
                return error.to_string();
            }
            Err(_) => return "it did not take a message in time".to_owned(),
        }
    }
    "it was closed".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_stay_on_the_origin() {
        let base = Url::parse("https://a.test/sse?x=1").unwrap();
        let table = [
            ("/messages?id=7", Some("https://a.test/messages?id=7")),
            ("https://a.test/messages", Some("https://a.test/messages")),
            ("https://b.test/messages", None),
            ("http://a.test/messages", None),
            ("https://a.test:8443/messages", None),
            ("https://", None),
        ];
        for (reference, expected) in table {
            assert_eq!(target(&base, reference).ok().as_ref().map(Url::as_str), expected, "{reference}");
        }
    }
}
