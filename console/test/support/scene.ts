// What every flow has: a server, a browser, the console, and a fresh page on which nothing may go wrong.

import type { ChildProcess } from "node:child_process";
import { mkdirSync } from "node:fs";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, expect } from "vitest";
import { launch, logIn, type Site, site, visit } from "./browser.js";
import { Server } from "./server.js";

export const OUT = new URL("../out/", import.meta.url).pathname;

/** Set up before each flow of a file, so its members are there inside a flow only. */
export class Scene {
  server!: Server;
  browser!: Browser;
  console!: Site;
  page!: Page;
  /** What went wrong on the page; a flow that ends with one has failed. */
  faults: string[] = [];
  private children: ChildProcess[] = [];

  /** A server and a browser for the flows of one file. A flow that fails leaves a picture named after `name`. */
  static of(name: string): Scene {
    const scene = new Scene();
    beforeAll(async () => {
      mkdirSync(OUT, { recursive: true });
      scene.server = await Server.start();
      scene.console = await site(scene.server);
      scene.browser = await launch();
    });
    afterAll(async () => {
      await scene.browser?.close();
      await scene.console?.close();
      await scene.server?.stop();
    });
    beforeEach(async () => {
      ({ page: scene.page, faults: scene.faults } = await visit(scene.browser));
    });
    let flows = 0;
    afterEach(async ({ task }) => {
      for (const child of scene.children.splice(0)) child.kill("SIGKILL");
      flows += 1;
      if (task.result?.state === "fail")
        await scene.page.screenshot({ path: `${OUT}failed-${name}-${flows}.png` }).catch(() => {});
      await scene.page.context().close();
      expect(scene.faults).toEqual([]);
    });
    return scene;
  }

  /** A process of the command line that ends with the flow. */
  run(...words: string[]): ChildProcess {
    const child = this.server.run(...words);
    this.children.push(child);
    return child;
  }

  logIn(key = this.server.key): Promise<void> {
    return logIn(this.page, this.console.url, key);
  }

  /** Opens an address below the root of the console. */
  async open(path: string): Promise<void> {
    await this.page.goto(this.console.url + path);
  }
}
