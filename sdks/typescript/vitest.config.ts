import { defineConfig } from "vitest/config";

// Generous limits: the machines that run these tests are shared and may be slow.
export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    setupFiles: ["test/setup.ts"],
    testTimeout: 120_000,
    hookTimeout: 120_000,
    teardownTimeout: 20_000,
    pool: "forks",
    maxWorkers: 3,
  },
});
