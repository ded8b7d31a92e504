//! Which upstream is shown whose token, and how tokens are renewed.

use serde_json::json;
use servanda_upstream::CredentialLack;

use futures_util::FutureExt as _;

use super::*;
use crate::{
    grant::{UnattendedGrant, UpstreamAccess},
    testing::{
        FixedAccess, OauthTestClock, TokenServer, UnreliableNotebook, credential_request, key, login_store, shown,
    },
};

struct World {
    server: TokenServer,
    login_store: LoginStore,
    clock: OauthTestClock,
}

impl World {
    /// A server whose tokens are `t1`, `t2`, … and whose refresh tokens `r1`, `r2`, … are valid once.
    async fn new() -> Self {
        let answer = |number: usize, form: &str| {
            let expected = format!("refresh_token=r{}&", number - 1);
            if form.contains(&expected) {
                (
                    200,
                    json!({"access_token": format!("t{number}"), "token_type": "Bearer", "expires_in": 3600,
                    "refresh_token": format!("r{number}")}),
                )
            } else {
                (400, json!({"error": "invalid_grant"}))
            }
        };
        Self { server: TokenServer::start(answer).await, login_store: login_store(), clock: OauthTestClock::new() }
    }

    fn source(&self) -> PersonalSource {
        PersonalSource::new(
            self.server.terms(UnattendedGrant::Client),
            self.login_store.clone(),
            Arc::new(self.clock.clone()),
        )
    }

    async fn agree(&self, tenant: &str, principal: &str, token: &str, refresh: Option<&str>) {
        let whose = LoginKey::for_caller("crm", &Caller::named(tenant, principal));
        self.login_store.save(&whose, &self.server.login(token, refresh)).await.unwrap();
    }
}

fn rejection(status: u16, challenge: &str, rejected_before: usize) -> CredentialRejection {
    CredentialRejection { status, www_authenticate: Some(challenge.to_owned()), rejected_before }
}

#[tokio::test]
async fn t13_a_user_is_shown_with_their_own_token_and_no_other() {
    let world = World::new().await;
    let source = world.source();
    world.agree("acme", "ada", "ada-token", None).await;
    world.agree("local", "local", "own-token", None).await;
    assert_eq!(shown(source.present(&credential_request("acme", "ada")).await), "Bearer ada-token");
    let refused = source.present(&credential_request("acme", "eve")).await.unwrap_err();
    assert_eq!(refused.lack, CredentialLack::NotPermitted);
    assert_eq!(shown(Err(refused)), "acme/eve has not agreed to the use of `crm` / servanda login crm --user acme/eve");
    assert!(source.present(&credential_request("evil", "ada")).await.is_err(), "the same name of another tenant");
    let nobody = CredentialRequest { on_behalf_of: None, ..credential_request("acme", "ada") };
    assert_eq!(shown(source.present(&nobody).await), "Bearer own-token");
    assert!(world.server.forms().is_empty() && source.is_personal());
    // A logout takes effect at once.
    world.login_store.forget(&LoginKey::for_caller("crm", &Caller::named("acme", "ada"))).await.unwrap();
    assert!(source.present(&credential_request("acme", "ada")).await.is_err());
}

