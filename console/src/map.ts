/** The pages of the console, once: the rail, the keys, the jump field and the help are made from this list. */

import { mayRead, type Readable } from "./access.js";

export interface MapEntry {
  name: string;
  /** The first segment of its address. */
  to: string;
  /** The letter that leads to it, after `g`. */
  key: string;
  /** The page is offered if the key may read one of these. */
  needs: [Readable, ...Readable[]];
  /** The heading in the rail; pages without one are in the bar of a narrow screen, too. */
  group?: "Work" | "Operate";
  /** A path on a grid of 16. */
  icon: string;
}

export const PAGES: MapEntry[] = [
  { name: "Overview", to: "", key: "o", needs: ["runs"], icon: "M2 8h3l2-5 3 9 2-4h3" },
  { name: "Runs", to: "runs", key: "r", needs: ["runs"], icon: "M2 3.500h12M2 8h9M2 12.500h6" },
  {
    name: "Inbox",
    to: "inbox",
    key: "i",
    needs: ["approvals"],
    icon: "M2 9l2-6h8l2 6v4H2zM2 9h4l1 2h2l1-2h4",
  },
  {
    name: "Queues",
    to: "queues",
    key: "q",
    needs: ["runs"],
    group: "Work",
    icon: "M3 3h10v3H3zM3 8h10v1H3zM3 11h10v1H3z",
  },
  {
    name: "Schedules",
    to: "schedules",
    key: "s",
    needs: ["schedules"],
    group: "Work",
    icon: "M2.500 4h11v9.500h-11zM2.500 7h11M5 2v3M11 2v3",
  },
  {
    name: "Effects",
    to: "effects",
    key: "e",
    needs: ["effects"],
    group: "Work",
    icon: "M2 8h8M7 4.500l3.500 3.500L7 11.500M13 3v10",
  },
  {
    name: "Topologies",
    to: "topologies",
    key: "t",
    needs: ["deployments"],
    group: "Work",
    icon: "M2 3h4.500v3.500H2zM9.500 9.500H14V13H9.500zM6.500 4.800H12v4.700",
  },
  {
    name: "Limits",
    to: "limits",
    key: "l",
    needs: ["audit"],
    group: "Operate",
    icon: "M3 13.500V8M8 13.500v-11M13 13.500V6",
  },
  {
    name: "Audit",
    to: "audit",
    key: "a",
    needs: ["audit"],
    group: "Operate",
    icon: "M3.500 2h9v12h-9zM6 5.500h4M6 8h4M6 10.500h2.500",
  },
  {
    name: "Keys",
    to: "keys",
    key: "k",
    needs: ["keys"],
    group: "Operate",
    icon: "M7.500 8a2.800 2.800 0 1 1-5.600 0a2.800 2.800 0 0 1 5.600 0M7.500 8H14v2.800M11 8v2",
  },
  {
    name: "Health",
    to: "health",
    key: "h",
    needs: ["runs", "audit"],
    group: "Operate",
    icon: "M8 13.500L2.900 8.200a3.200 3.200 0 0 1 5.100-3.700a3.200 3.200 0 0 1 5.100 3.700z",
  },
];

export const isOffered = ({ needs }: MapEntry): boolean => needs.some(mayRead);

/** The pages that the key may read. */
export const offered = (): MapEntry[] => PAGES.filter(isOffered);

/** The page that an address means. The address without a page is the first page that the key may read. */
export function entryOf(first: string | undefined): MapEntry | undefined {
  return first === undefined ? offered()[0] : PAGES.find(({ to }) => to === first);
}
