"""A Tenure worker with Python's standard library: `python3 worker.py QUEUE`. One task at a time; HANDLERS is yours."""
import http.client, json, os, random, signal, sys, threading, time, traceback, urllib.request, uuid

URL, KEY, QUEUE = os.environ.get("TENURE_URL"), os.environ.get("TENURE_API_KEY"), "".join(sys.argv[1:2])
if not (URL and KEY and QUEUE):
    sys.exit("usage: TENURE_URL=... TENURE_API_KEY=... python3 worker.py QUEUE (`tenure dev` prints the first two)")
WORKER = "python-" + uuid.uuid4().hex[:12]
stopping = polling = False

def greet(value, lease):
    return {"text": "Hello, " + value["name"]}

def await_file(value, lease):
    while not os.path.exists(value["path"]):
        if lease.must_stop(wait=0.05):  # Long work asks often: the run was cancelled, or the lease is lost.
            raise RuntimeError("stopped before the file came")

HANDLERS = {"greet": greet, "await-file": await_file}

def now():  # A clock that is never set and that goes on while the machine sleeps.
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))

class KeepStatus(urllib.request.HTTPErrorProcessor):  # An error status is an answer, not an exception.
    http_response = https_response = lambda self, request, response: response

def post(path, token, body, timeout=10):  # One try; status 0 if nothing was decided: no answer, 429, 503.
    headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json"}
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), headers)
    try:
        with urllib.request.build_opener(KeepStatus).open(request, timeout=timeout) as response:
            answer = json.load(response)
            return (0 if response.status in (429, 503) else response.status), answer
    except (OSError, http.client.HTTPException, ValueError) as error:
        return 0, {"error": str(error)}

def deliver(send):  # The same call until it is decided; 20 tries with growing pauses take about 90 seconds.
    for n in range(20):
        status, answer = send()
        if status:
            break
        print("no decision, trying again:", answer["error"], flush=True)
        time.sleep(random.uniform(0.5, 1) * min(0.1 * 2**n, 8))
    return status, answer

class Lease:
    def __init__(self, envelope):
        self.envelope, self.token = envelope, envelope["taskToken"]
        ttl, self.interval = envelope["heartbeatTimeoutMs"] / 1000, envelope["heartbeatIntervalMs"] / 1000
        self.usable = ttl * 0.9 - 1 if ttl > 2.5 else ttl * 0.75  # The rest is for drift and a last write.
        self.until = now() + self.usable  # From the arrival of the poll's answer; the first heartbeat confirms it.
        self.cancelled, self.reported = threading.Event(), threading.Event()

    def call(self, name, timeout=10, **members):
        body = {"attempt": self.envelope["attempt"], "workerId": WORKER, **members}
        return post("/v1/tasks/" + self.envelope["taskId"] + "/" + name, self.token, body, timeout)

    def is_lost(self):
        return now() >= self.until

    def must_stop(self, wait=0):
        return self.cancelled.wait(wait) or self.is_lost()

    def heartbeat(self):
        sent = now()
        status, answer = self.call("heartbeat", timeout=max(0.5, self.interval))
        if status == 200 and not self.is_lost():  # A late answer does not revive a lease.
            self.until, self.token = sent + self.usable, answer.get("taskToken", self.token)
            if answer["shouldCancel"]:
                self.cancelled.set()
        elif status:
            self.until = 0  # Refused: the lease is lost, whatever the clock says.
        return status, answer

    def keep(self):  # On a separate thread, until the report is answered or the lease is lost.
        pause = self.interval
        while not self.reported.wait(max(0, min(pause, self.until - now()))) and not self.is_lost():
            pause = self.interval if self.heartbeat()[0] == 200 else 0.2

def work(envelope):
    lease, run = Lease(envelope), envelope["runId"]
    is_granted = deliver(lambda: lease.call("started"))[0] == 200 and deliver(lease.heartbeat)[0] == 200
    if not is_granted or lease.is_lost():
        return print(run, "not begun", flush=True)
    threading.Thread(target=lease.keep, daemon=True).start()
    try:
        report = {"outcome": "SUCCEEDED", "output": HANDLERS[envelope["kind"]](envelope["input"], lease)}
    except Exception as error:
        error = {"category": "USER_CODE", "message": repr(error), "stackTrace": traceback.format_exc()}
        report = {"outcome": "CANCELLED"} if lease.cancelled.is_set() else {"outcome": "FAILED", "error": error}
    if lease.is_lost():  # Another worker may have the task by now: discard the result.
        return print(run, "lease lost", flush=True)
    answer = deliver(lambda: lease.call("completed", **report))[1]
    lease.reported.set()
    print(run, report["outcome"], answer.get("verdict"), answer.get("error", ""), flush=True)

def poll():  # Repeated with its id until it is answered: leases of a lost answer come again.
    global polling
    body = {"workerId": WORKER, "queues": [QUEUE], "kinds": list(HANDLERS), "max": 1, "pollId": uuid.uuid4().hex}
    send = lambda: post("/v1/leases", KEY, {**body, "waitMs": 0 if stopping else 30_000}, timeout=40)
    try:
        polling = True
        status, answer = deliver(send)
        polling = False
    except KeyboardInterrupt:  # Once more without waiting, for a lease that was granted meanwhile.
        status, answer = send()
    if status not in (0, 200):
        sys.exit(f"the poll was refused: {answer.get('message')} [{answer.get('error')}]")
    return answer["leases"] if status else []

def terminate(*_):  # Ends a waiting poll; work in hand is finished and reported.
    global stopping, polling
    stopping, interrupts, polling = True, polling, False
    if interrupts:
        raise KeyboardInterrupt

signal.signal(signal.SIGTERM, terminate)
signal.signal(signal.SIGINT, terminate)
print(WORKER, "works on", QUEUE, flush=True)
while not stopping:
    for envelope in poll():
        work(envelope)
print("stopped", flush=True)
