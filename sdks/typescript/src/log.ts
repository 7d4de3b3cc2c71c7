/** Lines that code writes while it runs, with the run and the attempt that it belongs to. */
export type LogLevel = "debug" | "info" | "warn" | "error";

export interface LogLine {
  level: LogLevel;
  message: string;
  /** What the code added. */
  data?: Record<string, unknown> | undefined;
  runId?: string;
  taskId?: string;
  attempt?: number;
  kind?: string;
}

export type LogSink = (line: LogLine) => void;

/** Writes lines of one attempt. */
export interface Log {
  debug(message: string, data?: Record<string, unknown>): void;
  info(message: string, data?: Record<string, unknown>): void;
  warn(message: string, data?: Record<string, unknown>): void;
  error(message: string, data?: Record<string, unknown>): void;
}

export function logTo(sink: LogSink, about: Omit<LogLine, "level" | "message" | "data">): Log {
  const at = (level: LogLevel) => (message: string, data?: Record<string, unknown>) => {
    sink({ level, message, ...(data === undefined ? {} : { data }), ...about });
  };
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

const nothing = () => {};
export const SILENT: Log = { debug: nothing, info: nothing, warn: nothing, error: nothing };

/** A line whose data can be written. A log never costs the work, so data without a JSON form says only what it is. */
export function sendableLine(line: LogLine): LogLine {
  if (line.data === undefined) return line;
  try {
    return { ...line, data: JSON.parse(JSON.stringify(line.data)) };
  } catch (error) {
    return { ...line, data: { unwritable: error instanceof Error ? error.message : String(error) } };
  }
}

const ORDER: LogLevel[] = ["debug", "info", "warn", "error"];

/** One JSON line on standard error for each line at or above `TENURE_LOG` (`info` when absent; `off` for none). */
export function standardSink(): LogSink {
  const asked = globalThis.process?.env?.["TENURE_LOG"] ?? "info";
  const least = asked === "off" ? ORDER.length : Math.max(0, ORDER.indexOf(asked as LogLevel));
  return (line) => {
    if (ORDER.indexOf(line.level) < least) return;
    process.stderr.write(`${JSON.stringify({ time: new Date().toISOString(), ...sendableLine(line) })}\n`);
  };
}