#[tokio::test]
async fn the_next_token_is_asked_for_once_by_all_who_need_it() {
    let world = World::new().await;
    world.agree("acme", "ada", "t0", Some("r0")).await;
    world.clock.forward(3_600_000 - crate::login::LEEWAY_MS);
    // Two processes, each with many calls.
    let sources = [world.source(), world.source()];
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..20 {
        let source = sources[number % 2].clone();
        calls.spawn(async move { shown(source.present(&credential_request("acme", "ada")).await) });
    }
    let all = calls.join_all().await;
    assert!(all.iter().all(|token| token == "Bearer t1"), "{all:?}");
    assert_eq!(world.server.forms().len(), 1);
    // The refresh token that came with it is used next.
    world.clock.forward(3_600_000);
    assert_eq!(shown(sources[1].present(&credential_request("acme", "ada")).await), "Bearer t2");
    assert_eq!(sources[0].0.refresh_locks.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn a_caller_who_goes_away_does_not_cost_the_login() {
    let world = World::new().await;
    world.agree("acme", "ada", "t0", Some("r0")).await;
    world.clock.forward(3_600_000);
    let source = world.source();
    // Polled once, so that the renewal begins, and dropped.
    let wanted = credential_request("acme", "ada");
    let mut asking = source.present(&wanted);
    std::future::poll_fn(|context| {
        let _ = asking.as_mut().poll(context);
        std::task::Poll::Ready(())
    })
    .await;
    drop(asking);
    assert_eq!(shown(source.present(&credential_request("acme", "ada")).await), "Bearer t1");
    assert_eq!(world.server.forms().len(), 1);
}

#[tokio::test]
async fn a_login_that_was_withdrawn_has_ended() {
    let world = World::new().await;
    world.agree("acme", "ada", "t0", Some("stolen")).await;
    world.clock.forward(3_600_000);
    let source = world.source();
    let expected = "the login of acme/ada at `crm` has ended / servanda login crm --user acme/ada";
    assert_eq!(shown(source.present(&credential_request("acme", "ada")).await), expected);
    assert_eq!(shown(source.present(&credential_request("acme", "ada")).await), expected);
    assert_eq!(world.server.forms().len(), 1, "what was refused is not asked for again");
}

#[tokio::test]
async fn a_server_that_does_not_answer_ends_no_login() {
    let answer = |number: usize, _: &str| match number {
        1 => (503, json!({})),
        _ => (200, json!({"access_token": "t1", "token_type": "Bearer"})),
    };
    let world = World { server: TokenServer::start(answer).await, ..World::new().await };
    world.agree("acme", "ada", "t0", Some("r0")).await;
    world.clock.forward(3_600_000);
    let source = world.source();
    let refused = source.present(&credential_request("acme", "ada")).await.unwrap_err();
    assert_eq!(refused.lack, CredentialLack::Unavailable);
    assert_eq!(shown(source.present(&credential_request("acme", "ada")).await), "Bearer t1");
}

#[tokio::test]
async fn an_upstream_that_moved_does_not_get_the_tokens() {
    let world = World::new().await;
    world.agree("acme", "ada", "t0", Some("r0")).await;
    let access = UpstreamAccess {
        url: "http://127.0.0.1:1/mcp".parse().unwrap(),
        ..world.server.terms(UnattendedGrant::Client).0.clone()
    };
    let source =
        PersonalSource::new(Arc::new(FixedAccess(access)), world.login_store.clone(), Arc::new(world.clock.clone()));
    let told = shown(source.present(&credential_request("acme", "ada")).await);
    assert!(told.starts_with("the login of acme/ada is for another address"), "{told}");
}

#[tokio::test]
async fn a_token_that_is_not_taken_is_replaced_once() {
    let world = World::new().await;
    world.agree("acme", "ada", "t0", Some("r0")).await;
    world.clock.forward(60_000);
    let (source, ada) = (world.source(), credential_request("acme", "ada"));
    assert_eq!(source.rejected(&ada, &rejection(401, "Bearer", 0)).await, Remedy::TryAgain);
    assert_eq!(shown(source.present(&ada).await), "Bearer t1");
    // Another call that showed the old token is rejected now: it need not ask again.
    assert_eq!(source.rejected(&ada, &rejection(401, "Bearer", 0)).await, Remedy::TryAgain);
    assert_eq!(world.server.forms().len(), 1);
    let again = source.rejected(&ada, &rejection(401, "Bearer scope=\"x\"", 1)).await;
    assert!(matches!(again, Remedy::GiveUp(_)), "{again:?}");
    let whose = LoginKey::for_caller("crm", &Caller::named("acme", "ada"));
    assert!(world.login_store.demand(&whose, world.clock.now()).await.unwrap().scopes.is_some());
}

#[tokio::test]
async fn scopes_that_lack_are_named_and_kept_for_the_next_login() {
    let world = World::new().await;
    world.agree("acme", "ada", "t0", Some("r0")).await;
    let (source, ada) = (world.source(), credential_request("acme", "ada"));
    let challenge = "Bearer error=\"insufficient_scope\", scope=\"write\"";
    let Remedy::GiveUp(why) = source.rejected(&ada, &rejection(403, challenge, 0)).await else { panic!() };
    assert_eq!(shown(Err(why)), "`crm` also asks acme/ada for write / servanda login crm --user acme/ada");
    let whose = LoginKey::for_caller("crm", &Caller::named("acme", "ada"));
    let wanted = world.login_store.demand(&whose, world.clock.now()).await.unwrap();
    assert_eq!(wanted.scopes.unwrap().line().as_deref(), Some("write"));
    // Requesting a scope again that was already requested does not help.
    let challenge = "Bearer error=\"insufficient_scope\", scope=\"a\"";
    let Remedy::GiveUp(why) = source.rejected(&ada, &rejection(403, challenge, 0)).await else { panic!() };
    assert!(why.to_string().contains("did not help"), "{why}");
    let Remedy::GiveUp(why) = source.rejected(&ada, &rejection(403, "Bearer", 0)).await else { panic!() };
    assert_eq!(why.to_string(), "`crm` does not let acme/ada do this");
    assert!(world.server.forms().is_empty());
}

/// A server that refuses the first request with this error code, and then issues `t2`.
async fn refusing_once(status: u16, word: &'static str) -> World {
    let answer = move |number: usize, _: &str| match number {
        1 => (status, json!({"error": word})),
        _ => (200, json!({"access_token": format!("t{number}"), "token_type": "Bearer", "expires_in": 3600})),
    };
    World { server: TokenServer::start(answer).await, ..World::new().await }
}

#[tokio::test]
async fn a_mistake_in_the_configuration_ends_no_login() {
    for (status, word) in [(401, "invalid_client"), (400, "unauthorized_client"), (400, "invalid_scope"), (400, "x")] {
        let world = refusing_once(status, word).await;
        world.agree("acme", "ada", "t0", Some("r0")).await;
        world.clock.forward(3_600_000);
        let source = world.source();
        let refused = source.present(&credential_request("acme", "ada")).await.unwrap_err();
        assert_eq!(refused.lack, CredentialLack::Unavailable, "{word}: {refused}");
        let is_final = word != "x";
        if is_final {
            let at_once = source.present(&credential_request("acme", "ada")).await.unwrap_err();
            assert_eq!((at_once, world.server.forms().len()), (refused, 1), "{word}: it is not asked with every call");
            world.clock.forward(PAUSE_MS);
        }
        assert_eq!(shown(source.present(&credential_request("acme", "ada")).await), "Bearer t2", "{word}");
    }
}

/// Settings that are unavailable the first time, as when the secret store is unreachable.
#[derive(Debug)]
struct LateTerms(Arc<FixedAccess>, std::sync::atomic::AtomicBool);

impl UpstreamAccessSource for LateTerms {
    fn access(&self) -> PortFuture<'_, Result<UpstreamAccess, MissingCredential>> {
        if self.1.swap(true, std::sync::atomic::Ordering::SeqCst) {
            return self.0.access();
        }
        Box::pin(std::future::ready(Err(MissingCredential::unavailable("the store is away"))))
    }

    fn url(&self) -> &reqwest::Url {
        self.0.url()
    }
}

#[tokio::test]
async fn a_failed_renewal_does_not_keep_others_waiting() {
    let world = World::new().await;
    world.agree("acme", "ada", "t0", Some("r0")).await;
    world.clock.forward(3_600_000);
    let terms = Arc::new(LateTerms(world.server.terms(UnattendedGrant::Client), false.into()));
    let source = PersonalSource::new(terms, world.login_store.clone(), Arc::new(world.clock.clone()));
    assert!(source.present(&credential_request("acme", "ada")).await.is_err());
    // The clock does not advance: a claim that was left behind would never expire.
    assert_eq!(shown(source.present(&credential_request("acme", "ada")).await), "Bearer t1");
}

/// Does something as soon as a token is requested, before it is issued.
async fn while_asking(world: World, meanwhile: impl Fn(&LoginStore) + Send + Sync + 'static) -> World {
    let login_store = world.login_store.clone();
    let answer = move |number: usize, _: &str| {
        meanwhile(&login_store);
        (200, json!({"access_token": format!("t{number}"), "token_type": "Bearer", "expires_in": 3600}))
    };
    World { server: TokenServer::start(answer).await, ..world }
}

#[tokio::test]
async fn t13_a_user_who_logs_out_during_a_renewal_stays_logged_out() {
    let ada = || LoginKey::for_caller("crm", &Caller::named("acme", "ada"));
    // The notebook of tests answers at once.
    let forget = move |login_store: &LoginStore| login_store.forget(&ada()).now_or_never().unwrap().unwrap();
    let world = while_asking(World::new().await, forget).await;
    world.agree("acme", "ada", "t0", Some("r0")).await;
    world.clock.forward(3_600_000);
    let source = world.source();
    let told = shown(source.present(&credential_request("acme", "ada")).await);
    assert!(told.starts_with("acme/ada has not agreed"), "{told}");
    assert!(world.login_store.login(&ada(), world.clock.now()).await.unwrap().is_none());
    assert_eq!(world.server.forms().len(), 1);
}

#[tokio::test]
async fn a_login_that_was_made_meanwhile_is_not_written_over() {
    let ada = || LoginKey::for_caller("crm", &Caller::named("acme", "ada"));
    let anew = Arc::new(Mutex::new(None::<Login>));
    let kept = Arc::clone(&anew);
    let meanwhile = move |login_store: &LoginStore| {
        let login = kept.lock().unwrap().clone().unwrap();
        login_store.save(&ada(), &login).now_or_never().unwrap().unwrap();
    };
    let world = while_asking(World::new().await, meanwhile).await;
    world.agree("acme", "ada", "t0", Some("r0")).await;
    world.clock.forward(3_600_000);
    let mut made_now = world.server.login("made-anew", Some("other-refresh"));
    (made_now.issued_at, made_now.expires_at) = (world.clock.now(), None);
    *anew.lock().unwrap() = Some(made_now);
    assert_eq!(shown(world.source().present(&credential_request("acme", "ada")).await), "Bearer made-anew");
    assert_eq!(shown(world.source().present(&credential_request("acme", "ada")).await), "Bearer made-anew");
}

#[tokio::test]
async fn a_token_that_was_issued_is_kept_as_soon_as_the_store_is_back() {
    let world = World::new().await;
    let notebook = Arc::new(UnreliableNotebook::default());
    let login_store = LoginStore::new(Arc::<UnreliableNotebook>::clone(&notebook), key());
    let world = World { login_store, ..world };
    world.agree("acme", "ada", "t0", Some("r0")).await;
    world.clock.forward(3_600_000);
    notebook.writes_refused.store(2, std::sync::atomic::Ordering::SeqCst);
    let source = world.source();
    assert_eq!(shown(source.present(&credential_request("acme", "ada")).await), "Bearer t1");
    assert_eq!(shown(source.present(&credential_request("acme", "ada")).await), "Bearer t1");
    assert_eq!(world.server.forms().len(), 1);
}

#[tokio::test]
async fn a_token_that_lives_for_seconds_is_shown_for_half_of_them() {
    let answer = |number: usize, _: &str| {
        (
            200,
            json!({"access_token": format!("t{number}"), "token_type": "Bearer", "expires_in": 10,
            "refresh_token": format!("r{number}")}),
        )
    };
    let world = World { server: TokenServer::start(answer).await, ..World::new().await };
    world.agree("acme", "ada", "t0", Some("r0")).await;
    world.clock.forward(3_600_000);
    let source = world.source();
    assert_eq!(shown(source.present(&credential_request("acme", "ada")).await), "Bearer t1");
    world.clock.forward(4_999);
    assert_eq!(shown(source.present(&credential_request("acme", "ada")).await), "Bearer t1");
    world.clock.forward(1);
    assert_eq!(shown(source.present(&credential_request("acme", "ada")).await), "Bearer t2");
}
