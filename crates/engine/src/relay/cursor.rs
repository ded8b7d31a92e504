//! Where a list over several upstreams goes on: those that have more, and their own cursors. Opaque to guests, and no
//! secret: whoever makes one up gets a page of a list they may read anyway.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};

/// A place in an aggregated list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cursor(pub(super) Vec<Place>);

/// A place in one upstream's list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    #[serde(rename = "u")]
    pub(super) upstream: String,
    /// The upstream's own; none for its first page. The empty string is a cursor.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub(super) theirs: Option<String>,
}

impl Cursor {
    pub(super) fn write(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    /// None if it is not one of ours.
    pub(super) fn read(text: &str) -> Option<Self> {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Cursor, Place};

    fn cursor(upstream: &str, theirs: Option<&str>) -> Cursor {
        Cursor(vec![Place { upstream: upstream.to_owned(), theirs: theirs.map(str::to_owned) }])
    }

    #[test]
    fn the_empty_string_is_a_cursor() {
        let (first, empty) = (cursor("up", None), cursor("up", Some("")));
        assert_ne!(first.write(), empty.write());
        assert_eq!(Cursor::read(&empty.write()), Some(empty));
        for foreign in ["", "eyJ", "bm90IGpzb24", "e30", "5"] {
            assert_eq!(Cursor::read(foreign), None, "{foreign}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(places: Vec<(String, Option<String>)>) {
            let places = places.into_iter().map(|(upstream, theirs)| Place { upstream, theirs });
            let cursor = Cursor(places.collect());
            prop_assert_eq!(Cursor::read(&cursor.write()), Some(cursor));
        }
    }
}
