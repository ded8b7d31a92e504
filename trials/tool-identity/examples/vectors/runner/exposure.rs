//! Vectors of the names under which tools of servers are exposed.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tool_identity::{
    IdentityError, PublicName,
    exposure::{Exposure, ListedServer, Origin, base_name, expose, prefixed, safe_part, shorten, unprefixed},
};

use super::{
    Answer,
    fixtures::{enabled_handoffs, flag, is_enabled, list, member, text, tools},
    lookups::policy,
};

pub(crate) fn answer(function: &str, input: &Value) -> Option<Answer> {
    Some(Answer::Given(match function {
        "mcp_safe_part" => Ok(json!(safe_part(text(input, "value"), text(input, "fallback")))),
        "mcp_base_name" => Ok(json!(base_name(text(input, "server"), text(input, "tool")))),
        "mcp_shorten_name" => {
            Ok(json!(shorten(text(input, "base_name"), text(input, "seed"), flag(input, "force_hash"))))
        }
        "mcp_prefixed_names" => Ok(with_prefix(input)),
        "mcp_unprefixed_names" => with_servers(input, |servers| {
            Ok(unprefixed(servers)?.into_iter().map(|tool| json!(tool.exposed)).collect())
        }),
        "exposed_inventory" => inventory(input),
        "mcp_server_display_name" => {
            return Some(Answer::Declined("a gateway names servers by their configured id, never by their address"));
        }
        _ => return None,
    }))
}

fn with_servers<R>(input: &Value, then: impl FnOnce(&[ListedServer<'_>]) -> R) -> R {
    let texts = |tools: &[Value]| tools.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let lists: Vec<Vec<String>> = list(input, "servers").iter().map(|server| texts(list(server, "tools"))).collect();
    let servers = list(input, "servers").iter().zip(&lists);
    let servers: Vec<ListedServer<'_>> =
        servers.map(|(server, tools)| ListedServer { name: text(server, "name"), tools }).collect();
    then(&servers)
}

fn with_prefix(input: &Value) -> Value {
    let taken: BTreeSet<&str> = list(input, "reserved").iter().filter_map(Value::as_str).collect();
    with_servers(input, |servers| {
        let exposed = prefixed(servers, &taken).into_iter();
        exposed
            .map(|tool| json!({ "server_index": tool.server_index, "tool": tool.tool, "exposed": tool.exposed }))
            .collect()
    })
}

fn inventory(input: &Value) -> Result<Value, IdentityError> {
    let (local, disabled): (Vec<_>, Vec<_>) = tools(input).into_iter().partition(|tool| is_enabled(&tool.target));
    let handoffs = enabled_handoffs(input);
    let exposure = if flag(input, "prefix") { Exposure::Prefixed } else { Exposure::Unprefixed };
    with_servers(input, |servers| {
        let inventory = expose(servers, &local, &disabled, &handoffs, (exposure, policy(input)))?;
        let tools = inventory.tools.iter().map(|tool| {
            let name = tool.identity.name.as_ref().map_or("", PublicName::as_str);
            match &tool.target {
                Origin::Server { index, .. } => {
                    let server = servers.get(*index).map(|server| server.name);
                    json!({ "origin": "mcp", "server": server, "name": name })
                }
                Origin::Local(local) => json!({ "origin": "local", "id": member(local, "id"), "name": name }),
            }
        });
        let handoffs = inventory.handoffs.iter().map(|handoff| json!(handoff.name.as_str()));
        Ok(json!({ "tools": tools.collect::<Vec<_>>(), "handoffs": handoffs.collect::<Vec<_>>() }))
    })
}
