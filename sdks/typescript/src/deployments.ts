/** Topologies that are deployed, the turns of their roles, and the artifacts that they move. */
import type { Calls } from "./calls.js";
import { defined } from "./options.js";
import { pathOf, Resource } from "./routes.js";
import { optionalMilliseconds, type Span } from "./span.js";
import type * as wire from "./wire.js";

export interface TurnOptions {
  /** Unique for each process. */
  workerId: string;
  max?: number;
  wait?: Span;
  /** Digests of versions that the process has. */
  known?: string[];
}

export class Deployments extends Resource {
  constructor(calls: Calls) {
    super(calls, "/v1/deployments");
  }

  list(): AsyncGenerator<wire.DeploymentView> {
    return this.pages<wire.DeploymentList, wire.DeploymentView>("", {}, (page) => page.deployments);
  }

  get(name: string): Promise<wire.DeploymentView> {
    return this.read(pathOf(name));
  }

  /** What `apply` would change. */
  plan(name: string, topology: unknown): Promise<wire.TopologyPlan> {
    return this.send(`${pathOf(name)}/plan`, { topology });
  }

  apply(name: string, topology: unknown): Promise<wire.DeploymentView> {
    return this.send(pathOf(name), { topology });
  }

  pause(name: string): Promise<wire.DeploymentView> {
    return this.send(`${pathOf(name)}/pause`, {});
  }

  resume(name: string): Promise<wire.DeploymentView> {
    return this.send(`${pathOf(name)}/resume`, {});
  }

  delete(name: string): Promise<wire.DeploymentView> {
    return this.send(`${pathOf(name)}/delete`, {});
  }

  requestEvent(name: string, type: string, key: string): Promise<wire.EventRequested> {
    return this.send(`${pathOf(name)}/events`, { type, key });
  }

  /**
   * Takes turns of a role that a process outside decides, waiting at most `wait` for one. It is tried once: turns whose
   * answer is lost come again when their leases end. `known` names versions that need not be sent again.
   */
  takeTurns(name: string, role: string, options: TurnOptions): Promise<wire.Turns> {
    const { workerId, max = 1, wait, known } = options;
    const waitMs = optionalMilliseconds(wait);
    const body = defined({ workerId, max, waitMs, known });
    return this.sendTo(`${this.base}${pathOf(name, "roles", role)}/turns`, body, { retries: 0, waitMs });
  }

  /** Keeps a turn, and reads it again. */
  renewTurn(name: string, role: string, claim: wire.TurnClaim, workerId: string): Promise<wire.Turn> {
    return this.send(`${pathOf(name, "roles", role)}/turns/renew`, { claim, workerId });
  }

  /** Gives a turn back, to be tried again after a pause. */
  returnTurn(
    name: string,
    role: string,
    claim: wire.TurnClaim,
    reason: string,
    workerId: string,
  ): Promise<wire.Proposed> {
    return this.send(`${pathOf(name, "roles", role)}/turns/return`, { claim, reason, workerId });
  }

  /** Decides a turn. The same decision again gets the same answer. */
  propose(
    name: string,
    role: string,
    decision: unknown,
    options: { workerId: string; claim?: wire.TurnClaim },
  ): Promise<wire.Proposed> {
    return this.send(`${pathOf(name, "roles", role)}/proposals`, { decision, ...defined(options) });
  }

  async claims(name: string): Promise<wire.ClaimView[]> {
    return (await this.read<wire.ClaimList>(`${pathOf(name)}/claims`)).claims;
  }

  workOrders(
    name: string,
    options: { state?: wire.WorkOrderState } = {},
  ): AsyncGenerator<wire.WorkOrderView> {
    return this.pages<wire.WorkOrderList, wire.WorkOrderView>(
      `${pathOf(name)}/workorders`,
      options,
      (page) => page.workOrders,
    );
  }

  pauseStates(
    name: string,
    options: { state?: wire.PauseStateState } = {},
  ): AsyncGenerator<wire.PauseStateView> {
    return this.pages<wire.PauseStateList, wire.PauseStateView>(
      `${pathOf(name)}/pause-states`,
      options,
      (page) => page.pauseStates,
    );
  }

  closePauseState(name: string, id: string): Promise<wire.PauseStateView> {
    return this.send(`${pathOf(name)}/pause-states/close`, { id });
  }
}

export class Artifacts extends Resource {
  constructor(calls: Calls) {
    super(calls, "/v1/deployments");
  }

  list(
    deployment: string,
    type: string,
    options: { status?: string } = {},
  ): AsyncGenerator<wire.ArtifactView> {
    const path = pathOf(deployment, "artifacts", type);
    return this.pages<wire.ArtifactList, wire.ArtifactView>(path, options, (page) => page.artifacts);
  }

  get(deployment: string, type: string, id: string): Promise<wire.ArtifactView> {
    return this.read(pathOf(deployment, "artifacts", type, id));
  }

  create(deployment: string, type: string, id: string, fields?: unknown): Promise<wire.ArtifactView> {
    return this.send(pathOf(deployment, "artifacts", type), defined({ id, fields }));
  }

  /** Lets it enter another status. `revision` refuses the change if there is a newer one. */
  move(
    deployment: string,
    type: string,
    id: string,
    to: string,
    options: { fields?: unknown; revision?: number } = {},
  ): Promise<wire.ArtifactView> {
    return this.send(`${pathOf(deployment, "artifacts", type, id)}/transition`, { to, ...defined(options) });
  }

  approve(
    deployment: string,
    type: string,
    id: string,
    to: string,
    options: { fields?: unknown; revision?: number } = {},
  ): Promise<wire.ArtifactView> {
    return this.send(`${pathOf(deployment, "artifacts", type, id)}/approve`, { to, ...defined(options) });
  }
}
