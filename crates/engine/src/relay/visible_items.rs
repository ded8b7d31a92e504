//! Decides which items of a server's lists agents are shown: those that pass the hygiene checks and that a person agreed to.

use std::borrow::Cow;

use serde_json::value::RawValue;
use servanda_catalog::{
    Catalog,
    names::{ExposedNaming, is_reserved},
    pins::{ItemVisibility, ListedKind, bare_resource},
};
use servanda_contract::legibility::{faults, reveal};

use crate::world::UpstreamMember;

/// The item as agents see it, with the server's own names; none if it is withheld, and then the log says why.
pub(super) fn visible_item<'a>(
    catalog: &Catalog,
    member: &UpstreamMember,
    kind: ListedKind,
    item: &'a RawValue,
) -> Option<Cow<'a, str>> {
    let upstream = &member.id;
    let judged = kind.read(item.get()).map_err(|why| (None, why)).and_then(|live| {
        if member.naming == ExposedNaming::Bare && kind == ListedKind::Prompts && is_reserved(&live.name) {
            return Err((Some(live.name), "names like this are reserved for the gateway".to_owned()));
        }
        match catalog.judge_listed(upstream, kind, &live) {
            ItemVisibility::Withheld(why) => Err((Some(live.name), why)),
            showing => Ok(showing),
        }
    });
    match judged {
        Ok(ItemVisibility::Bare) => {
            let bare = bare_resource(item.get());
            if bare.is_none() {
                tracing::warn!(%upstream, "a resource that no person has agreed to is withheld, because its URI is not valid");
            }
            bare.map(Cow::Owned)
        }
        Ok(_) => Some(Cow::Borrowed(item.get())),
        Err((name, why)) => {
            let name = name.unwrap_or_else(|| "without a usable name".to_owned());
            tracing::warn!(%upstream, list = kind.word(), item = %reveal(&name), %why, "an item of a list is withheld");
            None
        }
    }
}

/// Whether the notes beside a list are free of hidden text; if not, the log says why they are withheld.
pub(super) fn is_legible(member: &UpstreamMember, notes: &RawValue) -> bool {
    let value: Option<serde_json::Value> = serde_json::from_str(notes.get()).ok();
    let fault = value
        .as_ref()
        .map_or_else(|| Some("they cannot be read".to_owned()), |value| faults(value).first().map(ToString::to_string));
    if let Some(fault) = &fault {
        tracing::warn!(upstream = %member.id, %fault, "the notes beside a list are withheld");
    }
    fault.is_none()
}
