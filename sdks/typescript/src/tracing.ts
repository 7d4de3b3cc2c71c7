/**
 * Spans of attempts, if `@opentelemetry/api` is installed; otherwise the trace context is passed on as it came.
 *
 * The attempt's span is a child of the one that the run came with, and the report names it, so the run links to it.
 */
import type { Attempt } from "./worker/attempt.js";

/** The part of `@opentelemetry/api` that is called. */
interface OpenTelemetry {
  trace: {
    getTracer(name: string): { startSpan(name: string, options: object, context: unknown): Span };
    /** A stand-in, until a program registers one that makes spans. */
    getTracerProvider(): { getDelegateTracer?(name: string): unknown };
    setSpan(context: unknown, span: Span): unknown;
  };
  context: { active(): unknown; with<T>(context: unknown, run: () => T): T };
  propagation: {
    extract(context: unknown, carrier: object): unknown;
    inject(context: unknown, carrier: object): void;
  };
  SpanStatusCode: { ERROR: number };
}

interface Span {
  recordException(error: Error): void;
  setStatus(status: { code: number; message?: string }): void;
  end(): void;
}

type Traced = <T>(run: () => Promise<T>) => Promise<T>;

export interface Tracing {
  /** Begins the span of an attempt. What is returned runs its code inside; nothing where no spans are made. */
  start(attempt: Attempt): Traced | undefined;
}

export const NO_TRACING: Tracing = { start: () => undefined };

export async function findTracing(): Promise<Tracing> {
  const name = "@opentelemetry/api";
  try {
    return new Spans((await import(name)) as OpenTelemetry);
  } catch {
    return NO_TRACING;
  }
}

class Spans implements Tracing {
  constructor(private readonly otel: OpenTelemetry) {}

  start(attempt: Attempt): Traced | undefined {
    const { trace, context, propagation, SpanStatusCode } = this.otel;
    const provider = trace.getTracerProvider();
    if (provider.getDelegateTracer !== undefined && provider.getDelegateTracer("tenure") === undefined)
      return undefined;
    const { traceparent, runId, taskId, kind, queue } = attempt;
    const parent = traceparent ? propagation.extract(context.active(), { traceparent }) : context.active();
    const attributes = {
      "tenure.run_id": runId,
      "tenure.task_id": taskId,
      "tenure.kind": kind,
      "tenure.queue": queue,
      "tenure.attempt": attempt.attempt,
    };
    const span = trace.getTracer("tenure").startSpan("tenure.attempt", { attributes }, parent);
    const inside = trace.setSpan(parent, span);
    const carrier: { traceparent?: string } = {};
    propagation.inject(inside, carrier);
    attempt.traceparent = carrier.traceparent ?? traceparent;
    return async (run) => {
      try {
        return await context.with(inside, run);
      } catch (error) {
        if (error instanceof Error) span.recordException(error);
        span.setStatus({ code: SpanStatusCode.ERROR, message: String(error) });
        throw error;
      } finally {
        span.end();
      }
    };
  }
}
