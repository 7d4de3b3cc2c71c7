import { defineConfig } from "vitest/config";

// Generous limits: the machines that run these tests are shared and may be slow.
export default defineConfig({
  test: { include: ["test/unit/*.test.ts"], testTimeout: 60_000, pool: "forks", maxWorkers: 1 },
});
