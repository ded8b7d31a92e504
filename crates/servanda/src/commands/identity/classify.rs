//! `servanda identity classify`: what tools do, as far as their definitions tell, with the evidence.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use servanda_identity::classifier::{Classification, Descriptor, Options, classify};

use super::lines::{self, Answer};
use crate::{failure::Failure, screen::Screen};

/// A tool's definition, with whatever else stands beside it.
#[derive(Deserialize)]
struct Tool {
    #[serde(default)]
    id: Option<Value>,
    #[serde(flatten)]
    descriptor: Descriptor,
}

pub(super) fn run(file: &Path, options: Options, screen: Screen) -> Result<(), Failure> {
    lines::answer_each(file, screen, |line| answer(line, options))
}

fn answer(line: &[u8], options: Options) -> Answer {
    match serde_json::from_slice::<Tool>(line) {
        Ok(tool) => Answer { line: classified(tool, options), fault: None },
        Err(error) => {
            let fault = format!("it is no tool's definition: {}", lines::reason(&error));
            // Nothing is known of it: the line says so, and keeps its place.
            Answer {
                line: json!({ "id": null, "error": format!("the line could not be read: {fault}") }),
                fault: Some(fault),
            }
        }
    }
}

fn classified(tool: Tool, options: Options) -> Value {
    let Classification { behaviour, confidence, evidence, .. } = classify(&tool.descriptor, options);
    json!({
        "id": tool.id.unwrap_or_else(|| tool.descriptor.name.into()),
        "mutability": behaviour.mutability,
        "action": behaviour.action,
        "output_domain": behaviour.output_domain,
        "content_type": behaviour.content_type,
        "confidence": confidence,
        "evidence": evidence,
    })
}
