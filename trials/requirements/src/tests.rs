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

#[test]
fn a_port_for_a_server_is_below_those_of_outgoing_connections_and_differs_from_the_last() {
    let (first, second) = (unused_port(), unused_port());
    assert!((20_000..32_768).contains(&first) && (20_000..32_768).contains(&second), "{first} {second}");
    assert_ne!(first, second, "the first may not be listened on yet");
    let taken = std::net::TcpListener::bind(("127.0.0.1", unused_port())).unwrap();
    assert_ne!(unused_port(), taken.local_addr().unwrap().port());
}
