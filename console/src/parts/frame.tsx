/** The frame that pages share: a head, tabs, filters as chips, a list that teaches when it is empty, and the command at the foot. */

import type { ComponentChildren } from "preact";
import type { Query } from "../data/query.js";
import { visible } from "../model/shown.js";
import type { Look } from "../model/state.js";
import { place, withQuery } from "../router.js";
import { Cli } from "./bits.js";
import { Glyph, Pill } from "./glyph.js";
import { Read } from "./read.js";

/** The way back to the list that a page belongs to. */
export function Crumb({ name, to }: { name: string; to: string }) {
  return (
    <div class="crumb">
      <a href={to}>{name}</a> /
    </div>
  );
}

/** The head of a page; actions are its children. */
export function Head(props: {
  title: string;
  look?: Look;
  note?: ComponentChildren;
  children?: ComponentChildren;
}) {
  return (
    <div class="head">
      <h1>{visible(props.title)}</h1>
      {props.look && <Pill look={props.look} />}
      {props.note && <span class="soft">{props.note}</span>}
      {props.children && <span class="sp" />}
      {props.children}
    </div>
  );
}

/** Parts of a page. The first one has the page's own address; the filters of one part mean nothing to another. */
export function Tabs({ tabs, on }: { tabs: Array<[id: string, title: string]>; on: string }) {
  const here = place.value.path.join("/");
  return (
    <nav class="tabs" aria-label="Parts">
      {tabs.map(([id, title], i) => (
        <a
          key={id}
          class={on === id ? "on" : ""}
          aria-current={on === id ? "page" : undefined}
          href={i === 0 ? here : `${here}?tab=${id}`}
        >
          {title}
        </a>
      ))}
    </nav>
  );
}

/** The values of one filter as chips, of which the address names one or none; further chips are the children. */
export function Chips(props: {
  label: string;
  /** The filter's name in the address. */
  name: string;
  choices: Array<[value: string, look: Pick<Look, "word"> & Partial<Look>]>;
  children?: ComponentChildren;
}) {
  const chosen = place.value.query.get(props.name) ?? "";
  const chip = (value: string, { word, tone, glyph }: Pick<Look, "word"> & Partial<Look>) => {
    const isOn = value === chosen;
    return (
      <a
        key={value}
        class={`chip ${isOn ? "on" : ""}`}
        aria-current={isOn ? "true" : undefined}
        href={withQuery({ [props.name]: isOn ? undefined : value })}
      >
        {glyph && (
          <span class={isOn ? "" : `t-${tone} ink`}>
            <Glyph name={glyph} size={11} />
          </span>
        )}
        {word}
      </a>
    );
  };
  return (
    <nav class="chips" aria-label={props.label}>
      {chip("", { word: "all" })}
      {props.choices.map(([value, look]) => chip(value, look))}
      {props.children}
    </nav>
  );
}

/** A filter of the address that can be taken away. */
export function Chosen({ name, value }: { name: string; value: string }) {
  return (
    <a
      class="chip on-soft"
      href={withQuery({ [name]: undefined })}
      aria-label={`remove the filter ${name} ${value}`}
    >
      <span class="muted">{name}</span> <bdi>{visible(value)}</bdi> ×
    </a>
  );
}

/** A card with what a query has read, or with what belongs there if it has read nothing. */
export function Listing<T>(props: {
  query: Query<T>;
  isEmpty: (data: T) => boolean;
  empty: ComponentChildren;
  children: (data: T) => ComponentChildren;
}) {
  return (
    <Read query={props.query}>
      {(data) => <section class="card">{props.isEmpty(data) ? props.empty : props.children(data)}</section>}
    </Read>
  );
}

/** Facts in a line below the head; those without a value are left out. */
export function Facts({ of }: { of: Array<[name: string, value: ComponentChildren]> }) {
  const known = of.filter(([, value]) => value !== undefined && value !== null && value !== "");
  return (
    <dl class="facts">
      {known.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** The commands that show or do the same, at the end of a page. */
export function Foot({ lines }: { lines: string[] }) {
  return (
    <div class="foot">
      {lines.map((line) => (
        <Cli key={line} line={line} />
      ))}
    </div>
  );
}
