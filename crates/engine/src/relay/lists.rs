//! Lists over all upstreams. A page of ours joins the next page of every upstream that has one, so that a client that never asks for a
//! second page still sees something of each. An upstream that cannot be asked is left out and named in the page: one bad upstream never
//! hides the rest.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use futures_util::future::join_all;
use serde_json::value::RawValue;
use servanda_authority::rights::ResourcePatterns;
use servanda_catalog::{Catalog, names::ExposedNaming, pins::ListedKind};
use servanda_mcp::{
    RawObject, RpcError,
    envelope::{code, to_json},
    fields::{member as field, meta},
};
use servanda_upstream::{Answer, PerformFailure, UpstreamInquiry};

use super::{
    INQUIRY_MS_MAX, InquiryContext, InquiryRelay,
    cursor::{ListCursor, UpstreamCursor},
    visible_items,
};
use crate::{
    answers::{refusals::invalid_params, upstream_failure},
    client::{Inquiry, InquirySubject},
    clock::within_ms,
    questions::ClientFailure,
    world::{UpstreamMember, WorldSnapshot},
};

/// How many empty pages of upstreams are read for one page of ours.
const EMPTY_PAGES_MAX: usize = 64;
/// How long one upstream may take to connect.
const CONNECT_MS_MAX: u64 = 20_000;

/// The members of a page that say how long and for whom it may be cached.
const TTL_MS: &str = "ttlMs";
const CACHE_SCOPE: &str = "cacheScope";
const PUBLIC: &str = "\"public\"";

/// What is listed.
#[derive(Debug, Clone, Copy)]
struct ListSpec {
    subject: InquirySubject,
    kind: ListedKind,
    /// The name of the array in the result.
    items: &'static str,
    /// The capability that a server must have to be asked.
    capability: &'static str,
}

/// A page of an upstream, parsed.
struct UpstreamListPage<'a> {
    member: &'a UpstreamMember,
    members: RawObject<'a>,
    /// The items that agents are shown.
    items: Vec<Cow<'a, str>>,
    next: Option<String>,
}

/// An upstream could not be asked, or its answer is not a list. The log says why.
struct UpstreamLeftOut;

/// One page.
pub(super) async fn page(relay: &Arc<InquiryRelay>, inquiry: Inquiry) -> Result<String, RpcError> {
    let list = ListSpec::for_subject(inquiry.subject);
    let snapshot = relay.core.snapshot();
    let mut places = start(&snapshot, &inquiry)?;
    if inquiry.subject == InquirySubject::Prompts && !inquiry.requester.authority.rights().resources.is_all() {
        // A credential that is limited to some resources cannot get a prompt, so it is shown none.
        return Ok(list.render(&[], None, &[], &ResourcePatterns::none()));
    }
    let others: Vec<_> = inquiry.params.iter().filter(|(name, _)| name != "cursor").cloned().collect();
    let goes_on = inquiry.params.len() > others.len();
    let context = InquiryContext::new(relay, inquiry.requester, inquiry.terms, INQUIRY_MS_MAX).await;
    let mut unavailable = Vec::new();
    for _ in 0..EMPTY_PAGES_MAX {
        let asked = places
            .iter()
            .filter_map(|place| Some((place, snapshot.member_read_by(&place.upstream, &context.requester)?)));
        let asked = asked.map(async |(place, member)| {
            (place, member, list.ask(relay, &context, member, &others, place.theirs.as_deref()).await)
        });
        let answers = join_all(asked).await;
        if let [(_, _, Err(failure))] = answers.as_slice()
            && goes_on
            && let Some(error) = upstream_failure::server_error(failure)
        {
            // The requester must learn that the upstream no longer knows the cursor.
            return Err(error);
        }
        let (mut pages, mut next) = (Vec::new(), Vec::new());
        for (place, member, answer) in &answers {
            let Ok(page) = list.read(&snapshot.catalog, member, answer) else {
                unavailable.push(member.id.to_string());
                continue;
            };
            let Some(page) = page else { continue };
            match page.after(place) {
                Ok(place) => next.extend(place),
                Err(UpstreamLeftOut) => unavailable.push(member.id.to_string()),
            }
            if !page.items.is_empty() {
                pages.push(page);
            }
        }
        if !pages.is_empty() || next.is_empty() {
            let next = Some(ListCursor(next)).filter(|next| !next.0.is_empty());
            return Ok(list.render(
                &pages,
                next.as_ref(),
                &unavailable,
                &context.requester.authority.rights().resources,
            ));
        }
        drop(pages);
        places = next;
    }
    Ok(list.render(&[], None, &unavailable, &ResourcePatterns::none()))
}

