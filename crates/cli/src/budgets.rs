//! `tenure budgets …`: what the runs of tenants and workspaces may use together.

use clap::Subcommand;
use comfy_table::Cell;
use tenure::Client;
use wire::BudgetPeriod;
use wire::answers::BudgetLeft;
use wire::requests::Budget;
use wire::scope_budgets::{ScopeBudget, SetBudget};

use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, Format};
use crate::{budget, server};

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Show the budgets of tenants and workspaces, and what is used of them
    List,
    /// Set the budget of a workspace or tenant; limits that are not named are removed
    Set(Set),
    /// Remove the budget of a workspace or tenant; what was used stays counted
    Clear(Whose),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Whose {
    /// The tenant [default: the one of the key in use]
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// The workspace [default: all workspaces of the tenant together]
    #[arg(long, value_name = "WORKSPACE")]
    workspace: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Set {
    #[command(flatten)]
    whose: Whose,
    /// Limits such as cost=5000000,tokens=200000,soft-tokens=150000; 0 accepts no new runs
    #[arg(value_name = "LIMITS", value_parser = amounts)]
    limits: Budget,
    /// When the budget begins anew: total (never), day or month, in UTC
    #[arg(long, value_name = "PERIOD", default_value_t = BudgetPeriod::Total)]
    period: BudgetPeriod,
}

/// Limits of amounts: time belongs to single runs.
fn amounts(text: &str) -> Result<Budget, String> {
    let limits = budget::limits(text)?;
    if limits.wall_ms.is_some() || limits.active_ms.is_some() || limits.on_soft.is_some() {
        return Err("wall, active and on-soft belong to the budget of a run".to_owned());
    }
    Ok(limits)
}

pub(crate) async fn run(client: Client, format: Format, verb: Verb) -> CommandResult {
    match verb {
        Verb::List => {
            let found = client.budgets().list().await.map_err(server::cli_error)?.budgets;
            if found.is_empty() && format == Format::People {
                output::note(
                    "there are no budgets of tenants or workspaces; `tenure budgets set` sets one",
                );
                return Ok(Exit::Done);
            }
            show(format, &found)?;
        }
        Verb::Set(Set { whose: Whose { tenant, workspace }, limits, period }) => {
            let Budget { cost_micros, tokens, steps, tool_calls, soft, .. } = limits;
            let wanted = SetBudget {
                tenant_id: tenant,
                workspace_id: workspace,
                period: Some(period),
                cost_micros,
                tokens,
                steps,
                tool_calls,
                soft,
            };
            set(&client, format, wanted).await?;
        }
        Verb::Clear(Whose { tenant, workspace }) => {
            let wanted =
                SetBudget { tenant_id: tenant, workspace_id: workspace, ..SetBudget::default() };
            set(&client, format, wanted).await?;
        }
    }
    Ok(Exit::Done)
}

async fn set(client: &Client, format: Format, wanted: SetBudget) -> Result<(), CliError> {
    let budget = client.budgets().set().with(wanted).await.map_err(server::cli_error)?;
    match format {
        Format::Json => output::json(&budget),
        Format::People => show(format, &[budget]),
    }
}

/// One row for each limit.
fn show(format: Format, all: &[ScopeBudget]) -> Result<(), CliError> {
    if format == Format::Json {
        return output::json(all);
    }
    let heads = ["TENANT", "WORKSPACE", "PERIOD", "STATE", "UNIT", "USED", "SOFT", "LIMIT", "LEFT"];
    let mut table = output::table(&heads);
    for budget in all {
        for cells in rows(budget) {
            table.add_row(cells);
        }
    }
    output::print_table(&table)
}

fn rows(budget: &ScopeBudget) -> Vec<Vec<Cell>> {
    let ScopeBudget { limits, soft, left, used, .. } = budget;
    let units = [
        ("cost", used.cost_micros, (|it| it.cost_micros) as fn(&BudgetLeft) -> Option<u64>),
        ("tokens", used.tokens, |it| it.tokens),
        ("steps", used.steps, |it| it.steps),
        ("tools", used.tool_calls, |it| it.tool_calls),
    ];
    let number = |number: Option<u64>| number.map_or("any".to_owned(), |it| it.to_string());
    let row = |name: &str, cells: [String; 4]| {
        let names = [
            budget.tenant_id.as_str(),
            budget.workspace_id.as_deref().unwrap_or("all"),
            budget.period.as_str(),
            budget.state.as_str(),
            name,
        ];
        let names = names.into_iter().map(Cell::new);
        names.chain(cells.into_iter().map(Cell::new)).collect::<Vec<_>>()
    };
    let limited = units.iter().filter(|(_, _, of)| of(limits).is_some() || of(soft).is_some());
    let mut rows: Vec<Vec<Cell>> = limited
        .map(|(name, used, of)| {
            let soft = of(soft).map_or("none".to_owned(), |it| it.to_string());
            row(name, [used.to_string(), soft, number(of(limits)), number(of(left))])
        })
        .collect();
    if rows.is_empty() {
        let none = || "none".to_owned();
        rows.push(row("none", [none(), none(), none(), none()]));
    }
    rows
}
