/**
 * The lines that an attempt logs, until the coordinator has them.
 *
 * They travel with the next heartbeat, checkpoint or report. A line has a number, so one that is sent twice is kept once,
 * and one that found no room here leaves a gap that the coordinator counts. Lines never cost the work: nothing here
 * throws, and a coordinator that does not know of them gets none.
 */
import type { LogLevel, LogLine } from "./log.js";

/** What the coordinator keeps of an attempt. */
export const BUFFER_BYTES_MAX = 64 * 1024;
/** What one call carries: far below the coordinator's limit on a body, even if every character is escaped. */
export const CALL_BYTES_MAX = 16 * 1024;
/** The coordinator cuts a longer text. */
const TEXT_BYTES_MAX = 4 * 1024;
/** What a line counts beside its text. */
const LINE_BYTES = 32;

/** Whether the coordinator takes lines, for all attempts of a worker. */
export class LogSwitch {
  constructor(public isOn: boolean) {}

  /**
   * Whether a call with lines may have been refused because of them: then it is made again without, and none are sent
   * any more. A coordinator that does not know of lines names the member in `field`, or in its message alone.
   */
  isRefusedBy(answer: { error?: string | null; field?: string | null }): boolean {
    if (answer.error !== "invalid_argument") return false;
    const field = answer.field ?? undefined;
    const isMeant = field === undefined || field.split(".").some((part) => /^log(\[|$)/.test(part));
    if (isMeant) this.isOn = false;
    return isMeant;
  }
}

interface SentLine {
  n: number;
  at: string;
  level: LogLevel;
  text: string;
}

export class LogBuffer {
  #lines: Array<{ line: SentLine; bytes: number }> = [];
  #bytes = 0;
  #next = 1;

  constructor(private readonly takesLogs: LogSwitch) {}

  /** Adds a line. The oldest gives way where there is no room. */
  add(level: LogLevel, text: string): void {
    if (!this.takesLogs.isOn) return;
    const { kept, length } = cut(text);
    const bytes = length + LINE_BYTES;
    this.#lines.push({ line: { n: this.#next++, at: new Date().toISOString(), level, text: kept }, bytes });
    this.#bytes += bytes;
    while (this.#bytes > BUFFER_BYTES_MAX) this.#shift();
  }

  /** The oldest lines for a call, and the number of the last; nothing if there are none. */
  take(bytesMax = CALL_BYTES_MAX): { lines: SentLine[]; last: number } | undefined {
    if (this.#lines.length === 0 || !this.takesLogs.isOn) return undefined;
    const lines: SentLine[] = [];
    let room = bytesMax;
    for (const { line, bytes } of this.#lines) {
      room -= bytes;
      if (lines.length > 0 && room < 0) break;
      lines.push(line);
    }
    return { lines, last: lines.at(-1)?.n ?? 0 };
  }

  /** The coordinator has the lines up to this one. */
  arrived(last: number): void {
    while ((this.#lines[0]?.line.n ?? Number.POSITIVE_INFINITY) <= last) this.#shift();
  }

  get isEmpty(): boolean {
    return this.#lines.length === 0 || !this.takesLogs.isOn;
  }

  #shift(): void {
    this.#bytes -= this.#lines.shift()?.bytes ?? 0;
  }
}

/** A text that any store takes, and its bytes: without NUL and halves of characters, and not too long. */
function cut(text: string): { kept: string; length: number } {
  const bytes = new TextEncoder().encode(text.slice(0, TEXT_BYTES_MAX).replaceAll("\0", "\ufffd"));
  let end = Math.min(bytes.length, TEXT_BYTES_MAX);
  // A byte that goes on with a character begins with the bits 10.
  while (end < bytes.length && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return { kept: new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes.subarray(0, end)), length: end };
}

/** What a line says, as one text. */
export function textOf({ message, data }: LogLine): string {
  if (data === undefined) return message;
  try {
    return `${message} ${JSON.stringify(data)}`;
  } catch {
    return message;
  }
}
