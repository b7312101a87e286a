"""The limit of open files, looked at before the load: a socket that cannot be made would look like a server that refuses."""

import math

from tokenswarm.usage_error import UsageError

OTHER_FILES = 100  # beside sockets: rows, libraries, pipes, Locust's own


def check_open_files(users: int, *, processes: int = 1, targets: int = 1) -> None:
    """Whether a process can hold the connections of its share of `users`: one each, at most, to each target.

    `users`: of the largest step; `processes`: that share the load. Raises UsageError with the command that raises the limit.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    need = math.ceil(users / processes) * targets + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= need:
        return
    if hard == resource.RLIM_INFINITY or hard >= need:
        how = f"raise it in this shell with: ulimit -n {need}"
    else:
        how = f"raise it (the system allows {hard} here) with: sudo prlimit --pid $$ --nofile={need}:{need}"
    raise UsageError(
        f"{users} users need up to {need} open files in one process, and its limit is {soft}: {how}; or share the load out "
        "over more processes, or make the largest step smaller."
    )
