//! What all runs of a tenant or workspace may use together. What one run may use is a [`Budget`](crate::Budget).

use wire::BudgetPeriod;
use wire::requests::SoftLimits;
use wire::scope_budgets::{ScopeBudget, ScopeBudgets, SetBudget};

use super::{Client, Request};
use crate::Error;

/// The budgets of the tenants and workspaces that a client's key may see. See [`Client::budgets`].
#[derive(Clone, Copy, Debug)]
pub struct Budgets<'a> {
    client: &'a Client,
}

impl Client {
    /// Budgets of tenants and workspaces, to list and set them. Setting one needs a key with the role admin.
    ///
    /// ```no_run
    /// # async fn example(client: tenure::Client) -> Result<(), tenure::Error> {
    /// use tenure::BudgetPeriod;
    ///
    /// let monthly = client.budgets().set().workspace("default").period(BudgetPeriod::Month);
    /// monthly.tokens(1_000_000).soft_tokens(800_000).await?;
    /// # Ok(()) }
    /// ```
    pub fn budgets(&self) -> Budgets<'_> {
        Budgets { client: self }
    }
}

impl Budgets<'_> {
    /// The budgets, and what is used of them.
    pub async fn list(&self) -> Result<ScopeBudgets, Error> {
        self.client.get_json(&["v1", "budgets"], &()).await
    }

    /// Replaces the budget of a tenant or workspace, from now on. Without a limit it removes the budget.
    pub fn set(&self) -> Request<SetBudget, ScopeBudget> {
        Request::write(self.client, &["v1", "budgets"], SetBudget::default())
    }
}

impl Request<SetBudget, ScopeBudget> {
    /// The tenant; that of the client's key when not given.
    pub fn tenant(self, tenant_id: impl Into<String>) -> Self {
        self.say(|it| it.tenant_id = Some(tenant_id.into()))
    }

    /// The workspace; all of the tenant together when not given.
    pub fn workspace(self, workspace_id: impl Into<String>) -> Self {
        self.say(|it| it.workspace_id = Some(workspace_id.into()))
    }

    /// When it begins anew; never when not given.
    pub fn period(self, period: BudgetPeriod) -> Self {
        self.say(|it| it.period = Some(period))
    }

    pub fn tokens(self, tokens: u64) -> Self {
        self.say(|it| it.tokens = Some(tokens))
    }

    /// Money, in millionths of a unit of currency.
    pub fn cost_micros(self, micros: u64) -> Self {
        self.say(|it| it.cost_micros = Some(micros))
    }

    /// Recorded steps.
    pub fn steps(self, steps: u64) -> Self {
        self.say(|it| it.steps = Some(steps))
    }

    pub fn tool_calls(self, calls: u64) -> Self {
        self.say(|it| it.tool_calls = Some(calls))
    }

    /// Notes, once in each period, that so many tokens were used.
    pub fn soft_tokens(self, tokens: u64) -> Self {
        self.soft(|it| it.tokens = Some(tokens))
    }

    /// Notes, once in each period, that so much money was used.
    pub fn soft_cost_micros(self, micros: u64) -> Self {
        self.soft(|it| it.cost_micros = Some(micros))
    }

    fn soft(self, choose: impl FnOnce(&mut SoftLimits)) -> Self {
        self.say(|it| choose(it.soft.get_or_insert_default()))
    }
}
