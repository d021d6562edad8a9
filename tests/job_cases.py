"""Jobs that a worker can import."""

import os
import signal
import time

from gradsim.errors import InputError


def square(x: float) -> float:
    return x * x


def one_thread(_) -> int:
    import torch

    return torch.get_num_threads()


def die_once(marker) -> str:
    """Kill this worker, unless the file is there."""
    if not os.path.exists(marker):
        open(marker, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


def die(_) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fail(x) -> None:
    raise InputError(f"{x} is wrong.")


def wait_long(path) -> None:
    with open(path, "w") as file:
        file.write(str(os.getpid()))
    time.sleep(60)
