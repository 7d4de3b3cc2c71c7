// Builds dist from src. The output is committed as text, with names as they are and in lines of a readable length, so that a change of
// it can be read; spaces are taken out, which are a tenth of it even compressed. `cargo build` compresses and embeds it, and needs no
// Node.
//
// `node build.mjs --check` builds in memory and fails if dist differs, `--watch` builds on every change.

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import * as esbuild from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const dist = join(here, "dist");

/** What a browser may have to load before it shows anything, compressed. */
const BYTES_MAX = 90_000;

const options = {
  absWorkingDir: here,
  entryPoints: { app: "src/main.tsx", style: "src/style/console.css" },
  bundle: true,
  write: false,
  outdir: "dist",
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  jsx: "automatic",
  jsxImportSource: "preact",
  // Names stay; expressions become shorter.
  minifySyntax: true,
  minifyWhitespace: true,
  lineLimit: 320,
  // Nothing here is shaken off by its calls, and their marks would be 25 kB.
  jsxSideEffects: true,
  logLevel: "warning",
};

function files(result) {
  const made = new Map();
  for (const { path, text } of result.outputFiles) {
    const loader = path.endsWith(".css") ? "css" : "js";
    made.set(`app.${loader}`, text);
  }
  const version = (name) => createHash("sha256").update(made.get(name)).digest("hex").slice(0, 12);
  const page = readFileSync(join(here, "src/index.html"), "utf8")
    .replace("app.css", `app.css?v=${version("app.css")}`)
    .replace("app.js", `app.js?v=${version("app.js")}`);
  made.set("index.html", page);
  made.set("icon.svg", readFileSync(join(here, "src/icon.svg"), "utf8"));
  return made;
}

function size(made) {
  let whole = 0;
  for (const [name, text] of made) {
    const bytes = gzipSync(text, { level: 9 }).length;
    whole += bytes;
    console.log(`${name.padEnd(12)} ${String(text.length).padStart(8)}  gzip ${String(bytes).padStart(6)}`);
  }
  console.log(`${"all".padEnd(21)}  gzip ${String(whole).padStart(6)} of ${BYTES_MAX}`);
  return whole;
}

function write(made) {
  mkdirSync(dist, { recursive: true });
  for (const [name, text] of made) writeFileSync(join(dist, name), text);
}

function differing(made) {
  const old = (name) => {
    try {
      return readFileSync(join(dist, name), "utf8");
    } catch {
      return undefined;
    }
  };
  return [...made].filter(([name, text]) => old(name) !== text).map(([name]) => name);
}

if (process.argv.includes("--watch")) {
  const onEnd = {
    name: "write",
    setup: (build) => build.onEnd((result) => write(files(result))),
  };
  const context = await esbuild.context({ ...options, plugins: [onEnd] });
  await context.watch();
} else {
  const made = files(await esbuild.build(options));
  const bytes = size(made);
  if (bytes > BYTES_MAX) {
    console.error(`the console is too large: ${bytes} bytes compressed, and ${BYTES_MAX} are the limit`);
    process.exit(1);
  }
  if (process.argv.includes("--check")) {
    const stale = differing(made);
    if (stale.length > 0) {
      console.error(`dist is not what src makes: ${stale.join(", ")}; run \`npm run build\` and commit it`);
      process.exit(1);
    }
  } else {
    write(made);
  }
}
