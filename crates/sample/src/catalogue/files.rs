//! Files: a small shared drive.
//!
//! The drive is a table; no path given here ever reaches the real file system.

use rusqlite::{OptionalExtension, Transaction};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::arguments::{Arguments, decode};
use crate::company::{Company, CompanyEffect, record_effect};
use crate::failure::{SampleToolFailure, SampleToolOutcome};
use crate::schema;
use crate::tool::{Hints, SampleTool, ToolRunner};

const PATH_LENGTH_MAX: usize = 200;
const CONTENT_BYTES_MAX: usize = 64 * 1024;

pub(super) const TOOLS: &[SampleTool] = &[
    SampleTool {
        name: "read_file",
        title: "Read a file",
        description: "Read one text file of the shared drive by its full path. Does not list folders; \
            use list_files for that.",
        input: || schema::full_object(json!({ "path": path_schema() })),
        output: Some(|| schema::full_object(json!({ "path": path_schema(), "content": { "type": "string" } }))),
        hints: Hints::Reads,
        run: ToolRunner::AtOnce(read_file),
    },
    SampleTool {
        name: "list_files",
        title: "List files",
        description: "List the paths and sizes of files on the shared drive, optionally only those that \
            start with a prefix. Does not return their content.",
        input: || {
            schema::object(
                &[],
                json!({ "prefix": { "type": "string", "maxLength": PATH_LENGTH_MAX, "description": "Start of the path, e.g. /policies/." } }),
            )
        },
        output: Some(|| {
            let file = schema::full_object(json!({ "path": path_schema(), "bytes": size_schema() }));
            schema::full_object(json!({ "files": schema::list(file) }))
        }),
        hints: Hints::Reads,
        run: ToolRunner::AtOnce(list_files),
    },
    SampleTool {
        name: "write_file",
        title: "Write a file",
        description: "EXECUTE ONLY to create or replace one text file on the shared drive. Replacing \
            keeps no earlier version. Does not append, and does not create empty folders.",
        input: || {
            schema::full_object(json!({
                "path": path_schema(),
                "content": { "type": "string", "maxLength": CONTENT_BYTES_MAX, "description": "The whole new content." },
            }))
        },
        output: Some(|| {
            schema::full_object(json!({
                "path": path_schema(),
                "bytes": size_schema(),
                "replaced": { "type": "boolean", "description": "Whether a file of that path existed before." },
            }))
        }),
        hints: Hints::Replaces,
        run: ToolRunner::AtOnce(write_file),
    },
    SampleTool {
        name: "delete_file",
        title: "Delete a file",
        description: "EXECUTE ONLY to remove one file from the shared drive. There is no bin to restore \
            it from. Does not accept folders, prefixes or wildcards.",
        input: || schema::full_object(json!({ "path": path_schema() })),
        output: Some(|| schema::full_object(json!({ "path": path_schema() }))),
        hints: Hints::Replaces,
        run: ToolRunner::AtOnce(delete_file),
    },
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FilePath {
    path: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListFiles {
    prefix: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WriteFile {
    path: String,
    content: String,
}

/// Writes a file and counts it; returns whether one was replaced.
pub(super) fn store_file(transaction: &Transaction<'_>, path: &str, content: &str) -> Result<bool, SampleToolFailure> {
    let replaced =
        transaction.query_row("SELECT 1 FROM files WHERE path = ?1", [path], |_| Ok(())).optional()?.is_some();
    transaction.execute(
        "INSERT INTO files (path, content) VALUES (?1, ?2)
         ON CONFLICT (path) DO UPDATE SET content = excluded.content",
        [path, content],
    )?;
    record_effect(transaction, CompanyEffect::FileWrite, path)?;
    Ok(replaced)
}

fn read_file(company: &Company, arguments: Arguments) -> SampleToolOutcome {
    let FilePath { path } = decode(arguments)?;
    company.read(|connection| {
        let content: String = connection
            .query_row("SELECT content FROM files WHERE path = ?1", [&path], |row| row.get(0))
            .optional()?
            .ok_or_else(|| no_such_file(&path))?;
        Ok(json!({ "path": path, "content": content }))
    })
}

fn list_files(company: &Company, arguments: Arguments) -> SampleToolOutcome {
    let ListFiles { prefix } = decode(arguments)?;
    company.read(|connection| {
        let mut statement = connection.prepare_cached(
            "SELECT path, OCTET_LENGTH(content) FROM files
              WHERE INSTR(path, ?1) = 1 OR ?1 = '' ORDER BY path",
        )?;
        let rows = statement.query_map([prefix.unwrap_or_default()], |row| {
            Ok(json!({ "path": row.get::<_, String>(0)?, "bytes": row.get::<_, i64>(1)? }))
        })?;
        let files = rows.collect::<rusqlite::Result<Vec<Value>>>()?;
        Ok(json!({ "files": files }))
    })
}

fn write_file(company: &Company, arguments: Arguments) -> SampleToolOutcome {
    let WriteFile { path, content } = decode(arguments)?;
    let absolute = path.starts_with('/') && path.len() > 1 && path.len() <= PATH_LENGTH_MAX;
    if !absolute || path.split('/').any(|segment| segment == "..") {
        return Err(SampleToolFailure::declined(
            "`path` must be absolute, like /notes/today.md, and must not climb with `..`",
        ));
    }
    if content.len() > CONTENT_BYTES_MAX {
        let text = format!("`content` must not exceed {CONTENT_BYTES_MAX} bytes");
        return Err(SampleToolFailure::declined(text));
    }
    company.change(|transaction| {
        let replaced = store_file(transaction, &path, &content)?;
        Ok(json!({ "path": path, "bytes": content.len(), "replaced": replaced }))
    })
}

fn delete_file(company: &Company, arguments: Arguments) -> SampleToolOutcome {
    let FilePath { path } = decode(arguments)?;
    company.change(|transaction| {
        let deleted = transaction.execute("DELETE FROM files WHERE path = ?1", [&path])?;
        if deleted == 0 {
            return Err(no_such_file(&path));
        }
        record_effect(transaction, CompanyEffect::FileDelete, &path)?;
        Ok(json!({ "path": path }))
    })
}

fn no_such_file(path: &str) -> SampleToolFailure {
    SampleToolFailure::declined(format!("no such file: `{path}`"))
}

fn path_schema() -> Value {
    json!({
        "type": "string",
        "pattern": "^/.+",
        "maxLength": PATH_LENGTH_MAX,
        "description": "Full path on the shared drive, e.g. /policies/refunds.md.",
    })
}

fn size_schema() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}
