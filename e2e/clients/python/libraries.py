"""Python libraries that are scripts inside: libraries.py PORT. Locks over several servers, rate limits, two queues of jobs."""
import logging
import operator
import sys
import time
from importlib.metadata import version

import redis

port = int(sys.argv[1])
url = f"redis://127.0.0.1:{port}"
client = redis.Redis(port=port)
client.flushall()


def redlock():
    from pottery import Redlock
    from pottery.exceptions import ExtendUnlockedLock, ReleaseUnlockedLock

    masters = {redis.Redis(port=port, db=db) for db in range(3)}
    lock = Redlock(key="thing", masters=masters, auto_release_time=5)
    assert lock.acquire() and 4 < lock.locked() <= 5
    other = Redlock(key="thing", masters=masters, auto_release_time=5)
    assert other.acquire(blocking=False) is False
    lock.extend()
    assert lock.locked() > 4
    lock.release()
    for action, wanted in ((lock.release, ReleaseUnlockedLock), (lock.extend, ExtendUnlockedLock)):
        try:
            action()
            raise AssertionError("a lock that nobody holds was released or extended")
        except wanted:
            pass
    assert other.acquire(blocking=False)
    other.release()


def limits():
    from limits import parse
    from limits.storage import storage_from_string
    from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter, SlidingWindowCounterRateLimiter

    storage = storage_from_string(url)
    assert storage.check()
    for strategy in (FixedWindowRateLimiter, MovingWindowRateLimiter, SlidingWindowCounterRateLimiter):
        limiter, rate = strategy(storage), parse("5/minute")
        who = strategy.__name__
        # The window is one of the clock's minutes: not across its end.
        if time.time() % 60 > 58:
            time.sleep(60 - time.time() % 60)
        assert [limiter.hit(rate, who) for _ in range(7)] == [True] * 5 + [False] * 2, who
        assert limiter.get_window_stats(rate, who).remaining == 0 and limiter.test(rate, who + "2")
        limiter.clear(rate, who)
        assert limiter.hit(rate, who), who


def rq():
    from rq import Queue, SimpleWorker

    queue = Queue("work", connection=client)
    jobs = [queue.enqueue(operator.mul, number, number) for number in range(20)]
    failing = queue.enqueue(operator.truediv, 1, 0)
    behind = queue.enqueue(operator.add, 1, 2, depends_on=jobs)
    logging.disable(logging.CRITICAL)
    SimpleWorker([queue], connection=client).work(burst=True)
    logging.disable(logging.NOTSET)
    assert [job.return_value(refresh=True) for job in jobs] == [number * number for number in range(20)]
    assert behind.return_value(refresh=True) == 3 and failing.get_status() == "failed"
    assert len(queue.failed_job_registry) == 1 and queue.count == 0


def celery():
    from celery import Celery, chord, group
    from celery.contrib.testing.worker import start_worker

    app = Celery("smoke", broker=url, backend=url)
    app.conf.update(worker_hijack_root_logger=False, broker_connection_retry_on_startup=True)

    @app.task(bind=True, max_retries=2)
    def square(self, number, failures=0):
        if self.request.retries < failures:
            raise self.retry(countdown=0)
        return number * number

    @app.task
    def total(numbers):
        return sum(numbers)

    with start_worker(app, pool="solo", perform_ping_check=False, loglevel="ERROR"):
        results = group(square.s(number) for number in range(20))().get(timeout=30)
        assert results == [number * number for number in range(20)]
        assert chord((square.s(number) for number in range(10)), total.s())().get(timeout=30) == 285
        assert square.delay(3, failures=2).get(timeout=30) == 9
        assert square.apply_async((4,), countdown=0.1).get(timeout=30) == 16


for part in (redlock, limits, rq, celery):
    began = time.monotonic()
    part()
    print(part.__name__, round(time.monotonic() - began, 2))
names = ("pottery", "limits", "rq", "celery")
print(", ".join(f"{name} {version(name)}" for name in names) + ": work")
