//! The pages of effects: what people see, who settles, and what a settlement is refused for.

use http::{Method, StatusCode};
use serde_json::json;
use servanda_contract::{Digest, digest::DigestDomain, tool::Presence};
use servanda_effects::effect::{
    BeginMode, BeginRequest, DispatchEnd, Effect, EffectEvent, EffectState, EffectTarget, ManualSettlement, OwnerId,
};
use servanda_engine::{
    approvals::Person,
    oversight::{PersonSettlement, SettlementError},
};

use crate::{
    browser::{Browser, FoundForm, Page},
    fixture::{
        Gateway, Users,
        operating::{WantedEffect, unknown},
    },
};

const HAPPENED: [(&str, &str); 2] = [("outcome", "happened"), ("evidence", "seen on the statement")];

fn path(effect: &Effect) -> String {
    format!("/effects/{}", effect.id)
}

fn settle_form(page: &Page) -> FoundForm {
    page.forms().into_iter().find(|form| form.action.starts_with("/effects/")).expect("a form that settles")
}

fn can_settle(page: &Page) -> bool {
    page.forms().iter().any(|form| form.action.starts_with("/effects/"))
}

fn person(tenant: &str, principal: &str) -> Person {
    Person {
        tenant: tenant.to_owned(),
        principal: principal.to_owned(),
        groups: std::collections::BTreeSet::new(),
        presence: Presence::Session,
        credential: "console:key:test".to_owned(),
    }
}

#[tokio::test]
async fn an_operator_reads_what_is_known_and_settles() {
    let gateway = Gateway::new(Users::Many);
    let effect = gateway.effect(WantedEffect::default()).await;
    let mut opal = Browser::with_key(&gateway, "opal", &[]).await;
    let list = opal.get("/effects").await;
    for shown in ["company__void_invoice", "billing-agent for ada", "outcome unknown", "the server was lost"] {
        assert!(list.html.contains(shown), "{shown}: {}", list.html);
    }
    let page = opal.get(&path(&effect)).await;
    for shown in [
        "company__void_invoice",
        "whether it happened is not known",
        "acme/ada",
        "“order-1”, which the client gave",
        "once, ",
        "svk-order-1",
        "/invoice_id",
        "inv_1007",
        "N: the server neither recognises a key nor can be asked",
        "invoice/order-1",
        effect.call_id.as_str(),
    ] {
        assert!(page.html.contains(shown), "{shown}: {}", page.html);
    }
    let answer = opal.submit(&settle_form(&page), &HAPPENED).await;
    assert_eq!((answer.status, answer.location()), (StatusCode::SEE_OTHER, path(&effect).as_str()));
    let settled = gateway.effect_now(&effect.id).await;
    assert_eq!(settled.state, EffectState::Completed);
    let by_hand = settled.settlement.unwrap();
    assert_eq!((by_hand.by.as_str(), by_hand.evidence.as_str()), ("acme/opal", "seen on the statement"));
    let page = opal.get(&path(&effect)).await;
    assert!(page.html.contains("acme/opal settled it") && !can_settle(&page), "{}", page.html);
    assert!(page.html.contains("They are not kept"), "{}", page.html);
    assert!(opal.get("/effects").await.html.contains("Nothing waits to be settled"));
    assert!(opal.get("/effects?state=all").await.html.contains("company__void_invoice"));
}

#[tokio::test]
async fn what_did_not_happen_may_be_tried_again() {
    let gateway = Gateway::new(Users::One);
    let own = || WantedEffect { tenant: "local", principal: "local".to_owned(), ..WantedEffect::default() };
    let effect = gateway.effect(own()).await;
    let mut browser = Browser::single_user(&gateway).await;
    let form = settle_form(&browser.get(&path(&effect)).await);
    let fields = [("outcome", "not_happened"), ("evidence", " the log has nothing ")];
    assert_eq!(browser.submit(&form, &fields).await.status, StatusCode::SEE_OTHER);
    let settled = gateway.effect_now(&effect.id).await;
    assert_eq!(
        (settled.state, settled.settlement.unwrap().evidence.as_str()),
        (EffectState::FailedRetryable, "the log has nothing")
    );
}

