//! Requests that a person's own browser sends without the person: other sites, other ports, forms of another session, forms sent again.

use http::{Method, StatusCode};
use servanda_approval::TicketState;

use crate::{
    browser::Browser,
    fixture::{Gateway, Users, Wanted},
};

fn own() -> Wanted {
    Wanted { tenant: "local", principal: "local".to_owned(), ..Wanted::default() }
}

#[tokio::test]
async fn only_the_consoles_own_forms_are_acted_on() {
    let gateway = Gateway::new(Users::One);
    let ticket = gateway.open(Wanted { pattern: servanda_contract::tool::ApprovalPattern::Consent, ..own() }).await;
    let mut browser = Browser::single_user(&gateway).await;
    let path = format!("/approvals/{}", ticket.id);
    let form = browser.get(&path).await.form("approve");
    let fields: Vec<(&str, &str)> = form.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    for headers in [
        &[("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")][..],
        &[("sec-fetch-site", "same-site"), ("origin", "http://127.0.0.1:9999")],
        &[("sec-fetch-site", "none")],
        &[("origin", "http://127.0.0.1:9999")],
        &[("origin", "null")],
        &[],
    ] {
        let page = browser.post_with(&path, &fields, headers).await;
        assert_eq!(page.status, StatusCode::FORBIDDEN, "{headers:?}");
    }
    let without =
        |name: &str| -> Vec<(&str, &str)> { fields.iter().copied().filter(|(own, _)| *own != name).collect() };
    let other_token = [without("form_token"), vec![("form_token", "AAAA")]].concat();
    for (wrong, status) in [
        (without("form_token"), StatusCode::FORBIDDEN),
        (other_token, StatusCode::FORBIDDEN),
        (without("payload"), StatusCode::BAD_REQUEST),
        (without("verdict"), StatusCode::BAD_REQUEST),
        ([fields.clone(), vec![("verdict", "deny")]].concat(), StatusCode::BAD_REQUEST),
    ] {
        assert_eq!(browser.post(&path, &wrong).await.status, status, "{wrong:?}");
    }
    let headers = [("sec-fetch-site", "same-origin"), ("content-type", "application/json")];
    let json = browser.send(Method::POST, &path, &headers, "{}".to_owned());
    assert_eq!(json.await.status, StatusCode::BAD_REQUEST);
    assert!(gateway.ticket(&ticket.id).await.decisions.is_empty(), "nothing of that decided");
    assert_eq!(browser.submit(&form, &[]).await.status, StatusCode::SEE_OTHER);
    assert_eq!(gateway.ticket(&ticket.id).await.state, TicketState::Approved);
}

