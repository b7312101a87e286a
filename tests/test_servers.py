"""What servers say of themselves is read by name, summed over engines, and absent where they say nothing."""

from tokenswarm.servers import COLUMNS, ServerRow, read_metrics, to_csv

VLLM = """# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 5.0
vllm:num_requests_running{engine="1",model_name="tiny"} 3.0
vllm:num_requests_waiting{engine="0",model_name="a } b"} 18.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 18.0
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:kv_cache_usage_perc{engine="1"} 1.0
vllm:num_preemptions_total{engine="0"} 26.0
vllm:num_preemptions_created{engine="0"} 1.79e+09
vllm:time_to_first_token_seconds_bucket{le="0.001"} 7.0
"""
LLAMA = """# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 4
# TYPE llamacpp:requests_deferred gauge
llamacpp:requests_deferred 16
llamacpp:tokens_predicted_total 512
"""


def test_vllm() -> None:
    assert read_metrics(VLLM) == {"running": 8, "waiting": 18, "kv_cache_ratio": 1.0, "preemptions_total": 26}


def test_llama() -> None:
    assert read_metrics(LLAMA) == {"running": 4, "waiting": 16, "generation_tokens_total": 512}


def test_a_page_that_is_none() -> None:
    for text in ("", "<html>not found</html>", '{"detail": "Not Found"}', "vllm:num_requests_running broken\n"):
        assert read_metrics(text) == {}


def test_unknown_is_an_empty_cell() -> None:
    row = to_csv(ServerRow(at=1.5, target="http://a", running=0.0))
    assert row == "1.500000,http://a,0.000000" + "," * (len(COLUMNS) - 3) + "\n"
