//! Lists over all upstreams, page by page: a page of ours is a page of one upstream. An upstream that cannot be asked is
//! left out and named in the page: one bad upstream never hides the rest.

use std::sync::Arc;

use serde_json::value::RawValue;
use servanda_catalog::names::Naming;
use servanda_mcp::{
    RawObject, RpcError,
    envelope::{code, to_json},
    fields::{member as field, meta},
};
use servanda_upstream::{PerformFailure, Question};

use super::{INQUIRY_MS_MAX, Party, cursor::Cursor, invalid_params};
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
    members: RawObject<'a>,
    items: &'a RawValue,
    next: Option<String>,
}

/// One page.
pub(super) async fn page(core: &Arc<Core>, inquiry: Inquiry) -> Result<String, RpcError> {
    let list = List::of(inquiry.subject);
    let scene = core.scene();
    let mut place = start(&scene, &inquiry.params)?;
    let others: Vec<_> = inquiry.params.iter().filter(|(name, _)| name != "cursor").cloned().collect();
    let asked_for = place.clone();
    let party = Party::of(core, inquiry.guest, inquiry.terms, INQUIRY_MS_MAX).await;
    let mut unavailable = Vec::new();
    for _ in 0..EMPTY_PAGES_MAX {
        let Some(here) = place.take() else { break };
        let Some(member) = scene.member(&here.upstream) else { break };
        let after = || next_upstream(&scene, &here.upstream);
        let answer = match list.ask(core, &party, member, &others, here.theirs.as_deref()).await {
            Ok(Some(answer)) => answer,
            Ok(None) => {
                place = after();
                continue;
            }
            Err(error) => {
                // A cursor that the upstream does not know any more is the guest's to know about.
                if here.theirs.is_some()
                    && asked_for.as_ref() == Some(&here)
                    && let Some(error) = upstream_failure::error_of(&error)
                {
                    return Err(error);
                }
                tracing::warn!(upstream = %member.id, %error, list = list.items, "an upstream is left out of a list");
                unavailable.push(member.id.to_string());
                place = after();
                continue;
            }
        };
        let Some(page) = Page::read(list, &answer.result) else {
            tracing::warn!(upstream = %member.id, list = list.items, "an upstream's list is not one");
            unavailable.push(member.id.to_string());
            place = after();
            continue;
        };
        let again = page.next.clone().filter(|next| Some(next) != here.theirs.as_ref());
        let next = again.map(|theirs| Cursor { upstream: here.upstream.clone(), theirs: Some(theirs) }).or_else(after);
        if !page.is_empty() {
            return Ok(list.render(member, &page, next.as_ref(), &unavailable));
        }
        place = next;
    }
    Ok(list.render_empty(&unavailable))
}

/// Where a guest's request begins.
fn start(scene: &Scene, params: &[(String, Box<RawValue>)]) -> Result<Option<Cursor>, RpcError> {
    let Some((_, raw)) = params.iter().find(|(name, _)| name == "cursor") else {
        return Ok(scene.members().next().map(|member| first_page(member)));
    };
    let text: Option<String> = serde_json::from_str(raw.get()).ok();
    let cursor = text.and_then(|text| Cursor::read(&text)).filter(|cursor| scene.member(&cursor.upstream).is_some());
    cursor.map(Some).ok_or_else(|| {
        invalid_params("the cursor is not one of this list").with_hint("begin the list anew, without a cursor")
    })
}

fn next_upstream(scene: &Scene, after: &str) -> Option<Cursor> {
    scene.members_from(after).find(|member| member.id.as_ref() != after).map(|member| first_page(member))
}

fn first_page(member: &Member) -> Cursor {
    Cursor { upstream: member.id.to_string(), theirs: None }
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
    ) -> Result<Option<servanda_upstream::Answer>, PerformFailure> {
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

    fn render(self, member: &Member, page: &Page<'_>, next: Option<&Cursor>, unavailable: &[String]) -> String {
        let items = self.expose(member, page.items).unwrap_or_else(|| page.items.get().to_owned());
        let meta_of_page = page.members.get(field::META).and_then(|raw| serde_json::from_str(raw.get()).ok());
        let others = page.members.clone().without(&[self.items, field::NEXT_CURSOR, field::META, field::RESULT_TYPE]);
        let mut json = format!("{{\"{}\":{items},", self.items);
        others.write_members(&mut json);
        if let Some(next) = next {
            json.extend([&to_json(field::NEXT_CURSOR), ":", &to_json(&next.write()), ","]);
        }
        finish(json, meta_of_page.unwrap_or_default(), unavailable)
    }

    fn render_empty(self, unavailable: &[String]) -> String {
        finish(format!("{{\"{}\":[],", self.items), RawObject::default(), unavailable)
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
    fn read(list: List, result: &'a [u8]) -> Option<Self> {
        let members: RawObject<'a> = serde_json::from_slice(result).ok()?;
        let items = members.get(list.items)?;
        let next = match members.get(field::NEXT_CURSOR) {
            None => None,
            Some(raw) => serde_json::from_str::<Option<String>>(raw.get()).ok()?,
        };
        items.get().starts_with('[').then_some(Self { members, items, next })
    }

    fn is_empty(&self) -> bool {
        self.items.get().trim_start_matches('[').trim_start().starts_with(']')
    }
}

/// Closes an object whose last member has a comma after it.
fn finish(mut json: String, meta_members: RawObject<'_>, unavailable: &[String]) -> String {
    let mut notes = String::new();
    meta_members.without(&[meta::UNAVAILABLE]).write_members(&mut notes);
    if !unavailable.is_empty() {
        notes.extend([&to_json(meta::UNAVAILABLE), ":", &to_json(unavailable), ","]);
    }
    if notes.is_empty() {
        json.pop();
    } else {
        notes.pop();
        json.extend([&to_json(field::META), ":{", &notes, "}"]);
    }
    json.push('}');
    json
}
