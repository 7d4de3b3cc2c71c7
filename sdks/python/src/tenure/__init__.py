"""Tenure: work that is done and recorded exactly once, by workers that need not be trusted.

    from tenure import Client, Worker, task

    @task(queue="mail")
    def greet(name: str) -> str:
        return f"Hello, {name}!"

    if __name__ == "__main__":
        Worker(greet).run()

and, in another process, `Client().submit(greet, "Ada").result()`.
"""

from ._codec import Codec
from ._current import current
from ._waits import Vote
from .aio import AsyncClient, AsyncRunHandle
from .client import Client, RunHandle
from .ctx import Ctx
from .errors import (
    OutputUnreadable,
    Protocol,
    Refused,
    RunFailed,
    RunRefused,
    Setup,
    TenureError,
    TimedOut,
    UnknownOutcome,
    Unreachable,
)
from .event import WorkerEvent
from .failure import CallFailed, Category, Failure, StepFailed
from .flow import Approval, Call, Delivery, Effect, Flow, Op, Signal, Step
from .options import Budget, FlowKey, Left, Retry, RunOptions, Spend, Stall, TaskOptions
from .schedule import Cron, Every
from .task import Kind, NewRun, Plan, PlanStep, Task, durable, task
from .worker import Worker

__version__ = "0.1.0"

__all__ = [
    "Approval",
    "AsyncClient",
    "AsyncRunHandle",
    "Budget",
    "Call",
    "CallFailed",
    "Category",
    "Client",
    "Codec",
    "Cron",
    "Ctx",
    "Delivery",
    "Effect",
    "Every",
    "Failure",
    "Flow",
    "FlowKey",
    "Kind",
    "Left",
    "NewRun",
    "Op",
    "OutputUnreadable",
    "Plan",
    "PlanStep",
    "Protocol",
    "Refused",
    "Retry",
    "RunFailed",
    "RunHandle",
    "RunOptions",
    "RunRefused",
    "Setup",
    "Signal",
    "Spend",
    "Stall",
    "Step",
    "StepFailed",
    "Task",
    "TaskOptions",
    "TenureError",
    "TimedOut",
    "UnknownOutcome",
    "Unreachable",
    "Vote",
    "Worker",
    "WorkerEvent",
    "current",
    "durable",
    "task",
]
