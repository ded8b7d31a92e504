//! The cursor of a list over several upstreams: which upstreams have more pages, and their own cursors. It is opaque to requesters but no
//! secret: a requester that makes one up gets a page of a list that it may read anyway. A made-up cursor asks each upstream only once,
//! like a cursor of ours.

use std::collections::HashSet;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};

/// How many bytes of JSON one upstream's cursor may take here. A longer cursor is not passed on.
const PLACE_BYTES_MAX: usize = 16_384;

/// A position in an aggregated list. It names no upstream twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ListCursor(pub(super) Vec<UpstreamCursor>);

/// A position in one upstream's list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UpstreamCursor {
    #[serde(rename = "u")]
    pub(super) upstream: String,
    /// The upstream's own cursor; none for its first page. The empty string is a cursor.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub(super) theirs: Option<String>,
}

impl ListCursor {
    pub(super) fn write(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    /// Returns none if the cursor is not one of ours. A cursor of ours has at most one entry for each upstream that the requester may
    /// read.
    pub(super) fn read(text: &str, places_max: usize) -> Option<Self> {
        // Base64 writes four bytes for three. The length is checked first, so that a long text costs no memory.
        if text.len() / 4 > places_max.saturating_mul(PLACE_BYTES_MAX + 1) / 3 + 1 {
            return None;
        }
        let cursor: Self = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        let mut seen = HashSet::new();
        let is_ours = cursor.0.len() <= places_max && cursor.0.iter().all(|place| seen.insert(place.upstream.as_str()));
        is_ours.then_some(cursor)
    }
}

impl UpstreamCursor {
    /// Whether the entry is short enough for a cursor of ours.
    pub(super) fn fits(&self) -> bool {
        serde_json::to_vec(self).is_ok_and(|json| json.len() <= PLACE_BYTES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{ListCursor, PLACE_BYTES_MAX, UpstreamCursor};

    fn place(upstream: &str, theirs: Option<&str>) -> UpstreamCursor {
        UpstreamCursor { upstream: upstream.to_owned(), theirs: theirs.map(str::to_owned) }
    }

    #[test]
    fn the_empty_string_is_a_cursor() {
        let (first, empty) = (ListCursor(vec![place("up", None)]), ListCursor(vec![place("up", Some(""))]));
        assert_ne!(first.write(), empty.write());
        assert_eq!(ListCursor::read(&empty.write(), 1), Some(empty));
        for foreign in ["", "eyJ", "bm90IGpzb24", "e30", "5"] {
            assert_eq!(ListCursor::read(foreign, 1), None, "{foreign}");
        }
    }

    #[test]
    fn a_cursor_asks_each_upstream_once() {
        let of = |names: &[&str]| ListCursor(names.iter().map(|name| place(name, None)).collect()).write();
        assert!(ListCursor::read(&of(&["a", "b"]), 2).is_some());
        for forged in [of(&["a", "a"]), of(&["a", "b", "c"]), of(&vec!["a"; 50_000])] {
            assert_eq!(ListCursor::read(&forged, 2), None, "{forged:.60}");
        }
        let twice = ListCursor(vec![place("a", Some("1")), place("a", Some("2"))]);
        assert_eq!(ListCursor::read(&twice.write(), 2), None);
    }

    #[test]
    fn the_longest_places_are_read_back_and_longer_ones_are_not() {
        let long = |bytes: usize| place("a", Some(&"x".repeat(bytes - r#"{"u":"a","c":""}"#.len())));
        assert!(long(PLACE_BYTES_MAX).fits() && !long(PLACE_BYTES_MAX + 1).fits());
        let longest = ListCursor(
            ["a", "b", "c"].map(|name| UpstreamCursor { upstream: name.to_owned(), ..long(PLACE_BYTES_MAX) }).into(),
        );
        assert_eq!(ListCursor::read(&longest.write(), 3), Some(longest));
        assert_eq!(ListCursor::read(&ListCursor(vec![long(PLACE_BYTES_MAX + 20)]).write(), 1), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(places: std::collections::BTreeMap<String, Option<String>>) {
            let places = places.into_iter().map(|(upstream, theirs)| UpstreamCursor { upstream, theirs });
            let cursor = ListCursor(places.filter(UpstreamCursor::fits).collect());
            prop_assert_eq!(ListCursor::read(&cursor.write(), cursor.0.len()), Some(cursor));
        }
    }
}
