//! Compares the gateway's own listing (`servanda effects --json`) with the upstream's file and with what clients were told,
//! when nothing is running any more.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Lie, Verdict, books::Books, history::Told};

/// An effect as the gateway lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub id: String,
    pub state: String,
}

/// The effects by the client's key.
pub type Listing = BTreeMap<String, Listed>;

/// Reads a listing: a list, or an object with a list of `effects`.
pub fn read(text: &str) -> Result<Listing, String> {
    let listing: Value = serde_json::from_str(text).map_err(|error| format!("the listing: {error}"))?;
    let rows = listing.as_array().or_else(|| listing["effects"].as_array()).ok_or("the listing has no effects")?;
    let listed = |row: &Value| {
        let key = row["key"]["client_key"].as_str().or(row["client_key"].as_str())?;
        let key = key.strip_prefix("key:").unwrap_or(key).to_owned();
        let id = row["id"].as_str().unwrap_or_default().to_owned();
        Some((key, Listed { id, state: row["state"].as_str()?.to_owned() }))
    };
    Ok(rows.iter().filter_map(listed).collect())
}

/// Judges the listing. A key that is not in it was never sent.
pub fn judge(keys: &BTreeMap<&str, Vec<&Told>>, listing: &Listing, books: &Books, verdict: &mut Verdict) {
    for (key, answers) in keys {
        let Some(first) = answers.first() else { continue };
        let effects = books.effects(&first.business);
        let state = listing.get(*key).map_or("", |listed| &*listed.state);
        let agrees = match state {
            "" | "failed_retryable" => effects == 0,
            "completed" => effects == 1,
            _ => true,
        };
        if !agrees {
            verdict.found(Lie::ListingDisagrees, key, format!("it says `{state}`, and there are {effects} effects"));
        }
        if let Some(done) = answers.iter().find(|told| told.is_done() && state != "completed") {
            verdict.found(
                Lie::DoneAndListedOtherwise,
                key,
                format!("{}, and the listing says `{state}`", done.short()),
            );
        }
    }
}
