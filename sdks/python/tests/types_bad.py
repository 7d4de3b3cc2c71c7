"""Lines that must not type-check. Each ends with `# bad`; mypy and pyright must find an error there, and nowhere else."""

from tenure import Client, Cron, Flow, Kind, NewRun, Worker, durable, task


@task(queue="mail")
def greet(name: str) -> str:
    return name


@task(queue="mail")
async def agreet(name: str, n: int = 1) -> str:
    return name * n


@task(queue="orders")
def pack(item: str) -> str:
    return item


def charge(cents: int) -> str:
    return str(cents)


SQUARE: Kind[int, int] = Kind("square", queue="numbers", input=int, output=int)


@durable(queue="orders")
async def order(flow: Flow, cents: int) -> str:
    receipt: str = await flow.step("c", charge, cents)
    await flow.step("c", charge, "7")  # bad
    await flow.step("c", charge)  # bad
    await flow.call(pack, 7)  # bad
    packed: str = await flow.call(pack, "lamp")
    number: int = await flow.call(pack, "lamp")  # bad
    go: bool = await flow.signal("go", bool)
    maybe: bool = await flow.signal("go", bool).within(days=7)  # bad
    both: tuple[str, int] = await flow.all(flow.step("a", charge, 1), flow.call(SQUARE, 2))
    wrong: tuple[int, int] = await flow.all(flow.step("a", charge, 1), flow.call(SQUARE, 2))  # bad
    squares: list[int] = await flow.map(SQUARE, [1, 2], max=3)
    await flow.map(SQUARE, ["x"])  # bad
    await flow.sleep("cool-off", minutes="5")  # bad
    return f"{receipt}{packed}{number}{go}{maybe}{both}{wrong}{squares}"


client = Client()
text: str = client.submit(greet, "Ada").result()
client.submit(greet, 7)  # bad
client.submit(greet)  # bad
client.submit(greet, "a", "b")  # bad
client.submit(agreet, "a", m=1)  # bad
client.submit(agreet, "a", n=2)
n: int = client.submit(greet, "Ada").result()  # bad
client.submit("greet", "Ada")  # bad
client.submit("greet", "Ada", queue="mail", delay=60)
client.submit("greet", "Ada", queue="mail", delya=60)  # bad
client.submit(SQUARE, 3)
client.submit(SQUARE, "3")  # bad
client.submit(order, 7)
client.submit(order, "7")  # bad
client.submit(greet.options(delay=60), "Ada")
client.submit(greet.options(delay="60"), "Ada")  # bad
client.submit(greet.options(delay=60), 7)  # bad
client.submit_many([NewRun(greet, "Ada")])
NewRun(greet, 7)  # bad
client.schedules.create("nightly", Cron("0 3 * * *"), greet, "Ada")
client.schedules.create("nightly", Cron("0 3 * * *"), greet, 7)  # bad
Worker(greet, order)
Worker(charge)  # bad
