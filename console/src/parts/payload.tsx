/** A payload: always text, never markup. Only the lines in sight are in the page, and long strings are cut until asked for. */

import { useComputed, useSignal } from "@preact/signals";
import type { Payload } from "../api/types.js";
import { jsonLines, type Line, visible } from "../model/shown.js";
import { Copy } from "./bits.js";

const LINE_PX = 20;
const HEIGHT_PX = 460;
const STRING_MAX = 2000;
/** Lines above and below those in sight. */
const SPARE = 10;

export function PayloadView({ text, label }: { text: Payload; label: string }) {
  const top = useSignal(0);
  const lines = useComputed(() => jsonLines(text));
  const all = jsonLinesOf(lines.value, text);
  const height = Math.min(HEIGHT_PX, all.length * LINE_PX);
  const first = Math.max(0, Math.floor(top.value / LINE_PX) - SPARE);
  const last = Math.min(all.length, first + Math.ceil(HEIGHT_PX / LINE_PX) + 2 * SPARE);
  return (
    <div class="payload">
      <div class="bar">
        <span class="muted">
          {all.length === 1 ? "1 line" : `${all.length} lines`}, {bytes(text)}
        </span>
        <span class="sp" />
        <Copy text={text} />
        <button type="button" class="copy" onClick={() => download(text, label)}>
          download
        </button>
      </div>
      <section
        class="lines"
        aria-label={label}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        tabIndex={0}
        style={{ height: `${height}px` }}
        onScroll={(event) => {
          top.value = event.currentTarget.scrollTop;
        }}
      >
        <div style={{ height: `${all.length * LINE_PX}px` }}>
          <div style={{ transform: `translateY(${first * LINE_PX}px)` }}>
            {all.slice(first, last).map((line, i) => (
              <LineView key={first + i} line={line} n={first + i + 1} />
            ))}
          </div>
        </div>
      </section>
    </div>
  );
}

const jsonLinesOf = (lines: Line[], text: string): Line[] =>
  lines.length > 0 ? lines : [{ indent: 0, tokens: [{ kind: "word", text: text === "" ? "empty" : text }] }];

function LineView({ line, n }: { line: Line; n: number }) {
  return (
    <div class="line">
      <i class="num">{n}</i>
      <span style={{ paddingLeft: `${line.indent * 16}px` }}>
        {line.tokens.map((token, i) => (
          <Piece key={i} kind={token.kind} text={token.text} />
        ))}
      </span>
    </div>
  );
}

function Piece({ kind, text }: { kind: string; text: string }) {
  const isWhole = useSignal(false);
  const isCut = text.length > STRING_MAX && !isWhole.value;
  return (
    <>
      <bdi class={`j-${kind}`}>{visible(isCut ? text.slice(0, STRING_MAX) : text)}</bdi>
      {isCut && (
        <button
          type="button"
          class="link"
          onClick={() => {
            isWhole.value = true;
          }}
        >
          … {text.length - STRING_MAX} more characters
        </button>
      )}
    </>
  );
}

function bytes(text: string): string {
  const n = new TextEncoder().encode(text).length;
  return n < 2048 ? `${n} bytes` : `${(n / 1024).toFixed(1)} KiB`;
}

/** As bytes that no program opens by itself. */
function download(text: string, label: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "application/octet-stream" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = `${label.replaceAll(/[^a-z0-9]+/gi, "-")}.json`;
  link.target = "_self";
  link.click();
  URL.revokeObjectURL(url);
}
