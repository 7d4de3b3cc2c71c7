// Topologies: where artifacts are, what became of one, and what a person may do about it.

import { describe, expect, it } from "vitest";
import { Scene } from "../support/scene.js";
import { Worker } from "../support/server.js";

describe("topologies", () => {
  const scene = Scene.of("topologies");

  it("draws a deployment, tells the story of an artifact, and closes what a person has seen to", async () => {
    const { page, server } = scene;
    await scene.logIn();
    await page.getByRole("link", { name: "Topologies" }).click();
    await page.getByText("No topology is in force").waitFor();
    await server.apply("agent-review");
    await page.getByRole("link", { name: "agent-review" }).click();
    await page.getByText("A budgeted agent makes a plan").waitFor();
    const requested = page.getByRole("link", { name: /^requested 0/ });
    await requested.waitFor();
    await server.call("POST", "/v1/deployments/agent-review/artifacts/assignment", {
      id: "greeting",
      fields: { goal: "<img src=x onerror=alert(1)>" },
    });
    const worker = new Worker(server, "alice");
    const task = await worker.lease("agents");
    await page.getByRole("link", { name: /^being-planned 1/ }).waitFor();
    await worker.must(task, "started");
    // A plan without steps is refused by the gate, and the assignment goes back.
    await worker.must(task, "completed", { outcome: "SUCCEEDED", output: { steps: [] } });
    await page.getByText("GATE_FAILED").waitFor();
    await page.getByRole("link", { name: /^being-planned 1/ }).click();
    await page.getByRole("link", { name: "assignment/greeting" }).click();
    await page.getByText("plan judged: FAIL").waitFor();
    await page.getByText(/^is-a-plan:/).waitFor();
    await page.getByText("GATE_FAILED, waits for a person").waitFor();
    await page.getByText("<img src=x onerror=alert(1)>").waitFor();
    await page.getByRole("link", { name: "Pause states" }).click();
    await page.getByRole("button", { name: /^Close GATE_FAILED/ }).click();
    await page.getByRole("dialog").getByText("State the goal more precisely.").waitFor();
    await page.getByRole("button", { name: "Close it" }).click();
    await page.getByRole("row", { name: /closed GATE_FAILED/ }).waitFor();
    await page.getByRole("link", { name: "Work orders" }).click();
    await page.getByRole("link", { name: "failed", exact: true }).click();
    await page.getByRole("row", { name: /is-a-plan/ }).waitFor();
  });

  it("moves and approves an artifact, and refuses to decide about what was changed meanwhile", async () => {
    const { page, server } = scene;
    await server.apply("task-management");
    const path = "/v1/deployments/task-management/artifacts/objective";
    const fields = { title: "Answer", objective_type: "STANDING", urgency: 3 };
    await server.call("POST", path, { id: "answers", fields });
    await scene.logIn();
    await scene.open("topologies/task-management?artifact=objective/answers");
    await page.getByRole("button", { name: /^Approve .*…$/ }).click();
    await page
      .getByText(/^tenure artifacts approve task-management objective answers \w+ --revision 1$/)
      .waitFor();
    await page
      .getByRole("dialog")
      .getByRole("button", { name: /^Approve/ })
      .click();
    await page.getByRole("button", { name: "Move to IN_PROGRESS…" }).click();
    await page.getByRole("button", { name: "Move to IN_PROGRESS", exact: true }).click();
    await page.getByText("now IN_PROGRESS").waitFor();
    await page.getByRole("button", { name: "Move to DONE…" }).click();
    await server.call("POST", `${path}/answers/transition`, { to: "BLOCKED" });
    // The page notices, and the dialog stays what it was when it was opened.
    await page.getByText("now BLOCKED").waitFor();
    await page
      .getByText("tenure artifacts move task-management objective answers DONE --revision 3")
      .waitFor();
    await page.getByRole("button", { name: "Move to DONE", exact: true }).click();
    await page.getByRole("dialog").getByRole("alert").waitFor();
    const { status } = await server.call<{ status: string }>("GET", `${path}/answers`);
    expect(status).toBe("BLOCKED");
  });

  it("shows an artifact with a slash in its id, and says that it cannot be moved", async () => {
    const { page, server } = scene;
    await server.apply("task-management");
    const fields = { title: "Answer", objective_type: "STANDING", urgency: 3 };
    const path = "/v1/deployments/task-management/artifacts/objective";
    await server.call("POST", path, { id: "north/answers", fields });
    await scene.logIn();
    await scene.open("topologies/task-management?tab=artifacts&type=objective");
    await page.getByRole("link", { name: "objective/north/answers" }).click();
    await page.getByText("created", { exact: true }).waitFor();
    await page.getByText("An id with a slash has no path in the API").waitFor();
    await scene.open("topologies/task-management?artifact=objective/south/answers");
    await page.getByText("is named objective/south/answers").waitFor();
  });

  it("pauses, resumes and deletes a deployment after a dialog, for a key that may", async () => {
    const { page, server } = scene;
    await server.apply("execution");
    await scene.logIn(await server.keyOf("reader", "looker"));
    await scene.open("topologies/execution");
    await page.getByRole("heading", { name: "execution" }).waitFor();
    await page.locator(".pill", { hasText: "active" }).waitFor();
    expect(await page.getByRole("button", { name: "Pause…" }).count()).toBe(0);
    await page.getByRole("button", { name: "log out" }).click();
    await page.getByText("You are logged out").waitFor();
    await scene.logIn();
    await scene.open("topologies/execution");
    await page.getByRole("button", { name: "Pause…" }).click();
    await page.getByRole("button", { name: "Pause the deployment" }).click();
    await page.getByText("its roles do nothing until it is resumed").waitFor();
    await page.getByRole("button", { name: "Resume…" }).click();
    await page.getByRole("button", { name: "Resume the deployment" }).click();
    await page.locator(".pill", { hasText: "active" }).waitFor();
    await page.getByRole("button", { name: "Delete…" }).click();
    await page.getByText("The server refuses this while a work order is active").waitFor();
    await page.getByRole("button", { name: "Delete the deployment" }).click();
    await page.getByRole("heading", { name: "Topologies" }).waitFor();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    expect(await page.getByRole("link", { name: "execution" }).count()).toBe(0);
  });
});