#[tokio::test]
async fn a_token_is_good_for_one_session_and_one_form() {
    let gateway = Gateway::new(Users::Many);
    let (one, two) = (
        gateway.open(Wanted::default()).await,
        gateway.open(Wanted { arguments: serde_json::json!({}), ..Wanted::default() }).await,
    );
    let (mut ben, mut cleo) =
        (Browser::with_key(&gateway, "ben", &[]).await, Browser::with_key(&gateway, "cleo", &[]).await);
    let (first, second) = (format!("/approvals/{}", one.id), format!("/approvals/{}", two.id));
    let form = ben.get(&first).await.form("approve");
    assert_eq!(cleo.submit(&form, &[]).await.status, StatusCode::FORBIDDEN, "another session's form");
    let mut elsewhere = form.clone();
    elsewhere.action = second;
    assert_eq!(ben.submit(&elsewhere, &[]).await.status, StatusCode::FORBIDDEN, "another ticket's form");
    elsewhere.action = "/sign-out".to_owned();
    assert_eq!(ben.submit(&elsewhere, &[]).await.status, StatusCode::FORBIDDEN);
    assert_eq!(ben.submit(&form, &[]).await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn a_form_sent_again_or_for_another_payload_is_not_acted_on() {
    let gateway = Gateway::new(Users::Many);
    let ticket = gateway.open(Wanted::default()).await;
    let other =
        gateway.open(Wanted { arguments: serde_json::json!({"invoice_id": "inv_1"}), ..Wanted::default() }).await;
    let mut ben = Browser::with_key(&gateway, "ben", &[]).await;
    let form = ben.get(&format!("/approvals/{}", ticket.id)).await.form("approve");
    let mut changed = form.clone();
    let payload = changed.fields.iter_mut().find(|(name, _)| name == "payload").unwrap();
    payload.1 = other.subject.payload.to_string();
    let page = ben.submit(&changed, &[]).await;
    assert_eq!(page.status, StatusCode::CONFLICT);
    assert!(page.html.contains("This is not the call that you were shown"), "{}", page.html);
    assert_eq!(ben.submit(&form, &[]).await.status, StatusCode::SEE_OTHER);
    let page = ben.submit(&form, &[]).await;
    assert_eq!(page.status, StatusCode::CONFLICT);
    assert!(page.html.contains("Somebody or the clock was faster"));
    assert_eq!(gateway.ticket(&ticket.id).await.decisions.len(), 1);
}

#[tokio::test]
async fn looking_changes_nothing() {
    let gateway = Gateway::new(Users::One);
    let ticket = gateway.open(own()).await;
    let mut browser = Browser::single_user(&gateway).await;
    let payload = ticket.subject.payload;
    for query in
        ["", &format!("?verdict=approve&payload={payload}"), &format!("/decide?verdict=approve&payload={payload}")]
    {
        browser.get(&format!("/approvals/{}{query}", ticket.id)).await;
    }
    browser.get("/sign-out").await;
    assert_eq!(gateway.ticket(&ticket.id).await, ticket);
    assert_eq!(browser.get("/approvals").await.status, StatusCode::OK);
}

#[tokio::test]
async fn other_sites_cannot_read_and_a_link_on_them_arrives() {
    let gateway = Gateway::new(Users::One);
    let mut browser = Browser::single_user(&gateway).await;
    for site in ["cross-site", "same-site"] {
        let headers = [("sec-fetch-site", site), ("sec-fetch-mode", "no-cors")];
        let page = browser.send(Method::GET, "/approvals", &headers, String::new());
        assert_eq!(page.await.status, StatusCode::FORBIDDEN);
    }
    // A strict cookie is not sent with a link on another site.
    let mut arriving = Browser::new(&gateway);
    let link = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
    let page = arriving.send(Method::GET, "/approvals/apr_1", &link, String::new()).await;
    assert!(page.html.contains(r#"<meta http-equiv="refresh" content="0;url=/approvals/apr_1">"#), "{}", page.html);
    let page = arriving.send(Method::GET, "/sign-in?next=//evil.example", &link, String::new()).await;
    assert!(page.html.contains("url=/approvals\""), "{}", page.html);
}

#[tokio::test]
async fn odd_requests_get_a_page_with_every_header() {
    let gateway = Gateway::new(Users::One);
    let mut browser = Browser::single_user(&gateway).await;
    for (method, path, status) in [
        (Method::GET, "/", StatusCode::OK),
        (Method::GET, "/nothing", StatusCode::NOT_FOUND),
        (Method::GET, "/approvals/apr_none", StatusCode::NOT_FOUND),
        (Method::GET, "/assets/none.css", StatusCode::NOT_FOUND),
        (Method::GET, "/approvals?state=nonsense&before=%00%ff", StatusCode::OK),
        (Method::GET, "/approvals/events", StatusCode::OK),
        (Method::GET, "/approvals/review", StatusCode::SEE_OTHER),
        (Method::GET, "/approvals/review?ticket=nonsense", StatusCode::BAD_REQUEST),
        (Method::PUT, "/approvals", StatusCode::METHOD_NOT_ALLOWED),
        (Method::DELETE, "/approvals/apr_1", StatusCode::METHOD_NOT_ALLOWED),
        (Method::OPTIONS, "/sign-in", StatusCode::METHOD_NOT_ALLOWED),
        (Method::HEAD, "/approvals", StatusCode::OK),
    ] {
        let page = browser.send(method.clone(), path, &[("sec-fetch-site", "same-origin")], String::new()).await;
        assert_eq!(page.status, status, "{method} {path}");
    }
    let style = browser.get("/approvals").await.html;
    let style =
        style.split("href=\"").find(|part| part.starts_with("/assets/console-")).unwrap().split('"').next().unwrap();
    let file = browser.get(style).await;
    assert_eq!(file.header(http::header::CACHE_CONTROL), Some("public, max-age=31536000, immutable"));
}