#[tokio::test]
async fn people_see_their_tenant_or_what_their_own_agents_did() {
    let gateway = Gateway::new(Users::Many);
    let of_ada = gateway.effect(WantedEffect::default()).await;
    let of_otto =
        gateway.effect(WantedEffect { principal: "otto".to_owned(), key: "order-2", ..WantedEffect::default() }).await;
    let foreign = WantedEffect { tenant: "globex", principal: "gus".to_owned(), ..WantedEffect::default() };
    let of_gus = gateway.effect(foreign).await;
    for (who, sees) in [
        ("acme/vera", [true, true, false]),
        ("acme/opal", [true, true, false]),
        ("acme/otto", [false, true, false]),
        ("globex/gil", [false, false, true]),
    ] {
        let mut browser = Browser::with_key(&gateway, who, &[]).await;
        let list = browser.get("/effects?state=all").await.html;
        for (effect, sees) in [&of_ada, &of_otto, &of_gus].into_iter().zip(sees) {
            assert_eq!(list.contains(effect.id.as_str()), sees, "{who}");
            let status = browser.get(&path(effect)).await.status;
            assert_eq!(status, if sees { StatusCode::OK } else { StatusCode::NOT_FOUND }, "{who}");
        }
    }
}

/// The engine decides by the person, whatever form was sent.
#[tokio::test]
async fn only_operators_of_the_tenant_settle() {
    let gateway = Gateway::new(Users::Many);
    let effect = gateway.effect(WantedEffect::default()).await;
    for (tenant, who, expected) in [
        ("acme", "vera", SettlementError::NotPermitted),
        ("acme", "ben", SettlementError::NotPermitted),
        ("acme", "bree", SettlementError::NotPermitted),
        ("acme", "ada", SettlementError::NotPermitted),
        ("acme", "otto", SettlementError::NoEffect(effect.id.clone())),
        ("globex", "gil", SettlementError::NoEffect(effect.id.clone())),
    ] {
        let settlement = PersonSettlement {
            effect: effect.id.clone(),
            epoch: effect.epoch,
            completed: true,
            evidence: "seen".to_owned(),
        };
        let settled = gateway.engine.oversight().settle(&person(tenant, who), settlement).await;
        assert_eq!(settled.unwrap_err(), expected, "{tenant}/{who}");
    }
    for who in ["vera", "ben"] {
        let page = Browser::with_key(&gateway, who, &[]).await.get(&path(&effect)).await;
        assert!(page.html.contains("People with the role “operator” settle it") && !can_settle(&page), "{who}");
    }
    let mut gil = Browser::with_key(&gateway, "globex/gil", &[]).await;
    let own = WantedEffect { tenant: "globex", principal: "gus".to_owned(), ..WantedEffect::default() };
    let mut form = settle_form(&gil.get(&path(&gateway.effect(own).await)).await);
    form.action = path(&effect);
    assert_eq!(gil.submit(&form, &HAPPENED).await.status, StatusCode::FORBIDDEN, "the token is of another effect");
    assert_eq!(gateway.effect_now(&effect.id).await, effect);
}

