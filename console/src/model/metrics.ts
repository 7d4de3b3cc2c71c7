/** Reads the Prometheus text of `/metrics`, as far as the console shows it: samples by name, and quantiles of histograms. */

export interface Sample {
  labels: Record<string, string>;
  value: number;
}

export type Metrics = Map<string, Sample[]>;

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

export function parseMetrics(text: string): Metrics {
  const found: Metrics = new Map();
  for (const line of text.split("\n")) {
    const [, name, labels = "", value] = line.match(LINE) ?? [];
    if (name === undefined || value === undefined) continue;
    const sample = {
      labels: Object.fromEntries([...labels.matchAll(LABEL)].map(([, key, text]) => [key!, text!])),
      value: Number(value.replace(/^\+?Inf$/, "Infinity")),
    };
    const samples = found.get(name);
    if (samples) samples.push(sample);
    else found.set(name, [sample]);
  }
  return found;
}

/** The sum of all samples of a name; nothing if the server does not have it. */
export function sum(metrics: Metrics, name: string): number | undefined {
  return metrics.get(name)?.reduce((whole, { value }) => whole + value, 0);
}

/** The upper end of the bucket that holds a quantile; infinity if it is beyond the last one, nothing without observations. */
export function quantile(metrics: Metrics, name: string, share: number): number | undefined {
  const buckets = (metrics.get(`${name}_bucket`) ?? [])
    .map(({ labels, value }) => ({ upTo: labels["le"] === "+Inf" ? Infinity : Number(labels["le"]), value }))
    .sort((a, b) => a.upTo - b.upTo);
  const count = buckets.at(-1)?.value ?? 0;
  if (count === 0) return undefined;
  return buckets.find(({ value }) => value >= share * count)?.upTo;
}
