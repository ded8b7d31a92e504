//! Lists over all upstreams: a page of ours is the next page of every upstream that has one, so that a client that never
//! asks for a second page still sees something of each. An upstream that cannot be asked is left out and named in the page:
//! one bad upstream never hides the rest.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::future::join_all;
use serde_json::value::RawValue;
use servanda_authority::rights::Resources;
use servanda_catalog::names::Naming;
use servanda_mcp::{
    RawObject, RpcError,
    envelope::{code, to_json},
    fields::{member as field, meta},
};
use servanda_upstream::{Answer, PerformFailure, Question};

use super::{
    INQUIRY_MS_MAX, Party,
    cursor::{Cursor, Place},
    invalid_params,
};
use crate::{
    core::{Core, within_ms},
    gateway::{Inquiry, Subject},
    scene::{Member, Scene},
    upstream_failure,
};

/// Pages without an item that are read for one page of ours.
const EMPTY_PAGES_MAX: usize = 64;
/// How long one upstream may take to be connected.
const CONNECT_MS_MAX: u64 = 20_000;

/// What is listed.
#[derive(Debug, Clone, Copy)]
struct List {
    subject: Subject,
    /// The array in the result.
    items: &'static str,
    /// What a server must have to be asked.
    capability: &'static str,
}

/// A page of an upstream, looked at.
struct Page<'a> {
    member: &'a Member,
    members: RawObject<'a>,
    items: &'a RawValue,
    next: Option<String>,
}

/// That an upstream could not be asked, or answered with something else. It is in the log.
struct LeftOut;

/// One page.
pub(super) async fn page(core: &Arc<Core>, inquiry: Inquiry) -> Result<String, RpcError> {
    let list = List::of(inquiry.subject);
    let scene = core.scene();
    let mut places = start(&scene, &inquiry)?;
    if inquiry.subject == Subject::Prompts && !inquiry.guest.authority.rights().resources.is_all() {
        // Nor could they be asked for.
        return Ok(list.render(&[], None, &[], &Resources::none()));
    }
    let others: Vec<_> = inquiry.params.iter().filter(|(name, _)| name != "cursor").cloned().collect();
    let goes_on = inquiry.params.len() > others.len();
    let party = Party::of(core, inquiry.guest, inquiry.terms, INQUIRY_MS_MAX).await;
    let mut unavailable = Vec::new();
    for _ in 0..EMPTY_PAGES_MAX {
        let asked =
            places.iter().filter_map(|place| Some((place, scene.member_read_by(&place.upstream, &party.guest)?)));
        let asked = asked.map(async |(place, member)| {
            (place, member, list.ask(core, &party, member, &others, place.theirs.as_deref()).await)
        });
        let answers = join_all(asked).await;
        if let [(_, _, Err(failure))] = answers.as_slice()
            && goes_on
            && let Some(error) = upstream_failure::error_of(failure)
        {
            // A cursor that the upstream does not know any more is the guest's to know about.
            return Err(error);
        }
        let (mut pages, mut next) = (Vec::new(), Vec::new());
        for (place, member, answer) in &answers {
            let Ok(page) = list.read(member, answer) else {
                unavailable.push(member.id.to_string());
                continue;
            };
            let Some(page) = page else { continue };
            let again = page.next.clone().filter(|again| Some(again) != place.theirs.as_ref());
            next.extend(again.map(|theirs| Place { upstream: place.upstream.clone(), theirs: Some(theirs) }));
            if !page.is_empty() {
                pages.push(page);
            }
        }
        if !pages.is_empty() || next.is_empty() {
            let next = Some(Cursor(next)).filter(|next| !next.0.is_empty());
            return Ok(list.render(&pages, next.as_ref(), &unavailable, &party.guest.authority.rights().resources));
        }
        drop(pages);
        places = next;
    }
    Ok(list.render(&[], None, &unavailable, &Resources::none()))
}

