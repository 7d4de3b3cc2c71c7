import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

it("the shapes of the wire are those of the OpenAPI document", () => {
  const script = fileURLToPath(new URL("../scripts/wire.mjs", import.meta.url));
  const generated = execFileSync(process.execPath, [script, "--print"], {
    encoding: "utf8",
    maxBuffer: 16 * 1024 * 1024,
  });
  // `npm run wire` writes the file again.
  expect(generated).toBe(readFileSync(new URL("../src/wire.ts", import.meta.url), "utf8"));
});
