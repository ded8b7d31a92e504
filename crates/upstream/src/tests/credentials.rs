//! What servers are shown: whose it is, what happens when they do not take it, and that nobody sees it again.

use std::{
    collections::BTreeSet,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use servanda_authority::Secret;
use servanda_contract::Caller;
use servanda_effects::PortFuture;

use super::*;
use crate::{
    CredentialLack, CredentialRejection, CredentialRequest, CredentialSource, MissingCredential, PresentedCredentials,
    REJECTIONS_MAX, Remedy, RequestUser,
};

/// Presents one token after the other, and counts what it is asked.
#[derive(Debug, Default)]
struct Tokens {
    all: Vec<&'static str>,
    at: AtomicUsize,
    rejections: Mutex<Vec<CredentialRejection>>,
    gives_up: bool,
    personal: bool,
}

impl CredentialSource for Tokens {
    fn present<'a>(
        &'a self,
        _: &'a CredentialRequest,
    ) -> PortFuture<'a, Result<PresentedCredentials, MissingCredential>> {
        Box::pin(async {
            let token = self.all.get(self.at.load(Ordering::SeqCst));
            let token = token
                .ok_or_else(|| MissingCredential::unavailable("no token is left").with_hint("servanda login x"))?;
            Ok(PresentedCredentials::header("Authorization", Secret::from(format!("Bearer {token}"))))
        })
    }

    fn rejected<'a>(&'a self, _: &'a CredentialRequest, rejection: &'a CredentialRejection) -> PortFuture<'a, Remedy> {
        Box::pin(async {
            self.rejections.lock().unwrap().push(rejection.clone());
            if self.gives_up {
                return Remedy::GiveUp(
                    MissingCredential::not_permitted("nobody logged in").with_hint("servanda login x"),
                );
            }
            self.at.fetch_add(1, Ordering::SeqCst);
            Remedy::TryAgain
        })
    }

    fn is_personal(&self) -> bool {
        self.personal
    }
}

/// Shows every user a secret of their own, as a variable and as an argument.
#[derive(Debug)]
struct Personal;

impl CredentialSource for Personal {
    fn present<'a>(
        &'a self,
        credential_request: &'a CredentialRequest,
    ) -> PortFuture<'a, Result<PresentedCredentials, MissingCredential>> {
        Box::pin(async {
            let Some(caller) = &credential_request.on_behalf_of else {
                return Err(MissingCredential::not_permitted("nobody in particular"));
            };
            let secret = Secret::from(format!("secret-of-{}", caller.principal));
            let environment = vec![("PERSONAL".to_owned(), secret.clone())];
            Ok(PresentedCredentials {
                environment,
                arguments: vec![("/api_key".to_owned(), secret)],
                ..PresentedCredentials::default()
            })
        })
    }

    fn rejected<'a>(&'a self, _: &'a CredentialRequest, _: &'a CredentialRejection) -> PortFuture<'a, Remedy> {
        Box::pin(async { Remedy::GiveUp(MissingCredential::unavailable("no")) })
    }

    fn is_personal(&self) -> bool {
        true
    }

    fn argument_pointers(&self) -> Vec<String> {
        vec!["/api_key".to_owned()]
    }
}

fn showing(url: &str, source: &Arc<Tokens>) -> Upstream {
    let transport = Transport::Http { url: url.to_owned(), headers: BTreeMap::new() };
    let spec = UpstreamSpec { id: UpstreamName::from("fixture"), transport, limits: limits() };
    Upstream::with_credentials(spec, notebook(), vec![Arc::clone(source) as _])
}

fn user(tenant: &str, principal: &str) -> UpstreamRequester {
    let caller = Arc::new(Caller::named(tenant, principal));
    UpstreamRequester { on_behalf_of: Some(RequestUser::Recorded(caller)), ..UpstreamRequester::gateway() }
}

async fn calls(upstream: &Upstream) -> usize {
    seen(upstream).await.iter().filter(|method| *method == "tools/call").count()
}

#[tokio::test]
async fn a_request_that_is_not_let_in_is_made_again_with_what_the_source_has_else() {
    for traits in ["modern,token=good-token-3", "legacy,token=good-token-3"] {
        let server = serve(traits).await;
        let source = Arc::new(Tokens { all: vec!["bad-token-1", "bad-token-2", "good-token-3"], ..Tokens::default() });
        let upstream = showing(&server.url, &source);
        echoes(&upstream).await;
        // Twice refused, once made; and the one that asks.
        assert_eq!(calls(&upstream).await, 4, "{traits}");
        let rejections = source.rejections.lock().unwrap();
        let before: Vec<usize> = rejections.iter().map(|rejection| rejection.rejected_before).collect();
        assert_eq!(before, [0, 1]);
        assert!(
            rejections
                .iter()
                .all(|one| one.status == 401 && one.www_authenticate.as_deref() == Some("Bearer scope=\"a b\""))
        );
    }
}

