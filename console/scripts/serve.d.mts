import type { Server } from "node:http";

export const HEADERS: Record<string, string>;
export function serve(options: {
  target: () => string;
  port?: number;
  prefix?: string;
}): Promise<{ server: Server; url: string }>;
