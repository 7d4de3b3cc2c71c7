#!/usr/bin/env node
// Starts the binary that the package of this platform has, and ends as it ends.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const name = `@tenure/server-${process.platform}-${process.arch}`;

function binary() {
  try {
    return require.resolve(`${name}/bin/tenure`);
  } catch {
    console.error(`error: ${name} is not installed, which has the binary for this machine.`);
    console.error("hint: install without --omit=optional; if there is no such package, build Tenure from source");
    process.exit(1);
  }
}

const child = spawn(binary(), process.argv.slice(2), { stdio: "inherit" });
// A terminal sends Ctrl-C to both, a supervisor sends its signal to this process alone. Both wait for the binary, which
// drains first; a signal that comes twice is what the binary expects of an impatient user, so only the others are passed on.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`error: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  process.exit(code ?? 128 + (constants.signals[signal] ?? 0));
});
