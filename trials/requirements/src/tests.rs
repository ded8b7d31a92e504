use super::*;

#[test]
fn in_ci_missing_means_failed() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("skipped.txt");
    let failed = Absence::of("true").report("a_test", "no PostgreSQL was found", &list).unwrap_err();
    assert!(failed.starts_with("no PostgreSQL was found"), "{failed}");
    assert!(!list.exists(), "a failure is not also a skip");
}

#[test]
fn elsewhere_every_skip_is_a_line_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("target/skipped.txt");
    for ci in ["", "false", "1"] {
        Absence::of(ci).report("a_test", "no PostgreSQL was found", &list).unwrap();
    }
    assert_eq!(fs::read_to_string(&list).unwrap(), "a_test\tno PostgreSQL was found\n".repeat(3));
}

#[test]
fn a_folder_above_is_searched_too() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("trees/one/crates/x");
    fs::create_dir_all(&tree).unwrap();
    fs::create_dir_all(folder.path().join("shared/corpora")).unwrap();
    assert_eq!(beside(&tree, "corpora"), Some(folder.path().join("shared/corpora")));
    assert_eq!(beside(&tree, "elsewhere"), None);
}
