//! Which answers are kept, for whom, and until when.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use servanda_contract::{Caller, Digest, digest::DigestDomain};

use super::{BYTES_MAX, Cache, CacheScope, CacheableRead};

fn caller(tenant: &str, principal: &str) -> Caller {
    Caller::named(tenant, principal)
}

fn read(scope: CacheScope, request: &str, resources: &[&str]) -> CacheableRead {
    CacheableRead {
        scope,
        request: Digest::compute(DigestDomain::Proposal, &[request.as_bytes()]),
        upstream: Arc::from("bank"),
        resources: resources.iter().map(|&name| name.to_owned()).collect(),
        ttl_ms: 60_000,
    }
}

fn ada() -> CacheScope {
    CacheScope::for_caller(&caller("acme", "ada"), false)
}

fn keep(cache: &Cache, read: CacheableRead) {
    let under_way = cache.find(read).expect_err("it is not there yet");
    cache.store(*under_way, Bytes::from_static(b"answer"));
}

fn has(cache: &Cache, read: CacheableRead) -> bool {
    cache.find(read).is_ok()
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_kept_for_its_time() {
    let cache = Cache::default();
    keep(&cache, read(ada(), "a", &[]));
    assert!(has(&cache, read(ada(), "a", &[])) && !has(&cache, read(ada(), "b", &[])));
    tokio::time::advance(Duration::from_mins(1)).await;
    assert!(!has(&cache, read(ada(), "a", &[])));
    let endless = CacheableRead { ttl_ms: u64::MAX, ..read(ada(), "a", &[]) };
    keep(&cache, endless.clone());
    tokio::time::advance(Duration::from_hours(1)).await;
    assert!(!has(&cache, endless), "an hour at the most");
    keep(&cache, CacheableRead { ttl_ms: 0, ..read(ada(), "c", &[]) });
    assert!(!has(&cache, read(ada(), "c", &[])));
}

#[tokio::test]
async fn a_private_answer_is_for_one_principal_and_a_shared_one_stays_in_its_tenant() {
    let cache = Cache::default();
    keep(&cache, read(ada(), "a", &[]));
    let others = [("acme", "bob", false), ("acme", "ada", true), ("other", "ada", false)];
    for (tenant, principal, shared) in others {
        assert!(
            !has(&cache, read(CacheScope::for_caller(&caller(tenant, principal), shared), "a", &[])),
            "{tenant} {principal}"
        );
    }
    keep(&cache, read(CacheScope::for_caller(&caller("acme", "ada"), true), "b", &[]));
    assert!(has(&cache, read(CacheScope::for_caller(&caller("acme", "bob"), true), "b", &[])));
    assert!(!has(&cache, read(CacheScope::for_caller(&caller("other", "bob"), true), "b", &[])));
}

#[tokio::test]
async fn what_may_have_changed_is_given_up() {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let table = [
        // what was read, what changed, whether it is still there
        (&["invoice/1"][..], &["invoice/2"][..], true),
        (&["invoice/1"], &["invoice/1"], false),
        (&["invoice/1"], &["invoice/*"], false),
        (&["invoice/1"], &[], false),
        (&[], &["customer/7"], false),
    ];
    for (reads, changes, expected) in table {
        let cache = Cache::default();
        keep(&cache, read(ada(), "a", reads));
        cache.invalidate(&Arc::from("elsewhere"), &[]);
        assert!(has(&cache, read(ada(), "a", reads)), "another upstream changes nothing here");
        cache.invalidate(&Arc::from("bank"), &names(changes));
        assert_eq!(has(&cache, read(ada(), "a", reads)), expected, "{reads:?} {changes:?}");
    }
}

#[tokio::test]
async fn what_changes_while_it_is_read_is_not_kept() {
    let cache = Cache::default();
    let under_way = cache.find(read(ada(), "a", &["invoice/1"])).unwrap_err();
    cache.invalidate(&Arc::from("bank"), &["invoice/2".to_owned()]);
    cache.store(*under_way, Bytes::from_static(b"old"));
    assert!(!has(&cache, read(ada(), "a", &["invoice/1"])));
}

#[tokio::test]
async fn it_is_bounded_and_the_oldest_goes_first() {
    let cache = Cache::default();
    let large = Bytes::from(vec![0; BYTES_MAX / 16]);
    for number in 0..17 {
        let under_way = cache.find(read(ada(), &number.to_string(), &[])).unwrap_err();
        cache.store(*under_way, large.clone());
    }
    assert!(!has(&cache, read(ada(), "0", &[])) && has(&cache, read(ada(), "1", &[])));
    let under_way = cache.find(read(ada(), "too large", &[])).unwrap_err();
    cache.store(*under_way, Bytes::from(vec![0; BYTES_MAX / 16 + 1]));
    assert!(!has(&cache, read(ada(), "too large", &[])));
}

#[tokio::test]
async fn another_world_begins_with_nothing() {
    let cache = Cache::default();
    keep(&cache, read(ada(), "a", &[]));
    let under_way = cache.find(read(ada(), "b", &[])).unwrap_err();
    cache.clear();
    cache.store(*under_way, Bytes::from_static(b"of the old world"));
    assert!(!has(&cache, read(ada(), "a", &[])) && !has(&cache, read(ada(), "b", &[])));
    keep(&cache, read(ada(), "a", &[]));
    assert!(has(&cache, read(ada(), "a", &[])));
}
