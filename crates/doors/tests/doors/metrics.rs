//! `/metrics`: who may read it, its two forms, and the reasons by which rejected requests are counted.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use reqwest::header::HeaderValue;
use serde_json::json;
use servanda_authority::challenge::Challenge;
use servanda_doors::http::{AuthRejection, MetricsFormat, MetricsSource};
use servanda_engine::PortFuture;

use crate::{
    fixture::within,
    http_client::{Server, modern},
};

/// Figures of a test, which remember what was counted.
#[derive(Debug, Default)]
struct Figures {
    asks_for_credentials: AtomicBool,
    rejections: Mutex<Vec<&'static str>>,
}

impl Figures {
    fn counted(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.rejections.lock().unwrap())
    }
}

impl MetricsSource for Figures {
    fn count_rejection(&self, reason: &'static str) {
        self.rejections.lock().unwrap().push(reason);
    }

    fn is_open(&self) -> bool {
        !self.asks_for_credentials.load(Ordering::SeqCst)
    }

    fn admit<'a>(&'a self, authorization: Option<&'a HeaderValue>) -> PortFuture<'a, Result<(), AuthRejection>> {
        let wrong = match authorization.map(|shown| shown.to_str().unwrap()) {
            Some("Bearer monitor") => return Box::pin(std::future::ready(Ok(()))),
            shown => shown.map(|_| "not a monitor's".to_owned()),
        };
        let challenge = Challenge { status: 401, header: "Bearer".to_owned() };
        let (message, hint) = ("no".to_owned(), "no".to_owned());
        Box::pin(std::future::ready(Err(AuthRejection::Challenged { challenge, message, hint, wrong })))
    }

    fn page(&self, format: MetricsFormat) -> PortFuture<'_, Bytes> {
        Box::pin(std::future::ready(format!("{format:?}").into()))
    }
}

async fn serving(figures: &Arc<Figures>) -> Server {
    let figures = figures.clone();
    Server::start_with(|options| options.metrics = Some(figures)).await
}

/// Asks for the page; says status, content type and body.
async fn page(server: &Server, headers: &[(&str, &str)]) -> (u16, String, String) {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let asked = client.get(format!("http://{}/metrics", server.address));
    let asked = headers.iter().fold(asked, |asked, (name, value)| asked.header(*name, *value));
    let answer = within(asked.send()).await.unwrap();
    let kind = answer.headers().get("content-type").map(|kind| kind.to_str().unwrap().to_owned()).unwrap_or_default();
    (answer.status().as_u16(), kind, within(answer.text()).await.unwrap())
}

#[tokio::test]
async fn an_open_page_is_for_this_machine_and_not_for_web_pages() {
    let figures = Arc::<Figures>::default();
    let server = serving(&figures).await;
    let text = (200, "text/plain; version=0.0.4; charset=utf-8".to_owned(), "Text".to_owned());
    assert_eq!(page(&server, &[]).await, text);
    let open = (200, "application/openmetrics-text; version=1.0.0; charset=utf-8".to_owned(), "OpenMetrics".to_owned());
    assert_eq!(page(&server, &[("accept", "application/openmetrics-text;version=1.0.0")]).await, open);
    assert!(figures.counted().is_empty());
    assert_eq!(page(&server, &[("host", "rebound.example")]).await.0, 403);
    assert_eq!(page(&server, &[("origin", "https://evil.example")]).await.0, 403);
    assert_eq!(figures.counted(), ["bad_origin", "bad_origin"]);
}

#[tokio::test]
async fn a_page_that_is_not_open_asks_for_its_credential() {
    let figures = Arc::<Figures>::default();
    figures.asks_for_credentials.store(true, Ordering::SeqCst);
    let server = serving(&figures).await;
    assert_eq!(page(&server, &[]).await.0, 401);
    assert_eq!(page(&server, &[("authorization", "Bearer another")]).await.0, 401);
    assert_eq!(page(&server, &[("authorization", "Bearer monitor"), ("authorization", "Bearer monitor")]).await.0, 401);
    assert_eq!(figures.counted(), ["no_credential", "bad_credential", "no_credential"]);
    // A monitor asks by whatever name reaches the gateway: the credential is what counts.
    assert_eq!(page(&server, &[("authorization", "Bearer monitor"), ("host", "10.0.0.7:7332")]).await.0, 200);
    assert!(figures.counted().is_empty());
}

#[tokio::test]
async fn without_figures_there_is_no_page() {
    let server = Server::start().await;
    assert_eq!(page(&server, &[]).await.0, 404);
}

#[tokio::test]
async fn what_the_door_rejects_is_counted_by_reason_and_calls_are_not() {
    let figures = Arc::<Figures>::default();
    let counted = figures.clone();
    let server = Server::start_with(|options| {
        options.metrics = Some(counted);
        options.body_bytes_max = 2_000;
    })
    .await;
    let call = modern(1, "tools/list", json!({}));
    assert_eq!(server.send(&call).await.status.as_u16(), 200);
    assert_eq!(figures.counted(), Vec::<&str>::new());
    let table: [(&str, &str, Option<&str>, &str); 5] = [
        ("accept", "text/html", None, "malformed"),
        ("content-type", "text/plain", None, "malformed"),
        ("origin", "https://evil.example", None, "bad_origin"),
        ("mcp-method", "tools/list", Some("{"), "malformed"),
        ("mcp-method", "tools/list", Some(" "), "too_large"),
    ];
    for (name, value, body, reason) in table {
        let mut call = call.clone();
        call.headers.insert(name.to_owned(), value.to_owned());
        if let Some(body) = body {
            call.body = if reason == "too_large" { body.repeat(3_000) } else { body.to_owned() };
        }
        let status = server.send(&call).await.status.as_u16();
        assert!((400..500).contains(&status), "{name}: {status}");
        assert_eq!(figures.counted(), [reason], "{name}: {value}");
    }
}