#[tokio::test]
async fn only_the_form_of_the_page_settles() {
    let gateway = Gateway::new(Users::Many);
    let effect = gateway.effect(WantedEffect::default()).await;
    let (mut opal, mut cleo) =
        (Browser::with_key(&gateway, "opal", &[]).await, Browser::with_key(&gateway, "cleo", &[]).await);
    let form = settle_form(&opal.get(&path(&effect)).await);
    assert_eq!(cleo.submit(&form, &HAPPENED).await.status, StatusCode::FORBIDDEN, "another session's form");
    let own = form.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let fields: Vec<_> = own.chain(HAPPENED).collect();
    let without =
        |name: &str| -> Vec<(&str, &str)> { fields.iter().copied().filter(|(own, _)| *own != name).collect() };
    for headers in [&[("sec-fetch-site", "cross-site")][..], &[("origin", "http://127.0.0.1:9999")], &[]] {
        let page = opal.post_with(&path(&effect), &fields, headers).await;
        assert_eq!(page.status, StatusCode::FORBIDDEN, "{headers:?}");
    }
    let long = "x".repeat(2_001);
    for (wrong, status) in [
        (without("form_token"), StatusCode::FORBIDDEN),
        (without("epoch"), StatusCode::BAD_REQUEST),
        (without("outcome"), StatusCode::BAD_REQUEST),
        (without("evidence"), StatusCode::BAD_REQUEST),
        ([without("evidence"), vec![("evidence", "  ")]].concat(), StatusCode::BAD_REQUEST),
        ([without("evidence"), vec![("evidence", "a\nb")]].concat(), StatusCode::BAD_REQUEST),
        ([without("evidence"), vec![("evidence", &long)]].concat(), StatusCode::BAD_REQUEST),
        ([without("outcome"), vec![("outcome", "yes")]].concat(), StatusCode::BAD_REQUEST),
        ([fields.clone(), vec![("outcome", "not_happened")]].concat(), StatusCode::BAD_REQUEST),
    ] {
        assert_eq!(opal.post(&path(&effect), &wrong).await.status, status, "{wrong:?}");
    }
    let query = "?outcome=happened&evidence=seen&epoch=1";
    opal.get(&format!("{}{query}", path(&effect))).await;
    let put = opal.send(Method::PUT, &path(&effect), &[("sec-fetch-site", "same-origin")], String::new()).await;
    assert_eq!(put.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(gateway.effect_now(&effect.id).await, effect, "nothing of that settled it");
    assert_eq!(opal.submit(&form, &HAPPENED).await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn an_old_form_settles_nothing() {
    let gateway = Gateway::new(Users::Many);
    let effect = gateway.effect(WantedEffect::default()).await;
    let mut opal = Browser::with_key(&gateway, "opal", &[]).await;
    let form = settle_form(&opal.get(&path(&effect)).await);
    // Another operator says that it did not happen, the agent calls again, and that is lost too.
    let (by, evidence) = ("acme/cleo".to_owned(), "the log".to_owned());
    let by_hand = ManualSettlement { epoch: None, completed: false, by, evidence };
    let target = EffectTarget::Id(effect.id.clone());
    gateway.effect_event(target.clone(), EffectEvent::SettleByHand(by_hand)).await;
    let page = opal.submit(&form, &HAPPENED).await;
    assert_eq!(page.status, StatusCode::CONFLICT);
    assert!(page.html.contains("This is settled already") && page.html.contains("acme/cleo settled it"));
    let again = BeginRequest {
        id: servanda_effects::effect::EffectId::new(),
        key: effect.key.clone(),
        request: effect.request,
        class: effect.class,
        owner: OwnerId::from("own_other".to_owned()),
        call_id: servanda_contract::CallId::new(),
        order: effect.order.clone(),
        mode: BeginMode::Dispatch,
        continues: None,
    };
    let sent = gateway.effect_event(EffectTarget::Key(effect.key.clone()), EffectEvent::Begin(Box::new(again))).await;
    let lost = gateway.effect_event(target, EffectEvent::Settle(sent.claim(), unknown())).await;
    assert_eq!((lost.state, &lost.id), (EffectState::OutcomeUnknown, &effect.id));
    let page = opal.submit(&form, &HAPPENED).await;
    assert_eq!(page.status, StatusCode::CONFLICT);
    assert!(page.html.contains("The effect went on since you looked"), "{}", page.html);
    assert_eq!(gateway.effect_now(&effect.id).await, lost);
    let present = settle_form(&opal.get(&path(&effect)).await);
    assert_eq!(opal.submit(&present, &HAPPENED).await.status, StatusCode::SEE_OTHER);
    let page = opal.submit(&present, &HAPPENED).await;
    assert!(page.status == StatusCode::CONFLICT && page.html.contains("This is settled already"));
}

#[tokio::test]
async fn arguments_are_shown_to_those_who_may_see_them() {
    let gateway = Gateway::new(Users::Many);
    let plain = gateway.effect(WantedEffect::default()).await;
    let other = Digest::compute(DigestDomain::Contract, &[b"an earlier version"]);
    let earlier = WantedEffect { contract: Some(other), key: "order-2", ..WantedEffect::default() };
    let earlier = gateway.effect(earlier).await;
    let gone = WantedEffect { tool: "company.gone", key: "order-3", ..WantedEffect::default() };
    let gone = gateway.effect(gone).await;
    for (who, expected) in [("opal", [true, false, false, false]), ("cleo", [true, true, true, true])] {
        let mut browser = Browser::with_key(&gateway, who, &[]).await;
        let [invoice, note, earlier_invoice, earlier_note] = expected;
        let html = browser.get(&path(&plain)).await.html;
        let value = |html: &str, text: &str| html.contains(&format!("<code class=\"value\">{text}</code>"));
        assert_eq!((value(&html, "inv_1007"), value(&html, "for Ada")), (invoice, note), "{who}");
        assert_eq!(html.contains("masked for you"), !note, "{who}");
        let html = browser.get(&path(&earlier)).await.html;
        assert_eq!((value(&html, "inv_1007"), value(&html, "for Ada")), (earlier_invoice, earlier_note), "{who}");
        assert!(!html.contains("for Ada") || earlier_note, "{who}");
        let html = browser.get(&path(&gone)).await.html;
        assert!(html.contains("not loaded any more") && !html.contains("inv_1007"), "{who}: {html}");
    }
}

#[tokio::test]
async fn hostile_names_and_texts_are_data() {
    let gateway = Gateway::new(Users::Many);
    let effect = gateway
        .effect(WantedEffect {
            principal: "a\u{200b}da".to_owned(),
            agent: Some("<script>bot</script>\u{2066}".to_owned()),
            arguments: json!({"invoice_id": "inv\u{202e}1", "reason": "<b>x</b>", "note": "n"}),
            key: "k<i>1</i>",
            end: Some(DispatchEnd::Unknown("lost \u{202e}<img src=x>\nsecond line".to_owned())),
            ..WantedEffect::default()
        })
        .await;
    let mut opal = Browser::with_key(&gateway, "opal", &[]).await;
    let form = settle_form(&opal.get(&path(&effect)).await);
    for (at, number) in [("/effects".to_owned(), 0), (path(&effect), 1)] {
        let html = opal.get(&at).await.html;
        for hidden in ["\u{202e}", "\u{200b}", "\u{2066}", "<script>bot", "<img src=x", "<b>x</b>", "<i>1</i>"] {
            assert!(!html.contains(hidden), "{at}: {hidden}");
        }
        for shown in ["a&#60;U+200B&#62;da", "lost &#60;U+202E&#62;&#60;img src=x&#62;"] {
            assert!(html.contains(shown), "{at}: {shown}: {html}");
        }
        assert!(number == 0 || html.contains("inv&#60;U+202E&#62;1"), "{html}");
    }
    let fields = [("outcome", "happened"), ("evidence", "seen \u{202e}<b>there</b>")];
    assert_eq!(opal.submit(&form, &fields).await.status, StatusCode::SEE_OTHER);
    let html = opal.get(&path(&effect)).await.html;
    assert!(html.contains("seen &#60;U+202E&#62;&#60;b&#62;there&#60;/b&#62;"), "{html}");
}

fn next_address(page: &Page) -> String {
    let older = page.html.split("<a href=\"").find(|link| link.contains("rel=\"next\"")).unwrap();
    older.split('"').next().unwrap().replace("&#38;", "&").replace("&amp;", "&")
}

#[tokio::test]
async fn pages_follow_each_other_by_the_last_effect() {
    let gateway = Gateway::new(Users::Many);
    for number in 0..60_usize {
        let key: &'static str = Box::leak(format!("order-{number}").into_boxed_str());
        gateway.effect(WantedEffect { key, ..WantedEffect::default() }).await;
    }
    gateway.effect(WantedEffect { key: "open", end: None, ..WantedEffect::default() }).await;
    let mut opal = Browser::with_key(&gateway, "opal", &[]).await;
    let rows = |page: &Page| page.html.matches("data-row>").count();
    let first = opal.get("/effects").await;
    assert_eq!(rows(&first), 50);
    let second = opal.get(&next_address(&first)).await;
    assert_eq!(rows(&second), 10);
    assert!(second.html.contains("Newest") && !second.html.contains("rel=\"next\""));
    assert_eq!(rows(&opal.get("/effects?state=under_way").await), 1);
    for odd in ["%ff", "%00", "%27"] {
        assert_eq!(
            rows(&opal.get(&format!("/effects?state=nonsense&before={odd}")).await),
            50,
            "no id: the first page"
        );
    }
    // The effects of other tenants are not looked through. Of those of other users, a page looks through a bounded number.
    let many = Gateway::new(Users::Many);
    let of_gus = WantedEffect { tenant: "globex", principal: "gus".to_owned(), ..WantedEffect::default() };
    let of_otto = WantedEffect { principal: "otto".to_owned(), ..WantedEffect::default() };
    let (of_gus, of_otto) = (many.effect(of_gus).await, many.effect(of_otto).await);
    for number in 0..2_100_usize {
        let key: &'static str = Box::leak(format!("order-{number}").into_boxed_str());
        many.effect(WantedEffect { key, ..WantedEffect::default() }).await;
    }
    let page = Browser::with_key(&many, "globex/gil", &[]).await.get("/effects").await;
    assert!(rows(&page) == 1 && page.html.contains(of_gus.id.as_str()), "{}", page.html);
    let mut otto = Browser::with_key(&many, "otto", &[]).await;
    let mut page = otto.get("/effects").await;
    assert!(rows(&page) == 0 && page.html.contains("looks further"), "{}", page.html);
    while page.html.contains("rel=\"next\"") {
        page = otto.get(&next_address(&page)).await;
    }
    assert!(rows(&page) == 1 && page.html.contains(of_otto.id.as_str()), "{}", page.html);
    assert!(opal.get("/effects?state=unknown&before=eff_0").await.html.contains("There are no older effects."));
}
