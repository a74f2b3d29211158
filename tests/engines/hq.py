"""What tests/engines/hyperqueue needs of `hq`, made of HyperQueue's Python package.

The package has HyperQueue's server, worker and client, but not its command.

usage: hq.py server WORKERS    run a server with workers of one CPU each, in this process, until it is killed
       hq.py --output-mode quiet submit ...
       hq.py job task-ids ID --filter failed,canceled,aborted
The last two take only the flags that `pipeprof matrix plan --for hyperqueue` prints. The folder of the server is
HQ_SERVER_DIR.
"""

import argparse
import os
import signal
import sys

from hyperqueue import Client, Job
from hyperqueue.cluster import LocalCluster, WorkerConfig
from hyperqueue.task.task import ResourceRequest

FOLDER = os.environ["HQ_SERVER_DIR"]


def serve(workers):
    cluster = LocalCluster(FOLDER)
    for _ in range(workers):
        cluster.start_worker(WorkerConfig(cores=1))
    print(f"{workers} workers", flush=True)
    signal.pause()


def submit(words):
    parser = argparse.ArgumentParser(prog="hq submit", allow_abbrev=False)
    parser.add_argument("--array", required=True)
    parser.add_argument("--cpus", type=int, required=True)
    parser.add_argument("--crash-limit", type=int, required=True)
    parser.add_argument("--wait", action="store_true", required=True)
    parser.add_argument("--stdout", choices=["none"], required=True)
    parser.add_argument("--stderr", required=True)
    parser.add_argument("command", nargs="+")
    args = parser.parse_args(words)
    first, last = map(int, args.array.split("-"))
    # As with `hq`, a task that fails ends no other one.
    job = Job(default_workdir=os.getcwd(), max_fails=None)
    for number in range(first, last + 1):
        task = job.program(
            args.command,
            stdout=None,
            stderr=os.path.join(os.getcwd(), args.stderr),
            resources=ResourceRequest(cpus=args.cpus),
            crash_limit=args.crash_limit,
        )
        # The package counts from 0.
        task.task_id = number
    client = Client(FOLDER)
    submitted = client.submit(job)
    client.wait_for_jobs([submitted], raise_on_error=False)
    print(submitted.id)


def failed_tasks(job):
    failed = Client(FOLDER).connection.get_failed_tasks([job])
    print(",".join(str(task) for task in sorted(failed.get(job, {}))))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["server", count]:
            serve(int(count))
        case ["--output-mode", "quiet", "submit", *words]:
            submit(words)
        case ["job", "task-ids", job, "--filter", "failed,canceled,aborted"]:
            failed_tasks(int(job))
        case _:
            sys.exit(__doc__)
