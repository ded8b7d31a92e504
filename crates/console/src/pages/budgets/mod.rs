//! The page of budgets: what was used of each account, what the configuration grants, and the rates of tools. It only reads.

mod account_line;

use askama::Template;
use http::StatusCode;
use servanda_contract::{cost::decimal, legibility};
use servanda_doors::http::PageRequest;
use servanda_effects::budget::BudgetDimension;
use servanda_engine::oversight::{BudgetGrant, ToolOverview};

use self::account_line::AccountLine;
use crate::{context::ConsoleContext, fault::PageFault, reply::ConsoleReply, routing::tool_path, view::PageFrame};

/// The most rates on the page.
const PAGE_RATES: usize = 500;

/// The rate of one tool.
struct RateLine {
    href: String,
    tool: String,
    rate: String,
}

/// One entry of the configuration.
struct GrantLine {
    per: &'static str,
    counts: String,
    limit: String,
    period: &'static str,
    only: String,
}

#[derive(Template)]
#[template(path = "budgets.html")]
struct BudgetsPage {
    frame: PageFrame,
    tenant: String,
    accounts: Vec<AccountLine>,
    has_more: bool,
    grants: Vec<GrantLine>,
    rates: Vec<RateLine>,
    has_role: bool,
}

/// Shows the budgets.
pub(crate) async fn page(context: &ConsoleContext, request: &PageRequest) -> Result<ConsoleReply, PageFault> {
    let viewer = context.viewer(&request.headers).await?;
    let (person, oversight) = (&viewer.signed_in.person, context.engine.oversight());
    let report = oversight.budgets(person).await?;
    let now = context.now();
    let rates = oversight.tools(person).unwrap_or_default();
    let page = BudgetsPage {
        tenant: legibility::one_line(viewer.tenant()),
        accounts: report.accounts.iter().map(|balance| AccountLine::new(balance, now)).collect(),
        has_more: report.has_more,
        grants: report.grants.iter().map(GrantLine::new).collect(),
        rates: rates.iter().take(PAGE_RATES).map(RateLine::new).collect(),
        has_role: viewer.has_role(),
        frame: PageFrame::of("Budgets", &viewer.signed_in),
    };
    Ok(ConsoleReply::page(StatusCode::OK, &page))
}

impl RateLine {
    fn new(report: &ToolOverview) -> Self {
        let rates = &report.contract.contract().runtime.rate_limits;
        Self {
            href: tool_path(&report.name),
            tool: legibility::one_line(&report.name),
            rate: format!("{} calls in {} s", rates.max_requests, rates.window_sec),
        }
    }
}

impl GrantLine {
    fn new(grant: &BudgetGrant) -> Self {
        let line = |text: &String| legibility::one_line(text);
        let counts = grant.currency.as_ref().map_or_else(
            || grant.dimension.name().to_owned(),
            |currency| format!("{} in {}", grant.dimension.name(), line(currency)),
        );
        let limit = match grant.dimension {
            BudgetDimension::Financial => decimal(grant.amount),
            _ => grant.amount.to_string(),
        };
        let only = [
            grant.principal.as_ref().map(|principal| format!("calls of {}", line(principal))),
            grant.tool.as_ref().map(|tool| format!("calls of the tool {}", line(tool))),
        ];
        let only: Vec<String> = only.into_iter().flatten().collect();
        let only = if only.is_empty() { "all calls".to_owned() } else { only.join(", ") };
        Self { per: grant.per, counts, limit, period: grant.period.name(), only }
    }
}