/// Where the requested page begins.
fn start(snapshot: &WorldSnapshot, inquiry: &Inquiry) -> Result<Vec<UpstreamCursor>, RpcError> {
    let requester = &inquiry.requester;
    let Some((_, raw)) = inquiry.params.iter().find(|(name, _)| name == "cursor") else {
        let first = |member: &Arc<UpstreamMember>| UpstreamCursor { upstream: member.id.to_string(), theirs: None };
        return Ok(snapshot.members_read_by(requester).map(first).collect());
    };
    let text: Option<String> = serde_json::from_str(raw.get()).ok();
    let cursor = text.and_then(|text| ListCursor::read(&text, snapshot.members_read_by(requester).count()));
    let known = |cursor: &ListCursor| {
        cursor.0.iter().any(|place| snapshot.member_read_by(&place.upstream, requester).is_some())
    };
    cursor.filter(known).map(|ListCursor(places)| places).ok_or_else(|| {
        invalid_params("the cursor does not belong to this list").with_hint("start the list again without a cursor")
    })
}

impl ListSpec {
    const fn for_subject(subject: InquirySubject) -> Self {
        let (kind, items, capability) = match subject {
            InquirySubject::ResourceTemplates => (ListedKind::ResourceTemplates, "resourceTemplates", "resources"),
            InquirySubject::Prompts => (ListedKind::Prompts, "prompts", "prompts"),
            _ => (ListedKind::Resources, "resources", "resources"),
        };
        Self { subject, kind, items, capability }
    }

