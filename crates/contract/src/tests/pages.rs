use std::{collections::BTreeSet, path::Path};

use crate::{TaxonomyClass, testing::files};

/// Every failure that an agent can get has a page that says what to do.
#[test]
fn every_failure_class_has_its_page() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/refusals");
    let pages = files(&folder);
    let named: BTreeSet<&str> = pages.iter().filter_map(|(file, _)| file.strip_suffix(".md")).collect();
    let failures = TaxonomyClass::ALL.iter().filter(|class| class.envelope().is_some());
    assert_eq!(named, failures.map(|class| class.name()).collect());
    for (file, text) in &pages {
        let text = std::str::from_utf8(text).unwrap();
        assert!(text.starts_with(&format!("# {}\n", file.trim_end_matches(".md"))), "{file}: begins with its name");
        for heading in ["## When", "## What the agent should do", "## What the operator should do"] {
            assert!(text.contains(heading), "{file}: no `{heading}`");
        }
        assert!((10..=24).contains(&text.lines().count()), "{file}: {} lines", text.lines().count());
    }
}
