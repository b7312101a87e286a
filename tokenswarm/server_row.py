"""A row of server.csv: what a server says of itself at one moment. The contract between asking it and reading it."""

import dataclasses

FILE = "server.csv"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServerRow:
    """The state of one target at one moment, summed over its engines. Field order is column order; unknown is None."""

    at: float  # epoch s, when the answer had come
    target: str
    running: float | None = None  # requests that are being computed
    waiting: float | None = None  # requests in the server's queue
    kv_cache_ratio: float | None = None  # share of the KV cache in use; of several engines, the fullest
    preemptions_total: float | None = None  # requests that lost their place in the KV cache, since its start
    prompt_tokens_total: float | None = None  # since its start, as the next three
    generation_tokens_total: float | None = None
    prefix_queries_total: float | None = None  # prompt tokens looked up in the prefix cache
    prefix_hits_total: float | None = None  # and found


COLUMNS = tuple(field.name for field in dataclasses.fields(ServerRow))
FULLEST = "kv_cache_ratio"  # the column that has no sum over engines or targets
