//! The tricky cases, the rules one by one, and the laws.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use servanda_contract::tool::{Action, Behaviour, ContentType, Mutability};

use super::{
    Annotations, CautionRule, Classification, ClassifierOptions, Descriptor, EvidenceSource, classify, lexicon, mask,
    training, words,
};

const HIDDEN: ClassifierOptions = ClassifierOptions { names: true, annotations: false };
const NAMELESS: ClassifierOptions = ClassifierOptions { names: false, annotations: false };

fn tool(name: &str, description: &str, parameters: &[&str]) -> Descriptor {
    let properties: Map<String, Value> =
        parameters.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
    let schema = json!({"type": "object", "properties": properties, "required": parameters});
    Descriptor {
        name: name.to_owned(),
        description: Some(description.to_owned()),
        input_schema: schema.as_object().cloned(),
        ..Descriptor::default()
    }
}

fn found(name: &str, description: &str, parameters: &[&str]) -> Classification {
    classify(&tool(name, description, parameters), HIDDEN)
}

fn mutates(descriptor: &Descriptor, options: ClassifierOptions) -> bool {
    classify(descriptor, options).behaviour.mutability == Mutability::Mutates
}

/// Name, description, parameters, and what it is: mutability, action, output domain.
type Case = (&'static str, &'static str, &'static [&'static str], &'static str);

#[test]
fn tools_that_share_a_schema_are_told_apart() {
    let cases: [Case; 12] = [
        ("read_query", "Run a SELECT query on the database", &["query"], "PURE|READ|DATA"),
        (
            "write_query",
            "Run an INSERT, UPDATE or DELETE query on a MySQL database",
            &["query"],
            "MUTATES|OVERWRITE|DATA",
        ),
        ("get_pull_request", "Get one pull request", &["owner", "repo", "pull_number"], "PURE|READ|PR"),
        ("merge_pull_request", "Merge one pull request", &["owner", "repo", "pull_number"], "MUTATES|MERGE|PR"),
        ("update_pull_request", "Update one pull request", &["owner", "repo", "pull_number"], "MUTATES|UPDATE|PR"),
        ("search_code", "Search for code", &["q"], "PURE|SEARCH|CONTENT"),
        ("search_issues", "Search for issues", &["q"], "PURE|SEARCH|ISSUE"),
        ("read_file", "Read a file", &["path"], "PURE|READ|CONTENT"),
        ("write_file", "Write a file", &["path"], "MUTATES|OVERWRITE|ACK"),
        ("delete_file", "Delete a file", &["path"], "MUTATES|DELETE|ACK"),
        ("add_issue_comment", "Add a comment to an issue", &["owner", "repo", "body"], "MUTATES|CREATE|ISSUE"),
        ("list_directory", "List what a directory holds", &["path"], "PURE|READ|STRUCTURE"),
    ];
    check(&cases);
}

