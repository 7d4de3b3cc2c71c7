/** Rows of one height, of which only those in sight are in the page: a list of any length costs the same. */

import { useSignal } from "@preact/signals";
import type { ComponentChild } from "preact";
import { useEffect, useRef } from "preact/hooks";

const SPARE = 10;

interface Props<T> {
  items: T[];
  height: number;
  row: (item: T, index: number) => ComponentChild;
  /** The reader is near the last row. */
  nearEnd?: () => void;
}

export function VirtualRows<T>({ items, height, row, nearEnd }: Props<T>) {
  const box = useRef<HTMLDivElement>(null);
  const range = useSignal<[number, number]>([0, 60]);
  const onNearEnd = useRef(nearEnd);
  onNearEnd.current = nearEnd;
  useEffect(() => {
    const measure = () => {
      const top = -(box.current?.getBoundingClientRect().top ?? 0);
      const first = Math.max(0, Math.floor(top / height) - SPARE);
      const last = Math.ceil((top + innerHeight) / height) + SPARE;
      if (first !== range.value[0] || last !== range.value[1]) range.value = [first, last];
      if (last >= items.length && scrollY > 0) onNearEnd.current?.();
    };
    measure();
    addEventListener("scroll", measure, { passive: true });
    addEventListener("resize", measure);
    return () => {
      removeEventListener("scroll", measure);
      removeEventListener("resize", measure);
    };
  }, [items.length, height]);
  const [first, last] = range.value;
  return (
    <div ref={box} role="rowgroup" style={{ height: `${items.length * height}px` }}>
      <div role="presentation" style={{ transform: `translateY(${first * height}px)` }}>
        {items.slice(first, last).map((item, i) => row(item, first + i))}
      </div>
    </div>
  );
}
