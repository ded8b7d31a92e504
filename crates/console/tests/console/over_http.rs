//! The whole way over HTTP: an agent's call waits at the door for agents, and a person signs in, reads and approves at the same address.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use reqwest::{Client, RequestBuilder, redirect::Policy};
use serde_json::{Value, json};
use servanda_approval::{Ticket, TicketState};
use servanda_doors::{
    HttpOptions, ServerIdentity, ServingOptions,
    http::{router, serve_with},
};
use servanda_effects::{TicketStore as _, ticket_store::TicketQuery};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::fixture::{Gateway, Users};

async fn serve(gateway: &Gateway) -> (SocketAddr, CancellationToken, tokio::task::JoinHandle<std::io::Result<()>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let identity = ServerIdentity { name: "servanda".to_owned(), version: "0.1.0".to_owned(), instructions: None };
    let options = HttpOptions {
        authenticator: gateway.authenticator.clone(),
        pages: Some(Arc::new(gateway.console.clone())),
        ..HttpOptions::new(identity)
    };
    let stop = CancellationToken::new();
    let serving =
        serve_with(listener, router(gateway.engine.clone(), options), stop.clone(), ServingOptions::default());
    (address, stop, tokio::spawn(serving))
}

fn call(client: &Client, address: SocketAddr) -> RequestBuilder {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "agent", "version": "2"},
    });
    let arguments = json!({"invoice_id": "inv_1007", "reason": "duplicate"});
    let params = json!({"name": "company__void_invoice", "arguments": arguments, "_meta": meta});
    client
        .post(format!("http://{address}/mcp"))
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", "company__void_invoice")
        .json_body(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}))
}

trait JsonBody {
    fn json_body(self, body: &Value) -> Self;
    fn form_body(self, fields: &[(&str, &str)]) -> Self;
}

impl JsonBody for RequestBuilder {
    fn json_body(self, body: &Value) -> Self {
        self.header("content-type", "application/json").body(body.to_string())
    }

    fn form_body(self, fields: &[(&str, &str)]) -> Self {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        self.header("content-type", "application/x-www-form-urlencoded").body(body)
    }
}

/// The ticket that the call opens.
async fn opened(gateway: &Gateway) -> Ticket {
    loop {
        let listed = gateway.tickets.list_tickets(TicketQuery::pending(None)).await.unwrap();
        if let Some(ticket) = listed.into_iter().next() {
            return ticket;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    text.split_once(start).and_then(|(_, rest)| rest.split_once(end)).map(|(found, _)| found).unwrap_or_default()
}

#[tokio::test]
async fn a_call_waits_until_a_person_approves_it() {
    let gateway = Gateway::new(Users::One);
    let (address, stop, served) = serve(&gateway).await;
    let client = Client::builder().redirect(Policy::none()).build().unwrap();
    let base = format!("http://{address}");
    let calling = tokio::spawn(call(&client, address).send());
    let ticket = opened(&gateway).await;

    // The agent reaches the same address, and gets nowhere.
    let path = format!("/approvals/{}", ticket.id);
    let payload = ticket.subject.payload.to_string();
    let answer = client.get(format!("{base}{path}")).send().await.unwrap();
    assert_eq!(answer.status(), 303);
    let fields = [("verdict", "approve"), ("payload", payload.as_str()), ("form_token", "x")];
    let answer =
        client.post(format!("{base}{path}")).header("sec-fetch-site", "same-origin").form_body(&fields).send().await;
    assert_eq!(answer.unwrap().status(), 401);
    let answer = client.get(&base).header("host", "evil.example").send().await.unwrap();
    assert_eq!(answer.status(), 403, "a name that this gateway does not answer to");
    let long = client.post(format!("{base}/sign-in")).body(vec![b'x'; 70_000]).send().await.unwrap();
    assert_eq!(long.status(), 413);

    let link = gateway.links.issue().unwrap().path();
    let signed_in = client.post(format!("{base}{link}")).header("origin", &base).form_body(&[]).send().await.unwrap();
    assert_eq!(signed_in.status(), 303);
    let cookie = signed_in.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let get = async |path: &str| {
        client.get(format!("{base}{path}")).header("cookie", &cookie).send().await.unwrap().text().await.unwrap()
    };
    assert!(get("/approvals").await.contains("Invoice inv_1007 becomes void."));
    let page = get(&path).await;
    let token = between(
        &page,
        &format!("action=\"{path}\" class=\"stack\">\n<input type=\"hidden\" name=\"form_token\" value=\""),
        "\"",
    );
    let fields = [("verdict", "approve"), ("payload", payload.as_str()), ("form_token", token)];
    let post = client.post(format!("{base}{path}")).header("cookie", &cookie).header("origin", &base);
    assert_eq!(post.form_body(&fields).send().await.unwrap().status(), 303);

    let answer = calling.await.unwrap().unwrap().text().await.unwrap();
    assert!(answer.contains(r#""refused_at":"perform""#), "the approved call went on to its server: {answer}");
    let used = gateway
        .tickets
        .find_ticket(servanda_effects::ticket_store::TicketTarget::Id(ticket.id))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(used.state, TicketState::Consumed);
    stop.cancel();
    served.await.unwrap().unwrap();
}

#[tokio::test]
async fn news_come_by_themselves_and_end_with_the_door() {
    let gateway = Gateway::new(Users::One);
    let (address, stop, served) = serve(&gateway).await;
    let client = Client::builder().redirect(Policy::none()).build().unwrap();
    let base = format!("http://{address}");
    let link = gateway.links.issue().unwrap().path();
    let signed_in = client.post(format!("{base}{link}")).header("origin", &base).form_body(&[]).send().await.unwrap();
    let cookie = signed_in.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let mut news = client
        .get(format!("{base}/approvals/events?state=pending&after="))
        .header("cookie", &cookie)
        .send()
        .await
        .unwrap();
    assert_eq!(news.headers()["content-type"], "text/event-stream");
    let calling = tokio::spawn(call(&client, address).send());
    let first = news.chunk().await.unwrap().unwrap();
    assert_eq!(first, "data: <a class=\"news\" href=\"/approvals?state=pending\">1 new – show</a>\n\n");
    calling.abort();
    stop.cancel();
    assert!(news.chunk().await.is_ok_and(|rest| rest.is_none()), "the stream ends in order");
    served.await.unwrap().unwrap();
}
