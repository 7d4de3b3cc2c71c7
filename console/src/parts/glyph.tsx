/** State glyphs: every state differs by shape as well as by colour. Drawn on a grid of 12, in the colour of the text around them. */

import type { JSX } from "preact";
import type { GlyphName, Look } from "../model/state.js";

const cut = { stroke: "var(--surface)", "stroke-width": 1.5, fill: "none" };
const line = { stroke: "currentColor", "stroke-width": 1.4, fill: "none" };

const SHAPES: Record<GlyphName, JSX.Element> = {
  ok: (
    <>
      <circle cx="6" cy="6" r="5.4" fill="currentColor" />
      <path d="M3.400 6.200l1.800 1.800 3.400-3.800" {...cut} />
    </>
  ),
  run: (
    <>
      <circle cx="6" cy="6" r="4.900" {...line} />
      <path d="M4.600 3.600l4 2.400-4 2.400z" fill="currentColor" />
    </>
  ),
  wait: (
    <path
      d="M2.200 1h7.600M2.200 11h7.600M3 1c0 3 3 3.600 3 5S3 8 3 11M9 1c0 3-3 3.600-3 5s3 2 3 5"
      {...line}
    />
  ),
  queue: <circle cx="6" cy="6" r="4.900" {...line} />,
  park: <circle cx="6" cy="6" r="4.900" stroke-dasharray="2.200 1.700" {...line} />,
  retry: (
    <>
      <path d="M10.200 4.200A4.800 4.800 0 1 0 10.800 7" {...line} />
      <path d="M10.900 1.200v3.600H7.400z" fill="currentColor" />
    </>
  ),
  bad: (
    <>
      <rect x=".8" y=".8" width="10.400" height="10.400" rx="1.600" fill="currentColor" />
      <path d="M3.700 3.700l4.600 4.600M8.300 3.700L3.700 8.300" {...cut} />
    </>
  ),
  halt: (
    <>
      <path d="M3.700.6h4.600l3.100 3.100v4.600l-3.100 3.100H3.700L.6 8.300V3.700z" fill="currentColor" />
      <path d="M3.400 6h5.200" {...cut} />
    </>
  ),
  cancel: (
    <>
      <circle cx="6" cy="6" r="4.900" {...line} />
      <path d="M2.700 9.300l6.600-6.600" {...line} />
    </>
  ),
  skip: (
    <>
      <circle cx="2" cy="6" r="1.300" fill="currentColor" />
      <circle cx="6" cy="6" r="1.300" fill="currentColor" />
      <circle cx="10" cy="6" r="1.300" fill="currentColor" />
    </>
  ),
  refused: (
    <>
      <path d="M6 .3L11.700 6 6 11.700.3 6z" {...line} />
      <path d="M4.200 4.200l3.600 3.600M7.800 4.200L4.200 7.800" {...line} />
    </>
  ),
  take: (
    <>
      <path d="M1 2.500h3.200c2.600 0 1.200 7 3.800 7H10" {...line} />
      <path d="M8.600 7l3 2.500-3 2.500z" fill="currentColor" />
    </>
  ),
  step: <path d="M6 1l5 5-5 5-5-5z" fill="currentColor" />,
};

export function Glyph({ name, size = 12 }: { name: GlyphName; size?: number }) {
  return (
    <svg class="glyph" width={size} height={size} viewBox="0 0 12 12" aria-hidden="true">
      {SHAPES[name]}
    </svg>
  );
}

/** The same inside another drawing, centred at a point. */
export function GlyphAt({ name, x, y, size }: { name: GlyphName; x: number; y: number; size: number }) {
  const scale = size / 12;
  return <g transform={`translate(${x - size / 2} ${y - size / 2}) scale(${scale})`}>{SHAPES[name]}</g>;
}

export function Pill({ look, text }: { look: Look; text?: string }) {
  return (
    <span class={`pill t-${look.tone}`}>
      <Glyph name={look.glyph} size={13} />
      {text ?? look.word}
    </span>
  );
}

/** A state in a row: glyph and word, without a background. */
export function Mark({ look }: { look: Look }) {
  return (
    <span class={`mark t-${look.tone}`}>
      <Glyph name={look.glyph} />
      {look.word}
    </span>
  );
}
