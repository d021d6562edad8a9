"""Jobs that a worker can import."""

import os
import signal
import time

from gradsim.errors import InputError
from gradsim.runtime.threads import thread_count


def square(x: float) -> float:
    return x * x


def one_thread(_) -> tuple[int, int]:
    """PyTorch's threads, and ours."""
    import torch

    return torch.get_num_threads(), thread_count()


def die_once(marker) -> str:
    """Kill this worker, unless the file is there."""
    if not os.path.exists(marker):
        open(marker, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


def die(_) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_when_told(path) -> str:
    """Return at once; but for "b", first, wait for the file "told" beside it and kill this worker."""
    folder, name = os.path.split(path)
    if name == "b" and not os.path.exists(path):
        open(path, "w").close()
        while not os.path.exists(os.path.join(folder, "told")):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGKILL)
    return name


def most_at_a_time(path) -> int:
    """How many jobs are seen that run together with this one, itself included."""
    folder, most = os.path.dirname(path), 0
    open(path, "w").close()
    for _ in range(20):
        most = max(most, len(os.listdir(folder)))
        time.sleep(0.02)
    os.remove(path)
    return most


def fail(x) -> None:
    raise InputError(f"{x} is wrong.")


def wait_long(path) -> None:
    with open(path, "w") as file:
        file.write(str(os.getpid()))
    time.sleep(60)