    /// Asks one upstream for a page; none if it has no such list.
    async fn ask(
        self,
        relay: &InquiryRelay,
        context: &InquiryContext,
        member: &Arc<UpstreamMember>,
        others: &[(String, Box<RawValue>)],
        cursor: Option<&str>,
    ) -> Result<Option<Answer>, ClientFailure> {
        let connected_by = context.deadline.min(within_ms(CONNECT_MS_MAX));
        let offer = member.offers(self.capability, connected_by).await;
        let put = |failure| context.question_rules(relay, member).failure_for_client(failure, &mut Vec::new());
        if offer.map_err(put)?.is_none() {
            return Ok(None);
        }
        let mut params = others.to_vec();
        if let Some(cursor) = cursor.and_then(|cursor| serde_json::value::to_raw_value(cursor).ok()) {
            params.push(("cursor".to_owned(), cursor));
        }
        let question = UpstreamInquiry { method: self.subject.method(), name: None, params };
        match context.ask(relay, member, question).await {
            Ok(answer) => Ok(Some(answer)),
            Err(failure) if matches!(*failure, PerformFailure::Rejected { code: code::METHOD_NOT_FOUND, .. }) => {
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Parses an upstream's answer; none if it has no such list.
    fn read<'a>(
        self,
        catalog: &Catalog,
        member: &'a UpstreamMember,
        answer: &'a Result<Option<Answer>, ClientFailure>,
    ) -> Result<Option<UpstreamListPage<'a>>, UpstreamLeftOut> {
        let answer = match answer {
            Ok(Some(answer)) => answer,
            Ok(None) => return Ok(None),
            Err(error) => {
                tracing::warn!(upstream = %member.id, %error, list = self.items, "an upstream is left out of a list");
                return Err(UpstreamLeftOut);
            }
        };
        let page = UpstreamListPage::read(self, catalog, member, &answer.result);
        if page.is_none() {
            tracing::warn!(upstream = %member.id, list = self.items, "the answer of an upstream is not a list; the upstream is left out");
        }
        page.map(Some).ok_or(UpstreamLeftOut)
    }

    fn render(
        self,
        pages: &[UpstreamListPage<'_>],
        next: Option<&ListCursor>,
        unavailable: &[String],
        resources: &ResourcePatterns,
    ) -> String {
        let mut json = format!("{{\"{}\":[", self.items);
        let items: Vec<String> = pages.iter().flat_map(|page| self.shown(page, resources)).collect();
        json.extend([&*items.join(","), "],"]);
        for (name, value) in Self::cache_hints(pages) {
            json.extend([&to_json(name), ":", &value, ","]);
        }
        if let Some(next) = next {
            json.extend([&to_json(field::NEXT_CURSOR), ":", &to_json(&next.write()), ","]);
        }
        finish(json, pages, unavailable)
    }

    /// How long and for whom the joined list may be cached, if every page says so: the shortest time and the narrowest scope. Other
    /// members that a server writes beside its items are not passed on, because no person agreed to them.
    fn cache_hints(pages: &[UpstreamListPage<'_>]) -> Vec<(&'static str, String)> {
        let said = |name: &str| pages.iter().map(|page| page.members.get(name)).collect::<Option<Vec<_>>>();
        let said = |name: &str| said(name).filter(|values| !values.is_empty());
        let times = said(TTL_MS).and_then(|values| {
            values.into_iter().map(|raw| serde_json::from_str::<u64>(raw.get()).ok()).collect::<Option<Vec<_>>>()
        });
        let least = times.and_then(|times| times.into_iter().min()).map(|least| (TTL_MS, least.to_string()));
        let scope = said(CACHE_SCOPE).map(|scopes| {
            let is_public = scopes.iter().all(|scope| scope.get() == PUBLIC);
            (CACHE_SCOPE, if is_public { PUBLIC } else { "\"private\"" }.to_owned())
        });
        scope.into_iter().chain(least).collect()
    }

    /// The items of a page that a requester with these resources may see: a resource that it may not read is not listed.
    fn shown(self, page: &UpstreamListPage<'_>, resources: &ResourcePatterns) -> Vec<String> {
        let is_covered = |item: &String| {
            let members: Option<RawObject<'_>> = serde_json::from_str(item).ok();
            let uri =
                members.and_then(|members| serde_json::from_str::<String>(members.get(self.kind.key())?.get()).ok());
            uri.is_some_and(|uri| resources.covers(&uri))
        };
        let all = page.items.iter().map(|item| self.expose(page.member, item));
        all.filter(|item| self.kind == ListedKind::Prompts || resources.is_all() || is_covered(item)).collect()
    }

    /// An item with the names that requesters know.
    fn expose(self, member: &UpstreamMember, item: &str) -> String {
        let exposed = match self.kind {
            ListedKind::Prompts => exposed_prompt(member, item),
            ListedKind::Resources | ListedKind::ResourceTemplates => {
                let raw: Option<&RawValue> = serde_json::from_str(item).ok();
                raw.and_then(|raw| member.exposure().member(raw, self.kind.key()))
            }
        };
        exposed.unwrap_or_else(|| item.to_owned())
    }
}

/// A prompt under its exposed name; none if that is the server's own name.
fn exposed_prompt(member: &UpstreamMember, item: &str) -> Option<String> {
    if member.naming == ExposedNaming::Bare {
        return None;
    }
    let members: RawObject<'_> = serde_json::from_str(item).ok()?;
    let name: String = serde_json::from_str(members.get("name")?.get()).ok()?;
    let name = to_json(&member.naming.expose(&member.id, &name));
    Some(members.to_json_with(|member, _| (member == "name").then(|| name.clone())))
}

impl<'a> UpstreamListPage<'a> {
    fn read(list: ListSpec, catalog: &Catalog, member: &'a UpstreamMember, result: &'a [u8]) -> Option<Self> {
        let members: RawObject<'a> = serde_json::from_slice(result).ok()?;
        let items: Vec<&'a RawValue> = serde_json::from_str(members.get(list.items)?.get()).ok()?;
        let next = match members.get(field::NEXT_CURSOR) {
            None => None,
            Some(raw) => serde_json::from_str::<Option<String>>(raw.get()).ok()?,
        };
        let items = items
            .into_iter()
            .filter_map(|item| visible_items::visible_item(catalog, member, list.kind, item))
            .collect();
        Some(Self { member, members, items, next })
    }

    /// The position after a page that was read at `place`; none at the end of the list.
    fn after(&self, place: &UpstreamCursor) -> Result<Option<UpstreamCursor>, UpstreamLeftOut> {
        let again = self.next.clone().filter(|again| Some(again) != place.theirs.as_ref());
        let next = again.map(|theirs| UpstreamCursor { upstream: place.upstream.clone(), theirs: Some(theirs) });
        if next.as_ref().is_some_and(|next| !next.fits()) {
            tracing::warn!(upstream = %self.member.id, "the rest of an upstream's list is left out: its cursor is too long");
            return Err(UpstreamLeftOut);
        }
        Ok(next)
    }
}

/// Completes an object that still ends with a comma: adds the notes, or removes the comma.
fn finish(mut json: String, pages: &[UpstreamListPage<'_>], unavailable: &[String]) -> String {
    let mut notes: BTreeMap<String, String> = BTreeMap::new();
    for page in pages {
        let said = page.members.get(field::META).filter(|raw| visible_items::is_legible(page.member, raw));
        let said: RawObject<'_> = said.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        for (name, value) in said.without(&[meta::UNAVAILABLE]).iter() {
            notes.entry(name.to_owned()).or_insert_with(|| value.get().to_owned());
        }
    }
    if !unavailable.is_empty() {
        notes.insert(meta::UNAVAILABLE.to_owned(), to_json(unavailable));
    }
    if notes.is_empty() {
        json.pop();
    } else {
        let notes: Vec<String> = notes.iter().map(|(name, value)| format!("{}:{value}", to_json(name))).collect();
        json.extend([&to_json(field::META), ":{", &notes.join(","), "}"]);
    }
    json.push('}');
    json
}