#[test]
fn verbs_that_mean_two_things_are_read_by_what_stands_beside_them() {
    let cases: [Case; 26] = [
        ("get_or_create_label", "Gets a label or creates it", &["name"], "MUTATES|CREATE|ACK"),
        ("create_or_update_file", "Create or update one file", &["path", "content"], "MUTATES|OVERWRITE|ACK"),
        ("search_and_replace", "Search for text and replace it", &["find", "replacement"], "MUTATES|OVERWRITE|ACK"),
        ("execute_sql", "Execute a SQL statement", &["sql"], "MUTATES|OVERWRITE|DATA"),
        ("run_command", "Run a shell command", &["command"], "MUTATES|OVERWRITE|DATA"),
        ("run_tests", "Run the tests", &["path"], "MUTATES|UPDATE|ACK"),
        ("send_message", "Send a message to a channel", &["channel", "text"], "MUTATES|CREATE|ACK"),
        ("validate_document", "Validate a document against a schema", &["document"], "PURE|READ|CONTENT"),
        ("preview_email", "Preview how an email will look", &["template"], "PURE|READ|DATA"),
        ("subscribe", "Subscribe to a topic", &["topic"], "MUTATES|CREATE|ACK"),
        ("unsubscribe", "Unsubscribe from a topic", &["topic"], "MUTATES|DELETE|ACK"),
        ("navigate", "Navigate to a page", &["url"], "MUTATES|UPDATE|ACK"),
        ("open_browser", "Open a page in the browser", &["url"], "MUTATES|UPDATE|ACK"),
        ("download_file", "Download a file and save it to the disk", &["url", "output_path"], "MUTATES|CREATE|ACK"),
        ("explain_sql", "Explain the plan of a SQL statement", &["sql"], "PURE|READ|DATA"),
        ("mark_notification_as_read", "Mark a notification as read", &["id"], "MUTATES|UPDATE|ACK"),
        ("list_deleted_items", "List deleted items", &[], "PURE|READ|DATA"),
        ("get_order", "Get an order", &["id"], "PURE|READ|DATA"),
        ("order_pizza", "Order a pizza", &["size"], "MUTATES|CREATE|ACK"),
        ("check_availability", "Check whether a room is free", &["room"], "PURE|READ|DATA"),
        ("check_in", "Check in a passenger", &["booking"], "MUTATES|UPDATE|ACK"),
        ("add_card_to_list", "Add a card to a list", &["card", "list"], "MUTATES|APPEND|ACK"),
        ("push_files", "Push files to a branch", &["files"], "MUTATES|APPEND|ACK"),
        ("terminate_instance", "Terminate an instance", &["id"], "MUTATES|DELETE|ACK"),
        ("project_reader", "Select one of the read operations (read-only)", &["operation"], "PURE|READ|DATA"),
        ("project_updater", "Select one of the write operations", &["operation"], "MUTATES|UPDATE|ACK"),
    ];
    check(&cases);
}

