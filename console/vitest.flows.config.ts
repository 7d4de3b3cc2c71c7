import { defineConfig } from "vitest/config";

// Flows through a real browser against a real server: one at a time, with limits that a loaded machine keeps.
export default defineConfig({
  test: {
    include: ["test/flows/*.test.ts"],
    testTimeout: 180_000,
    hookTimeout: 180_000,
    pool: "forks",
    maxWorkers: 1,
    fileParallelism: false,
  },
});
