mod gold;

use serde_json::{Value, json};
use servanda_contract::tool::{DataClassification, SideEffectClass, TimeoutClass};

use super::{InferredContract, ToolReach, infer};
use crate::{pins::Definition, review, testing::shared};

fn read(definition: Value) -> Definition {
    serde_json::from_value(definition).unwrap()
}

fn reach(name: &str, annotations: &Value, properties: &Value) -> ToolReach {
    let definition = json!({
        "name": name,
        "inputSchema": { "type": "object", "properties": properties },
        "annotations": annotations,
    });
    infer("up", &read(definition)).unwrap().reading.reach
}

#[test]
fn names_and_hints_are_weighed() {
    use ToolReach::{Critical, External, Internal, Minor, ReadOnly, Temporary};
    let none = json!({});
    let read = json!({ "readOnlyHint": true });
    // That a server reaches outside makes no tool graver.
    let open = json!({ "openWorldHint": true });
    let open_read = json!({ "openWorldHint": true, "readOnlyHint": true });
    let cases = [
        ("read_file", &none, ReadOnly),
        ("get_order", &none, ReadOnly),
        ("list_commits", &none, ReadOnly),
        ("listIssues", &none, ReadOnly),
        ("search_code", &none, ReadOnly),
        ("git_status", &none, ReadOnly),
        // An unexplained noun is no evidence; the author's hint is, if nothing contradicts it.
        ("git_log", &read, ReadOnly),
        ("git_log", &none, External),
        ("directory_tree", &read, ReadOnly),
        ("git_diff_staged", &none, External),
        ("monthly_report", &none, ReadOnly),
        ("get_comments", &none, ReadOnly),
        ("log_delete", &none, Critical),
        ("logs_purge", &none, Critical),
        ("history_clear", &none, Critical),
        ("find_replace", &none, Internal),
        ("status_update", &none, Internal),
        ("info_set", &none, Internal),
        ("log_event", &none, External),
        ("check_out_book", &none, Internal),
        ("order_pizza", &none, Critical),
        // The seed names it: a customer's profile is visible outside.
        ("update_customer_email", &none, External),
        ("git_commit", &none, Internal),
        ("git_checkout", &none, Internal),
        ("write_file", &none, Internal),
        ("create_directory", &none, Minor),
        ("move_file", &none, Internal),
        ("merge_pull_request", &none, External),
        ("push_files", &none, External),
        ("power-off-droplet", &none, External),
        ("browser_hover", &open, Temporary),
        ("browser_snapshot", &open_read, ReadOnly),
        ("update_page", &open, Internal),
        ("send_mail", &none, External),
        ("delete_file", &none, Critical),
        ("git_reset", &none, External),
        ("pay_invoice", &none, Critical),
        ("execute", &none, Critical),
        ("frobnicate", &none, External),
        ("frobnicate", &read, ReadOnly),
        // The author's hint never makes a dangerous name harmless.
        ("delete_everything", &read, Critical),
        ("misbehave_read_that_writes", &read, External),
        ("read_and_delete", &read, Critical),
    ];
    let wrong: Vec<String> = cases
        .iter()
        .map(|(name, hints, expected)| (name, hints, reach(name, hints, &json!({})), *expected))
        .filter(|(_, _, found, expected)| found != expected)
        .map(|(name, hints, found, expected)| format!("{name} {hints}: {found:?}, not {expected:?}"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let contradicted = json!({ "readOnlyHint": false });
    assert_eq!(reach("get_thing", &contradicted, &json!({})), Internal);
}

/// Name, description, `readOnlyHint`, `destructiveHint`, and the proposal: behaviour, reach, whether it is certain, and what to
/// review.
type Case = (&'static str, &'static str, Option<bool>, Option<bool>, &'static str, ToolReach, bool, &'static str);

const YES: Option<bool> = Some(true);
const NO: Option<bool> = Some(false);

const DISAGREEMENTS: [Case; 12] = [
    ("git_log", "Shows the commit logs.", YES, None, "PURE|READ|REF|TEXT", ToolReach::ReadOnly, true, ""),
    ("get_thing", "Get one thing by its id.", None, None, "PURE|READ|DATA|TEXT", ToolReach::ReadOnly, true, ""),
    (
        "get_thing",
        "Get one thing by its id.",
        NO,
        None,
        "MUTATES|UPDATE|DATA|TEXT",
        ToolReach::Internal,
        false,
        "its author says that it changes something (readOnlyHint: false), its definition that it looks: `get` in its name",
    ),
    (
        "get_thing",
        "Get one thing by its id.",
        None,
        YES,
        "MUTATES|UPDATE|DATA|TEXT",
        ToolReach::Internal,
        false,
        "its author says that it changes something (destructiveHint: true), its definition that it looks: `get` in its name",
    ),
    ("get_thing", "Get one thing by its id.", YES, YES, "PURE|READ|DATA|TEXT", ToolReach::ReadOnly, true, ""),
    (
        "delete_view",
        "Delete a view.",
        YES,
        None,
        "MUTATES|DELETE|ACK|TEXT",
        ToolReach::Critical,
        false,
        "its author says read-only, but: `delete` in its name",
    ),
    (
        "delete_view",
        "Delete a view.",
        NO,
        NO,
        "MUTATES|DELETE|ACK|TEXT",
        ToolReach::Critical,
        true,
        "its author says that it destroys nothing, but: `delete` in its name",
    ),
    (
        "create_page",
        "Create a page.",
        NO,
        YES,
        "MUTATES|OVERWRITE|ACK|TEXT",
        ToolReach::External,
        false,
        "its author says that it may destroy (destructiveHint: true), its definition that it adds: `create` in its name",
    ),
    (
        "create_page",
        "Create a page.",
        YES,
        YES,
        "MUTATES|CREATE|ACK|TEXT",
        ToolReach::Internal,
        false,
        "its author says read-only, but: `create` in its name",
    ),
    ("update_page", "Update a page.", NO, YES, "MUTATES|UPDATE|ACK|TEXT", ToolReach::Internal, true, ""),
    ("send_mail", "Send a mail to somebody.", None, None, "MUTATES|CREATE|ACK|TEXT", ToolReach::External, true, ""),
    ("get_photo", "Get the image of an item.", None, None, "PURE|READ|CONTENT|BINARY", ToolReach::ReadOnly, true, ""),
];

#[test]
fn the_more_dangerous_of_author_and_definition_is_proposed() {
    for case in DISAGREEMENTS {
        let (name, description, read_only, destructive, words, reach, certain, review) = case;
        let hints = json!({ "readOnlyHint": read_only, "destructiveHint": destructive });
        let definition = json!({ "name": name, "description": description, "annotations": hints });
        let reading = infer("up", &read(definition)).unwrap().reading;
        let disagreements = reading.disagreements.join("; ");
        let found = (reading.behaviour.extended_words(), reading.reach, reading.certain, disagreements);
        assert_eq!(found, (words.to_owned(), reach, certain, review.to_owned()), "{case:?}");
    }
}

#[test]
fn an_argument_that_is_a_program_outweighs_the_name() {
    let (sql, none) = (json!({ "sql": { "type": "string" } }), json!({}));
    assert_eq!(reach("apply_rows", &none, &sql), ToolReach::Critical);
    assert_eq!(reach("run_rows", &json!({ "readOnlyHint": true }), &sql), ToolReach::Critical);
    // The behaviour gate reads the argument of a read-only tool, and refuses a program that changes something.
    assert_eq!(reach("read_rows", &none, &sql), ToolReach::ReadOnly);
    assert_eq!(reach("search_docs", &none, &json!({ "query": { "type": "string" } })), ToolReach::ReadOnly);
}

/// Neither its name nor a description or annotation that says "read-only" changes that.
#[test]
fn a_tool_that_takes_text_for_a_shell_is_never_proposed_as_reading() {
    for (name, description) in
        [("list_files", "Lists files with a shell command"), ("get_info", "Read-only shell commands")]
    {
        for argument in ["command", "cmd"] {
            let definition = json!({
                "name": name, "description": description, "annotations": { "readOnlyHint": true },
                "inputSchema": { "type": "object", "properties": { argument: { "type": "string", "description": "The shell command" } } },
            });
            let InferredContract { reading, .. } = infer("up", &read(definition)).unwrap();
            assert_eq!(
                (reading.reach, reading.certain),
                (ToolReach::Critical, false),
                "{name} {argument}: {}",
                reading.why
            );
            assert_eq!(reading.behaviour.mutability.word(), "MUTATES");
        }
    }
}

#[test]
fn long_work_is_what_says_so() {
    let cases = [
        ("create_page", "Create a page.", None, false),
        ("frobnicate", "", None, false),
        ("delete_everything", "Deletes all there is.", None, false),
        ("create_task", "Create a task in a project.", None, false),
        ("list_jobs", "List the jobs of a pipeline. Poll for their status.", None, false),
        ("get_task", "Get a background check of a person.", None, false),
        ("start_export", "Starts an export job and returns a job id to poll with.", None, true),
        ("research", "A long-running search over many sources.", None, true),
        ("research", "Researches; this may take several minutes.", None, true),
        ("renderAsync", "Render a film.", None, true),
        ("render", "Render a film in the background.", None, true),
        ("render", "Render a film asynchronously.", None, true),
        ("get_page", "Get a page.", Some("optional"), true),
        ("get_page", "Get a page.", Some("required"), true),
        ("get_page", "Get a page.", Some("forbidden"), false),
    ];
    for (name, description, task_support, long) in cases {
        let mut definition = json!({ "name": name, "description": description });
        if let Some(task_support) = task_support {
            definition["execution"] = json!({ "taskSupport": task_support });
        }
        let contract = infer("up", &read(definition)).unwrap().contract;
        assert_eq!(contract.is_long(), long, "{name}: {description} {task_support:?}");
    }
}

/// A tool without measurements has a limit that real tools keep: a write of six seconds is not aborted.
#[test]
fn a_look_has_half_a_minute_a_change_a_minute_and_long_work_five() {
    let rows = [
        ("get_page", "Get a page.", TimeoutClass::Unmeasured, 30_000),
        ("create_page", "Create a page.", TimeoutClass::Unmeasured, 60_000),
        ("send_mail", "Send a mail.", TimeoutClass::Unmeasured, 60_000),
        ("frobnicate", "", TimeoutClass::Unmeasured, 60_000),
        ("render", "Render a film in the background.", TimeoutClass::LongRunning, 300_000),
    ];
    for (name, description, class, limit_ms) in rows {
        let contract = infer("up", &read(json!({ "name": name, "description": description }))).unwrap().contract;
        let found = (contract.execution.as_ref().unwrap().timeout_class, contract.timeout_ms());
        assert_eq!(found, (class, limit_ms), "{name}");
    }
}

#[test]
fn looks_that_show_secrets_say_so() {
    let rows = [
        ("get-env", "Returns all environment variables.", true),
        ("printEnv", "Prints all environment variables, helpful for debugging.", true),
        ("list_api_keys", "List the API keys of an account.", true),
        ("get_device_otp", "Get the OTP of a device.", true),
        ("get_kubeconfig", "Get the kubeconfig of a cluster.", true),
        ("list_secrets", "List secrets; values are masked.", false),
        ("get_page", "Get a page.", false),
        ("count_tokens", "Count the tokens of a text.", false),
        ("delete_secret", "Delete a secret.", false),
    ];
    for (name, description, secret) in rows {
        let inferred = infer("up", &read(json!({ "name": name, "description": description }))).unwrap();
        let classified = inferred.contract.security.data_classification == DataClassification::Secret;
        let noted = inferred.notes.iter().any(|note| note.contains("reads secrets"));
        assert_eq!((classified, noted), (secret, secret), "{name}");
    }
}

#[test]
fn every_proposal_is_admitted() {
    for name in ["read_file", "write_file", "send_mail", "delete_file", "frobnicate", "naïve name/ü"] {
        let inferred = infer("up", &read(json!({ "name": name, "inputSchema": { "type": "object" } }))).unwrap();
        let admitted = servanda_gates::admit(inferred.contract, &servanda_gates::RegisteredContracts::new());
        assert!(admitted.is_ok(), "{name}: {}", admitted.unwrap_err());
    }
}

#[test]
fn what_cannot_be_enforced_is_left_out_and_said() {
    let definition = json!({
        "name": "read_x",
        "inputSchema": { "properties": { "a": { "type": "string", "pattern": "^(?=.*x)" }, "b": { "pattern": "^b+$" } } },
        "outputSchema": { "type": "nonsense" },
    });
    let inferred = infer("up", &read(definition)).unwrap();
    assert_eq!(inferred.notes.len(), 3, "{:?}", inferred.notes);
    let schema = Value::Object((*inferred.contract.affordance.input_schema).clone());
    assert_eq!(schema.pointer("/properties/a/pattern"), None);
    assert_eq!(schema.pointer("/properties/b/pattern"), Some(&json!("^b+$")));
    assert!(servanda_gates::admit(inferred.contract, &servanda_gates::RegisteredContracts::new()).is_ok());
}

/// Compares with 2,675 tools whose authors said whether they only read: how often is a tool called read-only that its author
/// says writes? That direction is dangerous, and bounded here; the other costs only comfort.
#[test]
fn real_tools_are_seldom_taken_for_harmless() {
    let Some(file) = shared("corpora/tools/tools.jsonl") else { return };
    let lines = std::fs::read_to_string(file).unwrap();
    let (mut writers, mut taken_for_readers, mut readers, mut seen_as_readers) = (0, 0, 0, 0);
    let (mut refused, mut long) = (0, 0);
    for (number, line) in lines.lines().enumerate() {
        let tool: Value = serde_json::from_str(line).unwrap();
        let hint = tool.pointer("/annotations/readOnlyHint").and_then(Value::as_bool);
        // Judged without the author's hint, so that the two can be compared.
        let definition = json!({
            "name": tool["name"],
            "description": tool["description"],
            "inputSchema": tool["input_schema"].as_object().cloned().unwrap_or_default(),
        });
        let inferred = infer("up", &read(definition)).unwrap();
        let reads = inferred.reading.reach == ToolReach::ReadOnly;
        long += usize::from(inferred.contract.is_long());
        match hint {
            Some(false) => (writers, taken_for_readers) = (writers + 1, taken_for_readers + usize::from(reads)),
            Some(true) => (readers, seen_as_readers) = (readers + 1, seen_as_readers + usize::from(reads)),
            None => {}
        }
        // Every schema of the corpus is compiled by the contract crate's own test; a sample is enough here.
        if number % 10 == 0 {
            refused += usize::from(
                servanda_gates::admit(inferred.contract, &servanda_gates::RegisteredContracts::new()).is_err(),
            );
        }
    }
    println!(
        "writers taken for readers: {taken_for_readers} of {writers}; readers seen as readers: {seen_as_readers} of {readers}; not admissible: {refused}; long: {long}"
    );
    assert!(taken_for_readers * 100 < writers, "{taken_for_readers} of {writers} writers were taken for readers");
    assert!(seen_as_readers * 100 > readers * 93, "only {seen_as_readers} of {readers} readers were seen");
}

/// `init` always writes the dangerous side, so review has no objection and no person is asked.
#[test]
fn no_proposal_is_objected_to_by_its_own_definition() {
    let Some(file) = shared("corpora/tools/tools.jsonl") else { return };
    let (mut objected, mut reviews) = (Vec::new(), 0);
    for (number, line) in std::fs::read_to_string(file).unwrap().lines().enumerate() {
        let tool: Value = serde_json::from_str(line).unwrap();
        // Authors without hints cause no objections; a sample of them is enough.
        if number % 10 > 0 && tool["annotations"].is_null() {
            continue;
        }
        let definition = read(json!({
            "name": tool["name"],
            "title": tool["title"],
            "description": tool["description"],
            "inputSchema": tool["input_schema"].as_object().cloned().unwrap_or_default(),
            "annotations": tool["annotations"].as_object().cloned().unwrap_or_default(),
        }));
        let InferredContract { contract, reading, .. } = infer("up", &definition).unwrap();
        reviews += usize::from(!reading.disagreements.is_empty());
        if !review(&contract, &definition).open_objections().is_empty() {
            objected.push(tool["id"].clone());
        }
    }
    println!("author and definition disagree on {reviews} tools");
    assert_eq!(objected, Vec::<Value>::new());
}

/// A tool's name and description, an argument, and the proposed language.
#[test]
fn arguments_that_clearly_carry_a_program_are_marked() {
    let text = |told: &str| json!({ "type": "string", "description": told });
    let methods = json!({ "type": "string", "enum": ["GET", "post"] });
    let rows = [
        (
            "read_query",
            "Execute a SELECT query on the SQLite database",
            "query",
            text("The query to run"),
            Some("sqlite"),
        ),
        ("run", "", "sql", text(""), Some("sql")),
        ("run", "Runs it on MariaDB.", "sql_query", text(""), Some("mysql")),
        (
            "run",
            "Run a SQL query against PostgreSQL",
            "query",
            json!({ "type": ["string", "null"] }),
            Some("postgresql"),
        ),
        ("run", "On MySQL or PostgreSQL.", "statement", text("SQL to execute"), Some("sql")),
        ("logs", "Of a Postgres project.", "sql", text("A ClickHouse SQL query"), Some("sql")),
        (
            "execute",
            "",
            "query",
            json!({ "anyOf": [{ "type": "string" }, { "type": "null" }], "description": "SQL" }),
            Some("sql"),
        ),
        ("exec", "Execute a shell command.", "command", text(""), Some("shell")),
        ("exec", "", "cmd", text("The bash command to run"), Some("shell")),
        ("run_in_terminal", "", "command", text(""), Some("shell")),
        ("request", "", "method", methods, Some("http_method")),
        ("request", "", "httpMethod", text("HTTP method, GET if not said"), Some("http_method")),
        // Arguments that only look like programs.
        ("search_docs", "Search the SQL documentation", "query", text("What to look for"), None),
        ("search", "", "query", text("Search query"), None),
        ("ask", "Turns questions into SQL", "query", text("A question in natural language"), None),
        ("run", "NoSQL, and no SQL at all", "query", text("The query to execute"), None),
        ("run", "A SQL-like language", "query", text("The query to execute"), None),
        ("run", "Run a SQL++ query", "query", text(""), None),
        ("run", "Metrics, as SQL knows them", "query", text("The PromQL query to execute"), None),
        ("sql_lint", "", "sql", text("SQL to look at"), None),
        ("run", "", "query", json!({ "type": "object", "description": "SQL" }), None),
        ("run", "", "sql", json!({ "type": "string", "enum": ["SELECT 1"] }), None),
        ("exec", "Runs in a shell", "script", text("The Python script"), None),
        ("exec", "", "command", text("Which command of the menu"), None),
        ("exec", "In a shell", "command", json!({ "type": "array", "items": { "type": "string" } }), None),
        ("pay", "", "method", text("Of payment"), None),
        ("merge", "", "method", json!({ "type": "string", "enum": ["merge", "squash"] }), None),
    ];
    for (name, description, argument, schema, expected) in rows {
        let definition = json!({
            "name": name, "description": description,
            "inputSchema": { "type": "object", "properties": { argument: schema } },
        });
        let inferred = infer("up", &read(definition.clone())).unwrap();
        let marked = inferred.contract.affordance.input_schema["properties"][argument]["x-effect"].clone();
        let kind = marked.as_str().or_else(|| marked["kind"].as_str());
        assert_eq!(kind, expected, "{definition}");
        assert_eq!(inferred.notes.len(), usize::from(expected.is_some()), "{:?}", inferred.notes);
        let admitted = servanda_gates::admit(inferred.contract, &servanda_gates::RegisteredContracts::new()).unwrap();
        assert_eq!(admitted.program_arguments().next().map(|program| program.kind), expected);
    }
}

/// A call of a tool that only runs its program is as grave as the program; a tool that does more is not.
#[test]
fn the_program_decides_where_it_is_all_that_a_tool_does() {
    let rows = [
        ("write_query", "Execute an INSERT, UPDATE, or DELETE query on the SQLite database", "query", true),
        ("execute_sql", "Executes raw SQL in the Postgres database.", "query", true),
        ("run_command", "Run a shell command", "command", true),
        ("apply_migration", "Applies a migration, which is SQL, to the database.", "sql", false),
        ("grant_role", "Grant a role by SQL.", "sql", false),
        ("send_report", "Runs SQL and sends the rows by mail.", "sql", false),
    ];
    for (name, description, argument, decides) in rows {
        let definition = read(json!({
            "name": name, "description": description,
            "inputSchema": { "type": "object", "properties": { argument: { "type": "string" } }, "required": [argument] },
        }));
        let contract = infer("up", &definition).unwrap().contract;
        assert!(contract.transactional.side_effect_class >= SideEffectClass::HighRiskExternal, "{name}");
        let marked = &contract.affordance.input_schema["properties"][argument]["x-effect"];
        assert_eq!(marked["decides_class"] == json!(true), decides, "{name}: {marked}");
    }
}

/// The operator, not the author, says which arguments are programs.
#[test]
fn an_authors_own_marks_are_left_out() {
    let marked = json!({ "type": "string", "x-effect": "nonsense" });
    let definition = json!({
        "name": "read_x",
        "inputSchema": { "type": "object", "x-effect": 1, "properties": {
            "a": marked, "list": { "type": "array", "items": marked }, "x-effect": { "type": "string" },
        } },
    });
    let schema = infer("up", &read(definition)).unwrap().contract.affordance.input_schema;
    assert_eq!(
        Value::Object((*schema).clone())["properties"],
        json!({
            "a": { "type": "string" }, "list": { "type": "array", "items": { "type": "string" } },
            "x-effect": { "type": "string" },
        })
    );
}

/// A keyword that admission would refuse is not proposed, and the operator gets a note.
#[test]
fn a_program_that_a_schema_does_not_let_be_enforced_is_not_marked() {
    let definition = read(json!({
        "name": "run_sql", "description": "Runs SQL.",
        "inputSchema": { "type": "object", "properties": {
            "sql": { "type": "string" }, "more": { "$ref": "#/properties/sql" },
        } },
    }));
    let inferred = infer("up", &definition).unwrap();
    assert_eq!(inferred.contract.affordance.input_schema["properties"]["sql"], json!({ "type": "string" }));
    assert!(inferred.notes.iter().any(|note| note.contains("not read")), "{:?}", inferred.notes);
}