#[tokio::test]
async fn a_source_is_asked_a_bounded_number_of_times() {
    let server = serve("modern,token=never").await;
    let source = Arc::new(Tokens { all: vec!["bad-token"; 100], ..Tokens::default() });
    let upstream = showing(&server.url, &source);
    let failure =
        failure(upstream.call_tool("echo", &Bytes::from_static(b"{}"), EffectClass::N, options(ANSWER_WAIT_MAX)).await);
    assert!(matches!(&failure, PerformFailure::HttpStatus { status: 401, .. }), "{failure}");
    assert!(!failure.to_string().contains("bad-token"), "{failure}");
    assert_eq!(source.rejections.lock().unwrap().len(), REJECTIONS_MAX);
}

#[tokio::test]
async fn what_cannot_be_shown_is_a_failure_of_its_own_and_nothing_was_done() {
    let server = serve("modern,token=good-token").await;
    let source = Arc::new(Tokens { all: vec!["bad-token"], gives_up: true, ..Tokens::default() });
    let upstream = showing(&server.url, &source);
    let rejected = failure(call(&upstream, "echo").await);
    assert!(matches!(&rejected, PerformFailure::NotLetIn { status: 401, .. }), "{rejected}");
    let lack = rejected.lack().unwrap();
    assert_eq!((lack.lack, lack.hint.as_deref()), (CredentialLack::NotPermitted, Some("servanda login x")));
    assert!(rejected.provably_not_executed());

    // Nothing to show at all: not even the handshake is made.
    let nothing = Arc::new(Tokens::default());
    let upstream = showing(&server.url, &nothing);
    let called = call(&upstream, "echo").await;
    assert!(!called.sent);
    let lacking = failure(called);
    assert!(matches!(&lacking, PerformFailure::NotPresented(lack) if lack.told == "no token is left"), "{lacking}");
    // A value that could not be kept out of answers is not sent.
    let short = Arc::new(Tokens { all: vec!["\u{7}"], ..Tokens::default() });
    assert!(matches!(failure(call(&showing(&server.url, &short), "echo").await), PerformFailure::NotPresented(_)));
}

#[tokio::test]
async fn a_process_that_was_shown_one_users_secret_serves_nobody_else() {
    let upstream = Upstream::with_credentials(stdio_spec(&["legacy"], limits()), notebook(), vec![Arc::new(Personal)]);
    let users = [user("acme", "ana"), user("acme", "bo"), user("other", "ana")];
    let mut pids = BTreeSet::new();
    for one in &users {
        let first = text(call_with(&upstream, "pid", "{}", options_for(one)).await);
        let again = UpstreamRequester { capabilities: ClientCapabilities::none(), ..one.clone() };
        assert_eq!(text(call_with(&upstream, "pid", "{}", options_for(&again)).await), first);
        pids.insert(first);
        assert!(upstream.has_own_connection(one));
    }
    assert_eq!(pids.len(), users.len(), "{pids:?}");
    // The gateway itself is nobody's guest, and gets none of theirs.
    let gateway = failure(call(&upstream, "pid").await);
    assert!(matches!(&gateway, PerformFailure::NotPresented(_)), "{gateway}");
    // The secret is in the environment and among the arguments, and comes back in neither.
    let environment = text(call_with(&upstream, "environment", "{}", options_for(&users[0])).await);
    assert!(environment.contains("PERSONAL") && environment.contains("[redacted]"), "{environment}");
    let echoed = text(call_with(&upstream, "echo", r#"{"x":1}"#, options_for(&users[0])).await);
    assert_eq!(echoed, r#"{"x":1,"api_key":"[redacted]"}"#);
    let own = call_with(&upstream, "echo", r#"{"api_key":"mine"}"#, options_for(&users[0])).await;
    assert!(matches!(failure(own), PerformFailure::NotPresented(lack) if lack.told.contains("/api_key")));
    upstream.shutdown().await;
}

#[tokio::test]
async fn t13_nobody_hears_of_changes_by_the_gateways_own_credential() {
    let server = serve("modern,token=good-token").await;
    let source = Arc::new(Tokens { all: vec!["good-token"], personal: true, ..Tokens::default() });
    let upstream = showing(&server.url, &source);
    let ada = user("acme", "ada");
    let deadline = Instant::now() + ANSWER_WAIT_MAX;
    assert!(upstream.watch_on_own_connection(&ada, "a://1", deadline).await.unwrap().is_none());
    for refused in [upstream.watch("a://1", deadline).await, upstream.watch_task("task", deadline).await] {
        assert!(matches!(&refused, Err(PerformFailure::Rejected { code: -32601, .. })), "{refused:?}");
    }
    upstream.shutdown().await;
}