fn check(cases: &[Case]) {
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|(name, description, parameters, expected)| {
            let Behaviour { mutability, action, output_domain, .. } = found(name, description, parameters).behaviour;
            let said = [mutability.word(), action.word(), output_domain.word()].join("|");
            (said != *expected).then(|| format!("{name}: expected {expected}, found {said}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn bytes_are_told_from_text() {
    let content = |name, description| found(name, description, &["path"]).behaviour.content_type;
    assert_eq!(content("read_media_file", "Read an image or audio file"), Some(ContentType::Binary));
    assert_eq!(content("read_text_file", "Read a file as text"), Some(ContentType::Text));
    assert_eq!(content("get_image_metadata", "Get the metadata of an image"), Some(ContentType::Text));
}

#[test]
fn each_rule_of_caution_raises_what_it_is_there_for() {
    let foreign = "查询指定城市的火车票余票信息，并返回列表";
    let mut choice = tool("pages", "Look at the pages of a site", &["action"]);
    choice.input_schema = json!({"type": "object", "required": ["action"], "properties": {
        "action": {"type": "string", "enum": ["list", "delete"]}
    }})
    .as_object()
    .cloned();
    let mut undescribed = tool("overview", "", &[]);
    undescribed.description = None;
    let cases: [(CautionRule, Descriptor); 9] = [
        (CautionRule::NameChanges, tool("delete_view", "Get all the details of a view, as a list", &["id"])),
        (CautionRule::NameJoins, tool("get_or_create_view", "Get all the details of a view", &["id"])),
        (CautionRule::LeadJoins, tool("get_view", "Get a view and delete it", &["id"])),
        (CautionRule::LeadChanges, tool("get_view", "Removes a view", &["id"])),
        (CautionRule::Program, tool("query_data", "Query data, returns a list of rows", &["sql"])),
        (CautionRule::Choice, choice),
        (CautionRule::Destination, tool("get_page", "Get the details of a page", &["output_path"])),
        (CautionRule::Foreign, tool("tickets", foreign, &["query"])),
        (CautionRule::Silent, undescribed),
    ];
    for (rule, descriptor) in cases {
        let cautions = training::cautions_of(&descriptor, true);
        assert!(cautions.iter().any(|caution| caution.rule == rule), "{rule:?}: {cautions:?}");
        let classification = classify(&descriptor, HIDDEN);
        assert_eq!(classification.behaviour.mutability, Mutability::Mutates, "{rule:?}");
        let named = classification.evidence.mutability.iter().any(|reason| reason.from == EvidenceSource::Rule);
        assert!(named, "{rule:?} is not named as evidence");
    }
}

#[test]
fn rules_overrule_weights_that_say_look() {
    // The weights alone classify these as reads, so the confidence is the rule's.
    for descriptor in [
        tool("get_or_create_view", "Get all the details of a view", &["id"]),
        tool("get_view", "Get a view and delete it", &[]),
        tool("get_page", "Get the details of a page", &["output_path"]),
    ] {
        let classification = classify(&descriptor, HIDDEN);
        assert!((classification.confidence.mutability - 0.6).abs() < 1e-9, "{classification:#?}");
    }
}

#[test]
fn what_merely_looks_like_a_caution_is_none() {
    let mut filter = tool("list_events", "List events, filtered by what was done", &[]);
    filter.input_schema =
        json!({"type": "object", "properties": {"action": {"enum": ["create", "delete"]}}}).as_object().cloned();
    let harmless = [
        filter,
        tool("get_alerts", "Get the alerts of a park", &["park_code"]),
        tool("get_account_by_code", "Get an account", &["country_code"]),
        tool("validate_sql", "Validate a SQL statement without running it", &["sql"]),
        tool("can_create_server", "Get whether another server may be created", &[]),
        tool("read_cypher", "Execute read-only Cypher queries", &["query"]),
    ];
    for descriptor in harmless {
        assert_eq!(training::cautions_of(&descriptor, true), [], "{}", descriptor.name);
        assert!(!mutates(&descriptor, HIDDEN), "{}", descriptor.name);
    }
}

#[test]
fn a_hint_can_raise_danger_and_never_lower_it() {
    let hinted = |name: &str, description: &str, annotations: Value| {
        let annotations = serde_json::from_value(annotations).expect("annotations");
        let descriptor = Descriptor { annotations: Some(annotations), ..tool(name, description, &["id"]) };
        mutates(&descriptor, ClassifierOptions::default())
    };
    let look = ("get_user", "Get a user");
    assert!(!hinted(look.0, look.1, json!({})));
    assert!(
        !hinted(look.0, look.1, json!({"readOnlyHint": true, "destructiveHint": true})),
        "a contradiction is no warning"
    );
    assert!(hinted(look.0, look.1, json!({"readOnlyHint": false})));
    assert!(hinted(look.0, look.1, json!({"destructiveHint": true})));
    assert!(hinted("delete_user", "Delete a user", json!({"readOnlyHint": true})));
}

#[test]
fn a_withheld_name_counts_nowhere() {
    let one = tool("delete_view", "Get all the details of a view. See also `delete_view` and DELETE_VIEW.", &["id"]);
    let other = Descriptor { name: "zzz_qqq".to_owned(), title: Some("Delete everything".to_owned()), ..one.clone() };
    let renamed = Descriptor {
        description: one
            .description
            .clone()
            .map(|text| text.replace("delete_view", "zzz_qqq").replace("DELETE_VIEW", "zzz_qqq")),
        ..other
    };
    assert_eq!(classify(&one, NAMELESS), classify(&renamed, NAMELESS));
    assert!(!mutates(&one, NAMELESS));
    assert!(mutates(&one, HIDDEN));
}

#[test]
fn a_name_is_masked_where_it_is_an_identifier() {
    assert_eq!(mask::masked("Call getUser or GETUSER first", "getUser"), "Call this or this first");
    assert_eq!(mask::masked("Search the web; `search` is fast", "search"), "Search the web; this is fast");
    assert_eq!(mask::masked("as it is", ""), "as it is");
}

#[test]
fn a_strange_descriptor_is_read_as_far_as_it_can_be() {
    let line = json!({
        "name": null, "title": 7, "description": ["no text"], "inputSchema": true, "output_schema": "none",
        "annotations": {"readOnlyHint": "yes", "destructiveHint": true}
    });
    let descriptor: Descriptor = serde_json::from_value(line).expect("read");
    assert_eq!(descriptor.annotations.and_then(|hints| hints.destructive_hint), Some(true));
    assert!(mutates(&descriptor, HIDDEN), "nothing to go by is a change");
    let descriptor: Descriptor =
        serde_json::from_value(json!({"annotations": "none", "name": "get_user"})).expect("read");
    assert!(!mutates(&descriptor, ClassifierOptions::default()));
}

#[test]
fn however_long_a_descriptor_is_little_of_it_is_read() {
    let long = "Get a user. ".repeat(100_000);
    let names: Vec<String> = (0..10_000).map(|at| format!("parameter_{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let features = training::features_of(&tool(&"get_".repeat(10_000), &long, &names), true);
    assert!(features.len() < 400, "{}", features.len());
}

#[test]
fn every_verb_is_listed_once_and_known_by_its_class() {
    let lines = include_str!("data/verbs.txt").lines().filter(|line| !line.starts_with('#'));
    let mut listed = std::collections::BTreeSet::new();
    for (class, verbs) in lines.filter_map(|line| line.split_once(':')) {
        for word in verbs.split_whitespace().map(|word| word.trim_end_matches('~')) {
            assert!(listed.insert(word), "{word} is listed twice");
            assert_eq!(lexicon::verb(word).map(|verb| verb.class.word()), Some(class), "{word}");
        }
    }
    assert!(listed.len() > 400, "{}", listed.len());
}

#[test]
fn identifiers_come_apart_at_their_words() {
    let cases = [
        ("getUserById", "get user by id"),
        ("kv-namespace.create_v1", "kv namespace create"),
        ("VPS_getDNSRecordsV1", "vps get dns records"),
        ("listAPIs", "list apis"),
        ("NuGetPackageSearch", "nuget package search"),
        ("S3Upload", "s3 upload"),
        ("", ""),
    ];
    for (identifier, expected) in cases {
        assert_eq!(words::split_identifier(identifier).join(" "), expected, "{identifier}");
    }
}

/// Descriptors made of words from real ones, and of arbitrary text.
fn descriptors() -> impl Strategy<Value = Descriptor> {
    let vocabulary = "get list create delete update merge search query run send pull request issue branch user file image sql \
                      command returns read-only not and or , . the a 查询 \u{1f680} path output_dir action";
    let words: Vec<&'static str> = vocabulary.split_whitespace().collect();
    let some = proptest::collection::vec(proptest::sample::select(words), 0..9);
    let hint = proptest::option::of(any::<bool>());
    (some.clone(), some.clone(), some, any::<String>(), hint.clone(), hint).prop_map(
        |(name, description, parameters, anything, read_only_hint, destructive_hint)| Descriptor {
            title: Some(anything.clone()),
            description: Some(format!("{} {anything}", description.join(" "))),
            annotations: Some(Annotations { read_only_hint, destructive_hint, ..Annotations::default() }),
            ..tool(&name.join("_"), "", &parameters)
        },
    )
}

proptest! {
    #[test]
    fn a_tool_looks_exactly_when_it_is_pure(descriptor in descriptors(), names: bool, annotations: bool) {
        let behaviour = classify(&descriptor, ClassifierOptions { names, annotations }).behaviour;
        let looks = matches!(behaviour.action, Action::Read | Action::Search);
        prop_assert_eq!(looks, behaviour.mutability == Mutability::Pure);
    }

    #[test]
    fn hints_never_make_a_tool_safer(descriptor in descriptors(), names: bool) {
        let without = mutates(&descriptor, ClassifierOptions { names, annotations: false });
        let with = mutates(&descriptor, ClassifierOptions { names, annotations: true });
        prop_assert!(with || !without);
    }

    #[test]
    fn the_same_descriptor_is_always_the_same(descriptor in descriptors(), names: bool) {
        let options = ClassifierOptions { names, annotations: true };
        prop_assert_eq!(classify(&descriptor, options), classify(&descriptor.clone(), options));
    }
}
