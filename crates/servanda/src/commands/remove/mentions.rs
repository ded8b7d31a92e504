//! Finds what still mentions a removed server: clients' files, policies, budgets, and contracts of other servers that call its tools.

use std::path::PathBuf;

use servanda_clients::{ClientFolders, KnownClient, notation::Notation};
use servanda_config::LoadedConfig;
use servanda_contract::ToolContract;

use crate::{contracts, files, policies};

/// How much of a client's file is read.
const CLIENT_BYTES_MAX: u64 = 64 << 20;

/// One sentence per mention that says where it is. `contracts` are the names of the removed contracts.
pub(super) fn find(loaded: &LoadedConfig, server: &str, contracts: &[String]) -> Vec<String> {
    let mut found = in_budgets(loaded, contracts);
    found.extend(in_policies(loaded, server, contracts));
    found.extend(in_contracts(loaded, server, contracts));
    found.extend(in_clients(server));
    found
}

fn in_budgets(loaded: &LoadedConfig, contracts: &[String]) -> Vec<String> {
    let allowances = loaded.config.allowances();
    let of_tool = allowances.iter().enumerate().filter_map(|(number, one)| Some((number, one.only.tool.as_ref()?)));
    let gone = of_tool.filter(|(_, tool)| contracts.contains(tool));
    let file = loaded.file.display();
    gone.map(|(number, tool)| {
        format!("`budgets[{number}]` in {file} is about `{tool}`: remove it, or `servanda check` fails")
    })
    .collect()
}

fn in_policies(loaded: &LoadedConfig, server: &str, contracts: &[String]) -> Vec<String> {
    let mut words = vec![format!("Upstream::\"{server}\"")];
    words.extend(contracts.iter().flat_map(|name| [format!("call:{name}\""), format!("Tool::\"{name}\"")]));
    let mentions = |file: &PathBuf| {
        let text = files::read_text(file, files::TEXT_BYTES_MAX).ok()?;
        let is_named = words.iter().any(|word| text.contains(word));
        is_named.then(|| {
            format!("{} names `{server}` or a tool of it: change it, or `servanda check` fails", file.display())
        })
    };
    policies::watched(loaded).iter().filter_map(mentions).collect()
}

fn in_contracts(loaded: &LoadedConfig, server: &str, contracts: &[String]) -> Vec<String> {
    let asks = |(file, contract): &(PathBuf, ToolContract)| {
        let asked = contracts::asked_tools(contract).find(|(_, tool)| contracts.contains(tool));
        asked.filter(|_| contract.binding.upstream != server).map(|(member, tool)| {
            format!("`{member}` in {} asks `{tool}`: change it, or `servanda check` fails", file.display())
        })
    };
    contracts::readable(loaded).iter().filter_map(asks).collect()
}

fn in_clients(server: &str) -> Vec<String> {
    let Some(around) = ClientFolders::from_environment() else { return Vec::new() };
    let mut clients: Vec<_> =
        KnownClient::all().iter().flat_map(|client| client.files(&around)).map(|(_, file)| file).collect();
    clients.sort();
    clients.dedup();
    let lists = |file: &PathBuf| {
        let text = files::read_text(file, CLIENT_BYTES_MAX).ok()?;
        let servers = Notation::detect(file, &text).servers(&text).ok()?;
        let file = around.shown(file);
        servers
            .iter()
            .any(|(name, _)| name == server)
            .then(|| format!("{file} still lists `{server}`: the agent reaches it without the gateway"))
    };
    clients.iter().filter_map(lists).collect()
}
