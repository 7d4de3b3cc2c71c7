import { defineConfig } from "vitest/config";

// Flows through a real browser against a real server. Each file has both for itself, so two files share two processors: one waits
// for a lease to end while the other one works. The limits are for a machine under load; nothing waits for them.
export default defineConfig({
  test: {
    include: ["test/flows/*.test.ts"],
    testTimeout: 180_000,
    hookTimeout: 180_000,
    pool: "forks",
    maxWorkers: 2,
  },
});