/// Where a guest's request begins.
fn start(scene: &Scene, inquiry: &Inquiry) -> Result<Vec<Place>, RpcError> {
    let guest = &inquiry.guest;
    let Some((_, raw)) = inquiry.params.iter().find(|(name, _)| name == "cursor") else {
        let first = |member: &Arc<Member>| Place { upstream: member.id.to_string(), theirs: None };
        return Ok(scene.members_read_by(guest).map(first).collect());
    };
    let text: Option<String> = serde_json::from_str(raw.get()).ok();
    let cursor = text.and_then(|text| Cursor::read(&text));
    let known = |cursor: &Cursor| cursor.0.iter().any(|place| scene.member_read_by(&place.upstream, guest).is_some());
    cursor.filter(known).map(|Cursor(places)| places).ok_or_else(|| {
        invalid_params("the cursor is not one of this list").with_hint("begin the list anew, without a cursor")
    })
}

impl List {
    const fn of(subject: Subject) -> Self {
        let (items, capability) = match subject {
            Subject::ResourceTemplates => ("resourceTemplates", "resources"),
            Subject::Prompts => ("prompts", "prompts"),
            _ => ("resources", "resources"),
        };
        Self { subject, items, capability }
    }

    /// A page of one upstream; none if it has no such list.
    async fn ask(
        self,
        core: &Core,
        party: &Party,
        member: &Arc<Member>,
        others: &[(String, Box<RawValue>)],
        cursor: Option<&str>,
    ) -> Result<Option<Answer>, PerformFailure> {
        let connected_by = party.deadline.min(within_ms(CONNECT_MS_MAX));
        if member.offers(self.capability, connected_by).await?.is_none() {
            return Ok(None);
        }
        let mut params = others.to_vec();
        if let Some(cursor) = cursor.and_then(|cursor| serde_json::value::to_raw_value(cursor).ok()) {
            params.push(("cursor".to_owned(), cursor));
        }
        let question = Question { method: self.subject.method(), name: None, params };
        match party.ask(core, member, question).await {
            Ok(answer) => Ok(Some(answer)),
            Err(PerformFailure::Rejected { code: code::METHOD_NOT_FOUND, .. }) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// A page of an upstream's answer: none if it has no such list.
    fn read<'a>(
        self,
        member: &'a Member,
        answer: &'a Result<Option<Answer>, PerformFailure>,
    ) -> Result<Option<Page<'a>>, LeftOut> {
        let answer = match answer {
            Ok(Some(answer)) => answer,
            Ok(None) => return Ok(None),
            Err(error) => {
                tracing::warn!(upstream = %member.id, %error, list = self.items, "an upstream is left out of a list");
                return Err(LeftOut);
            }
        };
        let page = Page::read(self, member, &answer.result);
        if page.is_none() {
            tracing::warn!(upstream = %member.id, list = self.items, "an upstream's list is not one");
        }
        page.map(Some).ok_or(LeftOut)
    }

