// A development server: dist below PREFIX/console/ with the headers of the real server, and PREFIX/console/api/ forwarded to a Tenure
// server. `node scripts/serve.mjs --target http://127.0.0.1:7400 --port 7500 [--prefix /ops/tenure]`

import { readFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const dist = fileURLToPath(new URL("../dist", import.meta.url));

export const HEADERS = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy": "camera=(), microphone=(), geolocation=()",
};

const TYPES = { js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8", svg: "image/svg+xml" };

/** Starts the server. `target` is a function, so that a test can move the server behind it. */
export function serve({ target, port = 0, prefix = "" }) {
  const root = `${prefix}/console/`;
  const server = createServer((incoming, answer) => {
    const { pathname } = new URL(incoming.url, "http://console");
    const path = pathname.startsWith(prefix) ? pathname.slice(prefix.length) : "";
    if (path.startsWith("/console/api/")) return forward(incoming, answer, prefix, target());
    if (pathname.startsWith(root)) return file(pathname.slice(root.length), answer);
    if (pathname === root.slice(0, -1)) return answer.writeHead(308, { location: "console/" }).end();
    return answer.writeHead(404).end();
  });
  return new Promise((resolve) => {
    server.listen(port, "127.0.0.1", () =>
      resolve({ server, url: `http://127.0.0.1:${server.address().port}${root}` }),
    );
  });
}

function file(path, answer) {
  const extension = path.match(/^[a-z]+\.(js|css|svg)$/)?.[1];
  if (extension) {
    return answer
      .writeHead(200, { ...HEADERS, "content-type": TYPES[extension], "cache-control": "no-cache" })
      .end(readFileSync(join(dist, path)));
  }
  // Any other path is a page of the console: the base leads back to its root, whatever a proxy put before it.
  const depth = path.split("/").length - 1;
  const page = readFileSync(join(dist, "index.html"), "utf8").replace(
    '<base href="./">',
    `<base href="${"../".repeat(depth) || "./"}">`,
  );
  return answer
    .writeHead(200, { ...HEADERS, "content-type": "text/html; charset=utf-8", "cache-control": "no-cache" })
    .end(page);
}

function forward(incoming, answer, prefix, target) {
  const url = new URL(incoming.url.slice(prefix.length), target);
  const onward = request(
    url,
    { method: incoming.method, headers: { ...incoming.headers, host: url.host } },
    (response) => {
      answer.writeHead(response.statusCode, response.headers);
      response.pipe(answer);
    },
  );
  onward.on(
    "error",
    () =>
      answer.headersSent ||
      answer.writeHead(502, { "content-type": "text/plain" }).end("the server is not reachable"),
  );
  incoming.pipe(onward);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const option = (name, otherwise) => {
    const at = process.argv.indexOf(`--${name}`);
    return at < 0 ? otherwise : process.argv[at + 1];
  };
  const target = option("target", "http://127.0.0.1:7400");
  const { url } = await serve({
    target: () => target,
    port: Number(option("port", "7500")),
    prefix: option("prefix", ""),
  });
  console.log(`the console of ${target} is at ${url}`);
}
