//! Whether the database login behind a read-only tool could write. A login that cannot write is the second protection behind gate 6. The
//! tool itself queries the database, with one statement that reads the login's permissions.
//!
//! SQLite is not queried, because it has no logins and does not tell how its file was opened.

use std::time::Duration;

use serde_json::{Value, json, value::to_raw_value};
use servanda_catalog::Catalog;
use servanda_contract::{ToolContract, tool::Mutability};
use servanda_mcp::fields::method;
use servanda_upstream::{RequestOptions, Upstream, UpstreamInquiry};
use tokio::time::Instant;

use super::DoctorFindings;

/// How long a database has to answer.
const ANSWER_MS_MAX: u64 = 10_000;
const SETUP: &str = "give its server a login that cannot write; docs/behavioural-identity.md begins with how";

/// Words that only the answers to our statements contain.
const WRITES: &str = "servanda_login_writes";
const READS: &str = "servanda_login_reads";

const POSTGRESQL: &str = "SELECT CASE WHEN EXISTS (SELECT 1 FROM pg_roles WHERE rolname = current_user AND rolsuper) \
    OR EXISTS (SELECT 1 FROM pg_class WHERE relkind IN ('r', 'p', 'v', 'f') \
        AND relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname NOT LIKE 'pg_%' AND nspname <> 'information_schema') \
        AND (has_table_privilege(oid, 'INSERT') OR has_table_privilege(oid, 'UPDATE') OR has_table_privilege(oid, 'DELETE'))) \
    THEN 'servanda_login_writes' ELSE 'servanda_login_reads' END AS login";
const MYSQL: &str = "SELECT CASE WHEN COUNT(*) > 0 THEN 'servanda_login_writes' ELSE 'servanda_login_reads' END AS login \
    FROM (SELECT privilege_type FROM information_schema.user_privileges \
        UNION ALL SELECT privilege_type FROM information_schema.schema_privileges \
        UNION ALL SELECT privilege_type FROM information_schema.table_privileges) AS granted \
    WHERE privilege_type NOT IN ('USAGE', 'SELECT', 'SHOW VIEW', 'SHOW DATABASES')";

/// Queries the database behind every read-only tool of an upstream that takes SQL.
pub(super) async fn look(id: &str, upstream: &Upstream, catalog: &Catalog, findings: &mut DoctorFindings) {
    for (name, entry) in catalog.entries() {
        let contract = entry.contract.contract();
        if contract.binding.upstream != id || contract.mutability() != Mutability::Pure {
            continue;
        }
        let arguments: Vec<_> = entry.contract.program_arguments().collect();
        for argument in &arguments {
            let statements: &[&str] = match argument.kind {
                "postgresql" => &[POSTGRESQL],
                "mysql" => &[MYSQL],
                "sql" => &[POSTGRESQL, MYSQL],
                _ => continue,
            };
            let what = format!("database of {name}");
            if !takes_alone(contract, &argument.place) {
                findings.note(what, "the tool wants more than a statement, so nothing was asked", SETUP);
                continue;
            }
            match ask(upstream, &contract.binding.tool, &argument.place, statements).await {
                Some(true) => findings.bad(what, "its login may write: gate 6 is the only protection", SETUP),
                Some(false) => findings.good(what, "its login cannot write"),
                None => findings.note(what, "it did not say what its login may do", SETUP),
            }
        }
    }
}

/// Whether a call needs no other argument.
fn takes_alone(contract: &ToolContract, argument: &str) -> bool {
    let required = contract.affordance.input_schema.get("required").and_then(Value::as_array);
    required.is_none_or(|required| required.iter().all(|name| name == argument))
}

/// Whether the login may write; none if no answer tells.
async fn ask(upstream: &Upstream, tool: &str, argument: &str, statements: &[&str]) -> Option<bool> {
    for statement in statements {
        let arguments = json!({ argument: statement });
        let params = [("name", json!(tool)), ("arguments", arguments)];
        let params = params.into_iter().map(|(name, value)| Some((name.to_owned(), to_raw_value(&value).ok()?)));
        let question = UpstreamInquiry {
            method: method::TOOLS_CALL,
            name: Some(tool.to_owned()),
            params: params.collect::<Option<_>>()?,
        };
        let deadline = Instant::now() + Duration::from_millis(ANSWER_MS_MAX);
        let Ok(answer) = upstream.ask(question, RequestOptions::for_gateway(deadline)).await else { continue };
        let said = String::from_utf8_lossy(&answer.result);
        // A server that echoes the statement in its answer echoes both words, which tells nothing.
        match (said.contains(WRITES), said.contains(READS)) {
            (true, false) => return Some(true),
            (false, true) => return Some(false),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use servanda_identity::effects::{ProgramEffect, ProgramLanguage, SqlDialect, classify};

    use super::{MYSQL, POSTGRESQL};

    #[test]
    fn what_is_asked_only_reads() {
        for (statement, dialect) in [(POSTGRESQL, SqlDialect::Postgres), (MYSQL, SqlDialect::MySql)] {
            assert_eq!(classify(ProgramLanguage::Sql(dialect), statement).effect, ProgramEffect::Read, "{statement}");
        }
    }
}