    fn render(
        self,
        pages: &[Page<'_>],
        next: Option<&Cursor>,
        unavailable: &[String],
        resources: &Resources,
    ) -> String {
        let mut json = format!("{{\"{}\":[", self.items);
        let shown: Vec<String> = pages.iter().map(|page| self.shown(page, resources)).collect();
        let inside = |items: &String| {
            let items = items.trim().strip_prefix('[').and_then(|items| items.strip_suffix(']'));
            items.unwrap_or_default().to_owned()
        };
        let inside: Vec<String> = shown.iter().map(inside).filter(|items| !items.is_empty()).collect();
        json.extend([&*inside.join(","), "],"]);
        for (name, value) in self.others(pages) {
            json.extend([&to_json(name), ":", &value, ","]);
        }
        if let Some(next) = next {
            json.extend([&to_json(field::NEXT_CURSOR), ":", &to_json(&next.write()), ","]);
        }
        finish(json, pages, unavailable)
    }

    /// The other members of the pages. What says for how long and for whom a page may be kept holds for all of it, so the
    /// most careful word counts, and none where one of them says none; of everything else the first.
    fn others<'a>(self, pages: &'a [Page<'_>]) -> BTreeMap<&'a str, String> {
        let mut others = BTreeMap::new();
        let ours = [self.items, field::NEXT_CURSOR, field::META, field::RESULT_TYPE];
        for (name, value) in pages.iter().flat_map(|page| page.members.iter()).filter(|(name, _)| !ours.contains(name))
        {
            others.entry(name).or_insert_with(|| value.get().to_owned());
        }
        let said = |name: &str| pages.iter().map(|page| page.members.get(name)).collect::<Option<Vec<_>>>();
        let least = |values: Vec<&RawValue>| {
            values.into_iter().filter_map(|raw| serde_json::from_str::<u64>(raw.get()).ok()).min()
        };
        if pages.len() > 1 {
            match said("ttlMs").and_then(least) {
                Some(least) => others.insert("ttlMs", least.to_string()),
                None => others.remove("ttlMs"),
            };
            match said("cacheScope") {
                Some(scopes) if scopes.iter().all(|scope| scope.get() == "\"public\"") => {}
                Some(_) => drop(others.insert("cacheScope", "\"private\"".to_owned())),
                None => drop(others.remove("cacheScope")),
            }
        }
        others
    }

    /// The items of a page as a guest of these resources may know them: what could not be read is not listed.
    fn shown(self, page: &Page<'_>, resources: &Resources) -> String {
        let items = self.expose(page.member, page.items).unwrap_or_else(|| page.items.get().to_owned());
        let name = match self.subject {
            Subject::Resources => "uri",
            Subject::ResourceTemplates => "uriTemplate",
            _ => return items,
        };
        if resources.is_all() {
            return items;
        }
        let all: Vec<&RawValue> = serde_json::from_str(&items).unwrap_or_default();
        let is_covered = |item: &&RawValue| {
            let members: Option<RawObject<'_>> = serde_json::from_str(item.get()).ok();
            let uri = members.and_then(|members| serde_json::from_str::<String>(members.get(name)?.get()).ok());
            uri.is_some_and(|uri| resources.covers(&uri))
        };
        let covered: Vec<&str> = all.into_iter().filter(is_covered).map(RawValue::get).collect();
        format!("[{}]", covered.join(","))
    }

    /// The items as guests know them; none where nothing changes.
    fn expose(self, member: &Member, items: &RawValue) -> Option<String> {
        match self.subject {
            Subject::Prompts if member.naming == Naming::Prefixed => {
                let prompts: Vec<&RawValue> = serde_json::from_str(items.get()).ok()?;
                let exposed = |prompt: &RawValue| {
                    let members: RawObject<'_> = serde_json::from_str(prompt.get()).ok()?;
                    let name: String = serde_json::from_str(members.get("name")?.get()).ok()?;
                    let name = to_json(&member.naming.expose(&member.id, &name));
                    Some(members.to_json_with(|member, _| (member == "name").then(|| name.clone())))
                };
                let prompts = prompts.into_iter();
                let prompts: Vec<_> =
                    prompts.map(|prompt| exposed(prompt).unwrap_or_else(|| prompt.get().to_owned())).collect();
                Some(format!("[{}]", prompts.join(",")))
            }
            Subject::Prompts => None,
            Subject::ResourceTemplates => member.exposure().of_each(items, "uriTemplate"),
            _ => member.exposure().of_each(items, "uri"),
        }
    }
}

impl<'a> Page<'a> {
    fn read(list: List, member: &'a Member, result: &'a [u8]) -> Option<Self> {
        let members: RawObject<'a> = serde_json::from_slice(result).ok()?;
        let items = members.get(list.items)?;
        let next = match members.get(field::NEXT_CURSOR) {
            None => None,
            Some(raw) => serde_json::from_str::<Option<String>>(raw.get()).ok()?,
        };
        items.get().starts_with('[').then_some(Self { member, members, items, next })
    }

    fn is_empty(&self) -> bool {
        self.items.get().trim_start_matches('[').trim_start().starts_with(']')
    }
}

/// Closes an object whose last member has a comma after it.
fn finish(mut json: String, pages: &[Page<'_>], unavailable: &[String]) -> String {
    let mut notes: BTreeMap<String, String> = BTreeMap::new();
    for page in pages {
        let said: RawObject<'_> =
            page.members.get(field::META).and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
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
