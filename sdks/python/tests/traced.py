"""A worker and its caller with OpenTelemetry, in one process. Prints every span that ended."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tenure import AsyncClient, Ctx, Flow, NewRun, Worker, durable, task

TRACER = trace.get_tracer("test")
PATIENCE = 60.0


@task(queue="traced", bind=True)
def in_a_thread(ctx: Ctx, n: int) -> str | None:
    with TRACER.start_as_current_span("inside"):
        return ctx.trace


@task(queue="traced")
async def on_the_loop(n: int) -> int:
    with TRACER.start_as_current_span("inside"):
        await asyncio.sleep(0)
    return n


@durable(queue="traced")
async def function(flow: Flow, n: int) -> int:
    return await flow.step("add", lambda: n + 1)


async def main() -> None:
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)
    worker = Worker(in_a_thread, on_the_loop, function)
    serving = asyncio.create_task(worker.serve())
    async with AsyncClient() as client:
        with TRACER.start_as_current_span("caller"):
            runs: list[Any] = [await client.submit(in_a_thread, 1), await client.submit(on_the_loop, 2)]
            runs += await client.submit_many([NewRun(function, 3)])
        for run in runs:
            await run.result(PATIENCE)
        alone = await (await client.submit(in_a_thread, 4)).result(PATIENCE)
    worker.stop()
    await serving
    print(json.dumps({"spans": [shown(span) for span in spans.get_finished_spans()], "alone": alone}))


def shown(span: Any) -> dict[str, Any]:
    context, parent = span.get_span_context(), span.parent
    ids = {"trace": context.trace_id, "id": context.span_id, "parent": parent and parent.span_id}
    return {"name": span.name, **ids, "attributes": dict(span.attributes)}


if __name__ == "__main__":
    asyncio.run(main())
