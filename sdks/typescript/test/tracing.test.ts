/** Spans of attempts, where `@opentelemetry/api` is installed. */
import { type Context, propagation, type TextMapPropagator, trace } from "@opentelemetry/api";
import { afterAll, beforeAll, expect, it } from "vitest";
import { findTracing } from "../dist/tracing.js";

interface Noted {
  name: string;
  attributes: Record<string, unknown>;
  ended: boolean;
  error: string | undefined;
}

const spans: Noted[] = [];
const TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

beforeAll(() => {
  const startSpan = (name: string, options?: { attributes?: Record<string, unknown> }) => {
    const noted: Noted = { name, attributes: options?.attributes ?? {}, ended: false, error: undefined };
    spans.push(noted);
    return {
      recordException: () => {},
      setStatus: ({ message }: { message?: string }) => {
        noted.error = message;
      },
      end: () => {
        noted.ended = true;
      },
    };
  };
  trace.setGlobalTracerProvider({ getTracer: () => ({ startSpan }) } as never);
  const propagator: TextMapPropagator = {
    inject: (_: Context, carrier: any) => {
      carrier.traceparent = TRACEPARENT.replace("b7ad6b7169203331", "00f067aa0ba902b7");
    },
    extract: (context: Context) => context,
    fields: () => ["traceparent"],
  };
  propagation.setGlobalPropagator(propagator);
});

afterAll(() => {
  trace.disable();
  propagation.disable();
});

it("an attempt is a span, whose context goes into the report", async () => {
  const attempt = {
    runId: "run_1",
    taskId: "task_1",
    kind: "greet",
    queue: "mail",
    attempt: 2,
    traceparent: TRACEPARENT,
  };
  const traced = (await findTracing()).start(attempt as never);
  expect(await traced?.(async () => 7)).toBe(7);
  expect(spans[0]).toMatchObject({ name: "tenure.attempt", ended: true, error: undefined });
  expect(spans[0]?.attributes).toMatchObject({ "tenure.run_id": "run_1", "tenure.attempt": 2 });
  expect(attempt.traceparent).toContain("00f067aa0ba902b7");
  const failing = (await findTracing()).start(attempt as never);
  await expect(failing?.(() => Promise.reject(new Error("boom")))).rejects.toThrow("boom");
  expect(spans[1]).toMatchObject({ ended: true, error: "Error: boom" });
});

it("costs nothing while no program has registered a provider", async () => {
  trace.disable();
  expect((await findTracing()).start({} as never)).toBeUndefined();
});
