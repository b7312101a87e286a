"""What the server tells of itself, as Prometheus text under vLLM's names, so that the same readers work on both."""

import bisect
import itertools
from collections.abc import Iterable, Iterator

_SHORT_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10, 20, 40, 80)
_TOKEN_S = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10, 20, 40, 80)
_REQUEST_S = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0)
_TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
_ITERATION = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)

FINISH_REASONS = ("stop", "length", "abort", "error")


class Histogram:
    """Counts of observations up to each bound, their number and their sum."""

    def __init__(self, name: str, text: str, bounds: tuple[float, ...]) -> None:
        self.name = name
        self.text = text
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect.bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, labels: str) -> Iterator[str]:
        yield f"# HELP {self.name} {self.text}"
        yield f"# TYPE {self.name} histogram"
        totals = list(itertools.accumulate(self._counts))
        for bound, total in zip([*map(float, self._bounds), "+Inf"], totals, strict=True):
            yield f'{self.name}_bucket{{{labels},le="{bound}"}} {float(total)}'
        yield f"{self.name}_count{{{labels}}} {float(totals[-1])}"
        yield f"{self.name}_sum{{{labels}}} {self._sum}"


def _lines(name: str, kind: str, text: str, samples: Iterable[tuple[str, float]]) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
    for labels, value in samples:
        yield f"{name}{{{labels}}} {float(value)}"


class Metrics:
    """Counters and histograms since the start. The gauges of the moment are handed to `render`."""

    def __init__(self, model: str) -> None:
        escaped = model.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
        self._labels = f'engine="0",model_name="{escaped}"'
        self._model_label = f'model_name="{escaped}"'
        self.prompt_tokens = 0
        self.generation_tokens = 0
        self.preemptions = 0
        self.prefix_queries_tokens = 0
        self.prefix_hits_tokens = 0
        self.queue_rejections = 0
        self.success = dict.fromkeys(FINISH_REASONS, 0)
        self.ttft = Histogram("vllm:time_to_first_token_seconds", "Time to first token in seconds.", _SHORT_S)
        self.itl = Histogram("vllm:inter_token_latency_seconds", "Inter-token latency in seconds.", _TOKEN_S)
        self.tpot = Histogram(
            "vllm:request_time_per_output_token_seconds", "Time per output token of a request in seconds.", _TOKEN_S
        )
        self.e2e = Histogram("vllm:e2e_request_latency_seconds", "End-to-end latency in seconds.", _REQUEST_S)
        self.queue = Histogram("vllm:request_queue_time_seconds", "Time spent waiting, in seconds.", _REQUEST_S)
        self.prefill = Histogram("vllm:request_prefill_time_seconds", "Time spent in prefill, in seconds.", _REQUEST_S)
        self.decode = Histogram("vllm:request_decode_time_seconds", "Time spent in decode, in seconds.", _REQUEST_S)
        self.request_prompt = Histogram("vllm:request_prompt_tokens", "Prompt tokens of a request.", _TOKENS)
        self.request_generation = Histogram("vllm:request_generation_tokens", "Output tokens of a request.", _TOKENS)
        self.iteration = Histogram("vllm:iteration_tokens_total", "Tokens computed in an engine step.", _ITERATION)

    def render(self, *, running: int, waiting: int, kv_usage_ratio: float) -> str:
        """The whole page."""
        return "\n".join([*self._gauges(running, waiting, kv_usage_ratio), *self._counters(), *self._histograms(), ""])

    def _gauges(self, running: int, waiting: int, kv_usage_ratio: float) -> Iterator[str]:
        yield from _lines("vllm:num_requests_running", "gauge", "Requests in the batch.", [(self._labels, running)])
        yield from _lines("vllm:num_requests_waiting", "gauge", "Requests in the queue.", [(self._labels, waiting)])
        text = "KV-cache usage. 1 means 100 percent usage."
        yield from _lines("vllm:kv_cache_usage_perc", "gauge", text, [(self._labels, kv_usage_ratio)])

    def _counters(self) -> Iterator[str]:
        for name, text, value in (
            ("vllm:num_preemptions_total", "Preemptions.", self.preemptions),
            ("vllm:prompt_tokens_total", "Prompt tokens of requests that were prefilled.", self.prompt_tokens),
            ("vllm:generation_tokens_total", "Tokens generated.", self.generation_tokens),
            ("vllm:prefix_cache_queries_total", "Tokens looked up in the prefix cache.", self.prefix_queries_tokens),
            ("vllm:prefix_cache_hits_total", "Tokens found in the prefix cache.", self.prefix_hits_tokens),
            ("vllm:prompt_tokens_cached_total", "Prompt tokens that were cached.", self.prefix_hits_tokens),
        ):
            yield from _lines(name, "counter", text, [(self._labels, value)])
        samples = [
            (f'{self._labels},finished_reason="{reason}"', float(count)) for reason, count in self.success.items()
        ]
        yield from _lines("vllm:request_success_total", "counter", "Requests processed to their end.", samples)
        rejected = [(f'{self._model_label},reason="max_num_queued_reqs"', float(self.queue_rejections))]
        yield from _lines(
            "vllm:admission_rejections_total", "counter", "Requests the full queue turned away.", rejected
        )

    def _histograms(self) -> Iterator[str]:
        for histogram in vars(self).values():
            if isinstance(histogram, Histogram):
                yield from histogram.lines(self._labels)
