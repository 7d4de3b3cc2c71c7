/** A table that is written by columns, so that a head and its cells cannot differ. */

import type { ComponentChildren } from "preact";

/** `style` has the classes of the cells; the head takes those that place it. */
export type Column<T> = [head: string, cell: (item: T) => ComponentChildren, style?: string];

const PLACES = new Set(["r", "hide-narrow"]);

const placing = (style = "") =>
  style
    .split(" ")
    .filter((word) => PLACES.has(word))
    .join(" ");

export function Table<T>(props: {
  items: T[];
  columns: Array<Column<T>>;
  /** What tells one row from another. */
  by: (item: T) => string | number;
  /** A table of what the page lists keeps its width on narrow screens; others scroll. */
  isList?: boolean;
}) {
  return (
    <table class={props.isList ? "list-table" : ""}>
      <thead>
        <tr>
          {props.columns.map(([head, , style]) => (
            <th key={head} class={placing(style)}>
              {head}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {props.items.map((item) => (
          <tr key={props.by(item)}>
            {props.columns.map(([head, cell, style]) => (
              <td key={head} class={style}>
                {cell(item)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
