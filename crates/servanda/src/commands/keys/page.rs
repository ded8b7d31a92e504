//! API keys as text and as JSON. The key itself is printed once, when it is created, and never again.

use std::collections::BTreeSet;

use serde::Serialize;
use servanda_authority::{Rights, api_key::StoredKey};
use servanda_contract::Timestamp;

use super::key_lookup::ID_CHARS_MIN;
use crate::{
    commands::rights_text,
    screen::{TextStyle, distinct_chars, lines, paint, stdout_width, table},
};

/// A key, for `--json`.
#[derive(Serialize)]
pub(super) struct KeyReport<'a> {
    id: &'a str,
    credential: String,
    tenant: &'a str,
    principal: &'a str,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    groups: &'a BTreeSet<String>,
    label: &'a str,
    ends_with: &'a str,
    standing: &'static str,
    created_at: String,
    expires_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<String>,
    rights: &'a Rights,
}

/// A new key, for `--json`.
#[derive(Serialize)]
pub(super) struct CreatedKeyReport<'a> {
    /// The key itself, shown this once.
    key: &'a str,
    #[serde(flatten)]
    shown: KeyReport<'a>,
    /// Rights that have no effect.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    notes: &'a [String],
}

pub(super) fn created_report<'a>(
    key: &'a StoredKey,
    text: &'a str,
    now: Timestamp,
    notes: &'a [String],
) -> CreatedKeyReport<'a> {
    CreatedKeyReport { key: text, shown: report(key, now), notes }
}

pub(super) fn report(key: &StoredKey, now: Timestamp) -> KeyReport<'_> {
    KeyReport {
        id: &key.id,
        credential: key.credential().to_string(),
        tenant: &key.tenant,
        principal: &key.principal,
        groups: &key.groups,
        label: &key.label,
        ends_with: &key.ends_with,
        standing: standing(key, now).0,
        created_at: key.created_at.to_string(),
        expires_at: key.expires_at.to_string(),
        revoked_at: key.revoked_at.map(|at| at.to_string()),
        rights: &key.rights,
    }
}

/// One key as a page.
pub(super) fn page(key: &StoredKey, now: Timestamp) -> String {
    let mut page = vec![format!("{}  {}", paint(&format!("key:{}", key.id), TextStyle::Strong), key.label)];
    page.push(format!("  for       {}/{}", key.tenant, key.principal));
    if !key.groups.is_empty() {
        let groups: Vec<&str> = key.groups.iter().map(String::as_str).collect();
        page.push(format!("  groups    {}", groups.join(" ")));
    }
    page.extend(rights_text::shown(&key.rights).iter().map(|(name, text)| format!("  {name:<9} {text}")));
    page.push(format!("  until     {} ({})", key.expires_at, standing(key, now).0));
    page.join("\n")
}

/// Keys as a table.
pub(super) fn list(keys: &[StoredKey], now: Timestamp) -> String {
    // On a terminal the beginning of an id is enough: every command accepts it, and a key begins with it.
    let is_short = stdout_width().is_some();
    let head = ["id", "for", "label", "until", "standing", "may", "ends with"];
    let mut table = table(head.get(..6).filter(|_| is_short).unwrap_or(&head)).with_prose(5);
    let least = if is_short { ID_CHARS_MIN } else { usize::MAX };
    let id_chars = distinct_chars(keys.iter().map(|key| key.id.as_str()), least);
    for key in keys {
        let (word, style) = standing(key, now);
        let may: Vec<String> =
            rights_text::shown(&key.rights).iter().map(|(name, text)| format!("{name} {text}")).collect();
        let until = key.expires_at.to_string();
        let row = [
            key.id.chars().take(id_chars).collect(),
            format!("{}/{}", key.tenant, key.principal),
            key.label.clone(),
            until.get(..10).unwrap_or(&until).to_owned(),
            paint(word, style),
            may.join("; "),
            format!("…{}", key.ends_with),
        ];
        table.add_row(row.into_iter().take(if is_short { 6 } else { 7 }));
    }
    lines(&table)
}

fn standing(key: &StoredKey, now: Timestamp) -> (&'static str, TextStyle) {
    if key.revoked_at.is_some() {
        ("revoked", TextStyle::Bad)
    } else if now >= key.expires_at {
        ("expired", TextStyle::Careful)
    } else {
        ("good", TextStyle::Good)
    }
}
