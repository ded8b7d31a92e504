//! What a list of tools costs, in tokens of o200k: `docs/tokens.md` has the figures.

use super::*;
use crate::{Availability, ListedTool, testing::shared};

/// Tools of GitHub's server, as many as issue 17 measured.
const TOOLS: usize = 75;
/// For all their `_meta` together.
const META_TOKENS_MAX: usize = 1_400;

#[test]
fn what_a_list_says_beside_the_tools_costs_little() {
    let Some(file) = shared("corpora/tools/tools.jsonl") else { return };
    let counter = bpe_openai::o200k_base();
    let (mut all, mut meta, mut written, mut found) = (0, 0, 0, 0);
    for line in std::fs::read_to_string(file).unwrap().lines() {
        let tool: Value = serde_json::from_str(line).unwrap();
        if tool["server"] != "git:github/github-mcp-server" || found == TOOLS {
            continue;
        }
        let text = json!({
            "name": tool["name"], "title": tool["title"], "description": tool["description"],
            "inputSchema": tool["input_schema"], "annotations": tool["annotations"],
        });
        let Ok(definition) = Definition::read(&text.to_string()) else { continue };
        let Ok(compiled) = admit(infer("github", &definition).unwrap().contract, &RegisteredContracts::new()) else {
            continue;
        };
        let listed = ListedTool::render(&definition.name, &compiled, Availability::Available).unwrap();
        let definition: Value = serde_json::from_str(listed.definition.get()).unwrap();
        all += counter.count(listed.definition.get());
        meta += counter.count(&*format!("\"_meta\":{}", definition["_meta"]));
        written += counter.count(&*text.to_string());
        found += 1;
    }
    println!("{found} tools: {all} tokens listed, {meta} of them `_meta`; as their server writes them {written}");
    assert_eq!(found, TOOLS);
    assert!(meta <= META_TOKENS_MAX, "{meta}");
}
