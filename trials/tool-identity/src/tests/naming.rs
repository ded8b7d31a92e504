//! Names of tools of servers in a batch.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::exposure::{ListedServer, base_name, prefixed};

type Batch = Vec<(String, Vec<String>)>;

fn batches() -> impl Strategy<Value = Batch> {
    let text = || prop_oneof!["[ab!_-]{0,3}", "x{55,70}", ".{0,4}", Just("search_15de6fa1".to_owned()), "search!?"];
    prop::collection::vec((text(), prop::collection::vec(text(), 0..4)), 0..4)
}

fn allocate(batch: &Batch, taken: &BTreeSet<&str>) -> Vec<(String, String, String)> {
    let servers: Vec<ListedServer<'_>> = batch.iter().map(|(name, tools)| ListedServer { name, tools }).collect();
    let exposed = prefixed(&servers, taken).into_iter();
    exposed.map(|tool| (batch[tool.server_index].0.clone(), tool.tool.to_owned(), tool.exposed)).collect()
}

/// The names of each pair of server and tool; several only where the pair is listed several times.
fn by_pair(names: Vec<(String, String, String)>) -> BTreeMap<(String, String), BTreeSet<String>> {
    let mut pairs: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    for (server, tool, exposed) in names {
        pairs.entry((server, tool)).or_default().insert(exposed);
    }
    pairs
}

proptest! {
    #[test]
    fn names_are_unique_portable_and_not_taken(batch in batches(), taken_bases in any::<bool>()) {
        let bases: Vec<String> =
            batch.iter().flat_map(|(server, tools)| tools.iter().map(move |tool| base_name(server, tool))).collect();
        let taken: BTreeSet<&str> = bases.iter().filter(|_| taken_bases).map(String::as_str).collect();
        let mut seen = BTreeSet::new();
        for (_, _, name) in allocate(&batch, &taken) {
            prop_assert!(name.len() <= 64 && name.starts_with("mcp_"), "{}", name);
            prop_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)), "{}", name);
            prop_assert!(!taken.contains(name.as_str()), "{} is taken", name);
            prop_assert!(seen.insert(name.clone()), "{} twice", name);
        }
    }

    /// The listing order does not matter, except for which name each of two equal pairs gets.
    #[test]
    fn names_do_not_depend_on_the_order_of_listing(batch in batches(), turn in 0..4_usize) {
        let mut turned = batch.clone();
        turned.reverse();
        for (_, tools) in &mut turned {
            let by = turn.min(tools.len());
            tools.rotate_left(by);
        }
        let none = BTreeSet::new();
        prop_assert_eq!(by_pair(allocate(&batch, &none)), by_pair(allocate(&turned, &none)));
    }
}
