//! Module edges: inside every crate, at every level of its module tree, sibling modules refer to each other without a cycle.
//!
//! A module includes everything below it. It refers to another if a path in it (in `use`, in code, in a macro's arguments, in
//! serde's attributes) names something that the other defines; re-exports count as the module that defines the item. References
//! between a parent and its child make no edge, and neither do tests, comments and texts. `cargo nextest run -p servanda-tidy
//! modules --no-capture` prints the graph.

mod graph;
mod module;
mod names;
mod scan;
mod test_code;
mod tests;
pub(crate) mod tokens;
mod tree;

use std::path::{Path, PathBuf};

use graph::Graph;

#[test]
fn modules_refer_to_each_other_without_a_cycle() {
    let mut wrong = Vec::new();
    for (name, root) in roots() {
        let graph = Graph::read(&name, &root, &|path| std::fs::read_to_string(path).ok());
        print!("{}", graph.lines());
        wrong.extend(graph.cycles());
    }
    let advice =
        "Move an item to the module it belongs to, into a smaller module that both use, or up to their parent.";
    assert!(wrong.is_empty(), "modules that refer to each other in a circle:\n\n{}\n{advice}", wrong.join("\n"));
}

/// The roots of every crate, by the crate's name.
fn roots() -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates");
    let folder = folder.canonicalize().expect("the folder of the crates");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder of the crates") {
        let path = entry.expect("a crate").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let roots = ["src/lib.rs", "src/main.rs"].map(|root| path.join(root));
        found.extend(roots.into_iter().filter(|root| root.exists()).map(|root| (name.clone(), root)));
    }
    assert!(found.len() > 10, "the tidy test does not see the crates");
    found.sort();
    found
}
