"""The classifier: what servers, gateways and proxies say when they fail, and what must not be mistaken for it."""

# ruff: noqa: E501  (what servers say is quoted whole)

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenswarm.api_error import api_error
from tokenswarm.chat_stream import Answer
from tokenswarm.errors import End, classify, page_words, retry_after_s, unsupported_param
from tokenswarm.record import ErrorClass, Outcome


def answer_of(body: str | bytes, content_type: str | None = None) -> Answer:
    answer = Answer(content_type)
    answer.feed(body.encode() if isinstance(body, str) else body, 1)
    answer.close()
    return answer


def error(message: str, **more: Any) -> str:
    return json.dumps({"error": {"message": message, **more}})


C = ErrorClass
PAGE = (
    "<html><head><title>{0}</title></head><body><center><h1>{0}</h1></center><hr><center>nginx</center></body></html>"
)
BODIES: list[tuple[int, str, ErrorClass]] = [
    # context length
    (400, error("maximum context length is 16384 tokens, requested 122946", type="BadRequestError", code=400), C.CONTEXT_LENGTH),
    (400, error("x", type="exceed_context_size_error", code=400, n_ctx=4096), C.CONTEXT_LENGTH),
    (400, error("This model's maximum context length is 8192 tokens.", code="context_length_exceeded"), C.CONTEXT_LENGTH),
    (400, '{"object":"error","message":"This model\'s maximum context length is 2048 tokens","code":400}', C.CONTEXT_LENGTH),
    (400, error("The input (9000 tokens) is longer than the model's context length (8192 tokens)."), C.CONTEXT_LENGTH),
    (500, error("the request exceeds the available context size. try increasing the context size"), C.CONTEXT_LENGTH),
    (422, '{"error":"`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000","error_type":"validation"}', C.CONTEXT_LENGTH),
    (422, '{"error":"Input validation error: `inputs` must have less than 1024 tokens. Given: 3000"}', C.CONTEXT_LENGTH),
    (400, '{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8"}}', C.CONTEXT_LENGTH),
    (400, error("litellm.ContextWindowExceededError: litellm.BadRequestError: x", code="400"), C.CONTEXT_LENGTH),
    (400, error("Please reduce the length of the messages or completion."), C.CONTEXT_LENGTH),
    (413, error("Prompt contains 40000 tokens, too large for model with 32768 maximum context length"), C.CONTEXT_LENGTH),
    (400, error("The input token count (9) exceeds the maximum number of tokens allowed (8)."), C.CONTEXT_LENGTH),
    (400, error("max_tokens must be at least 1, got -153."), C.CONTEXT_LENGTH),
    (400, error("Input is too long for requested model."), C.CONTEXT_LENGTH),
    (400, error("Request prompt has 5000 tokens in total, larger than the model input length limit 4096."), C.CONTEXT_LENGTH),
    (400, error("default_max_tokens (-952) must be greater than 0, max_seq_len (2048) - splited_prompt_len (3000)"), C.CONTEXT_LENGTH),
    (400, error("The sum of prompt length (3000) and max_tokens (9) should not exceed max_num_tokens (2048)"), C.CONTEXT_LENGTH),
    (400, error("Range of input length should be [1, 30720]", code="invalid_parameter_error"), C.CONTEXT_LENGTH),
    (400, error("Total message token length exceed model limit"), C.CONTEXT_LENGTH),
    (400, error("Your request exceeded model token limit: 8192"), C.CONTEXT_LENGTH),
    (400, error("total tokens of image and text exceed max message tokens"), C.CONTEXT_LENGTH),
    (400, '{"message":"too many tokens: total number of tokens in the prompt exceeds the limit of 4081"}', C.CONTEXT_LENGTH),
    (500, error("the input is longer than the max_seq_len"), C.CONTEXT_LENGTH),
    (400, error("input length and `max_tokens` exceed context limit: 199759 + 64000 > 200000"), C.CONTEXT_LENGTH),
    # rate limits
    (429, '{"message":"Too many tokens, please wait before trying again."}', C.RATE_LIMITED),
    (429, error("Requests have exceeded token rate limit of your current pricing tier.", code="429"), C.RATE_LIMITED),
    (429, '{"statusCode":429,"message":"Limit reached. Try again in 5 seconds."}', C.RATE_LIMITED),
    (400, '{"error":{"message":"Please wait","http_status_code":429}}', C.RATE_LIMITED),
    (429, error("Tokens used today (90000) exceed the maximum of your plan"), C.RATE_LIMITED),
    (429, error("rate limit reached", code="429", type="rate_limit"), C.RATE_LIMITED),
    (429, error("You exceeded your current quota", type="insufficient_quota"), C.RATE_LIMITED),
    (413, error("Request too large for model x on tokens per minute (TPM): Limit 6000", code="rate_limit_exceeded"), C.RATE_LIMITED),
    (429, error("No deployments available for selected model, Try again in 60 seconds."), C.RATE_LIMITED),
    (429, "", C.RATE_LIMITED),
    (429, "Too Many Requests", C.RATE_LIMITED),
    (429, PAGE.format("429 Too Many Requests"), C.RATE_LIMITED),
    (400, error("Rate limit exceeded: 20 requests per minute"), C.RATE_LIMITED),
    (500, error("litellm.RateLimitError: OpenAIException"), C.RATE_LIMITED),
    (503, error("x", code=429), C.RATE_LIMITED),
    (429, '{"message":"API rate limit exceeded"}', C.RATE_LIMITED),
    (400, '{"message":"ThrottlingException: slower, please"}', C.RATE_LIMITED),
    # overload
    (503, error("no healthy backend", type="service_unavailable"), C.OVERLOADED),
    (429, '{"error":"Model is overloaded","error_type":"overloaded"}', C.OVERLOADED),
    (429, error("The engine is currently overloaded, please try again later", type="engine_overloaded_error"), C.OVERLOADED),
    (529, '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', C.OVERLOADED),
    (500, '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', C.OVERLOADED),
    (500, error("The server is too busy"), C.OVERLOADED),
    (503, error("Loading model", type="unavailable_error", code=503), C.OVERLOADED),
    (503, "no healthy upstream", C.OVERLOADED),
    (503, "", C.OVERLOADED),
    (503, PAGE.format("503 Service Temporarily Unavailable"), C.OVERLOADED),
    (503, error("The request queue is full.", code=503), C.OVERLOADED),
    (500, error("x", code=503), C.OVERLOADED),
    (503, "upstream connect error or disconnect/reset before headers. reset reason: overflow", C.OVERLOADED),
    (500, error("server busy, please try again.  maximum pending requests exceeded"), C.OVERLOADED),
    (500, error("x is currently over capacity", type="internal_server_error"), C.OVERLOADED),
    (500, error("x", code="no_available_workers"), C.OVERLOADED),
    (500, error("Too many inflight requests"), C.OVERLOADED),
    (500, '{"error":"Exceeds maximum queue size"}', C.OVERLOADED),
    (503, '{"detail":{"msg":"Server is busy; please try again later.","type":"service_unavailable"}}', C.OVERLOADED),
    (503, "<html><body><h1>503 Service Unavailable</h1>\nNo server is available.\n</body></html>", C.OVERLOADED),
    # authentication
    (401, '{"statusCode":401,"message":"Access denied due to missing subscription key."}', C.AUTH),
    (401, "Jwt is expired", C.AUTH),
    (403, "RBAC: access denied", C.AUTH),
    (401, "", C.AUTH),
    (401, error("Incorrect API key provided: sk-x.", code="invalid_api_key"), C.AUTH),
    (401, PAGE.format("401 Authorization Required"), C.AUTH),
    (400, error("API key not valid. Please pass a valid API key.", status="INVALID_ARGUMENT"), C.AUTH),
    (403, '{"detail":"Not authenticated"}', C.AUTH),
    (403, error("Permission denied", status="PERMISSION_DENIED"), C.AUTH),
    (401, '{"error":"Unauthorized"}', C.AUTH),
    (500, error("Authentication Error, No api key passed in.", code="401", type="auth_error"), C.AUTH),
    (400, error("x", code=401), C.AUTH),
    # models
    (404, error("the model `vllm-model` does not exist", type="NotFoundError", code=404), C.MODEL_NOT_FOUND),
    (404, error("The model `x` does not exist or you do not have access to it.", code="model_not_found"), C.MODEL_NOT_FOUND),
    (404, error('model "llama9" not found, try pulling it first', type="api_error"), C.MODEL_NOT_FOUND),
    (400, error("Invalid model name passed in model=x. Call `/v1/models` to view available models"), C.MODEL_NOT_FOUND),
    (400, error("x is not a valid model ID", code=400), C.MODEL_NOT_FOUND),
    (404, error("No endpoints found for x/y.", code=404), C.MODEL_NOT_FOUND),
    (400, '{"detail":"Server is pinned to \'tiny\'; requested \'x\'"}', C.MODEL_NOT_FOUND),
    (404, error("The API deployment for this resource does not exist.", code="DeploymentNotFound"), C.MODEL_NOT_FOUND),
    (400, error("Model Not Exist", type="invalid_request_error"), C.MODEL_NOT_FOUND),
    (404, '{"type":"error","error":{"type":"not_found_error","message":"model: claude-x"}}', C.MODEL_NOT_FOUND),
    (400, '{"error":"No models loaded. Please load a model in the developer page."}', C.MODEL_NOT_FOUND),
    (400, error("litellm.BadRequestError: LLM Provider NOT provided. You passed model=x"), C.MODEL_NOT_FOUND),
    (404, '{"error":"The requested model \'x\' is not deployed"}', C.MODEL_NOT_FOUND),
    (404, error("Could not find model x"), C.MODEL_NOT_FOUND),
    (404, error("Unable to access non-serverless model x."), C.MODEL_NOT_FOUND),
    (400, '{"message":"The provided model identifier is invalid."}', C.MODEL_NOT_FOUND),
    # parameters
    (400, error("'ignore_eos' is not a valid parameter"), C.UNSUPPORTED_PARAMETER),
    (422, '{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","x"],"msg":"no"}]}}', C.UNSUPPORTED_PARAMETER),
    (422, '{"detail":[{"loc":["body","stream_options"],"type":"extra_forbidden","msg":"no"}]}', C.UNSUPPORTED_PARAMETER),
    (422, '{"detail":[{"loc":["body","x"],"type":"value_error.extra","msg":"extra fields not permitted"}]}', C.UNSUPPORTED_PARAMETER),
    (422, '{"detail":"Unexpected fields in the request: {\'frobnicate\'}"}', C.UNSUPPORTED_PARAMETER),
    (400, error("Unrecognized request argument supplied: ignore_eos", type="invalid_request_error"), C.UNSUPPORTED_PARAMETER),
    (400, error("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'"
                " instead.", param="max_tokens", code="unsupported_parameter"), C.UNSUPPORTED_PARAMETER),
    (400, error("Unsupported value: 'temperature' does not support 0.2 with this model."), C.UNSUPPORTED_PARAMETER),
    (400, error("litellm.UnsupportedParamsError: x does not support parameters: ['seed'], for model=x"), C.UNSUPPORTED_PARAMETER),
    (422, "Failed to deserialize the JSON body into the target type: unknown field `ignore_eos`", C.UNSUPPORTED_PARAMETER),
    (400, error("Additional properties are not allowed ('min_tokens' was unexpected)"), C.UNSUPPORTED_PARAMETER),
    (400, error("Unknown name \"ignore_eos\": Cannot find field."), C.UNSUPPORTED_PARAMETER),
    (400, error("property 'logprobs' is unsupported"), C.UNSUPPORTED_PARAMETER),
    (400, error("registry/x does not support tools"), C.UNSUPPORTED_PARAMETER),
    (400, error("[{'type': 'extra_forbidden', 'loc': ('body', 'foo'), 'msg': 'Extra inputs are not permitted'}]"), C.UNSUPPORTED_PARAMETER),
    # gateways
    (502, PAGE.format("502 Bad Gateway"), C.GATEWAY_ERROR),
    (502, "", C.GATEWAY_ERROR),
    (502, "error code: 502", C.GATEWAY_ERROR),
    (403, "upstream connect error or disconnect/reset before headers. reset reason: connection termination", C.GATEWAY_ERROR),
    (503, "upstream connect error or disconnect/reset before headers. reset reason: connection failure", C.GATEWAY_ERROR),
    (503, error("upstream connect error or disconnect/reset before headers"), C.GATEWAY_ERROR),
    (520, "error code: 520", C.GATEWAY_ERROR),
    (521, PAGE.format("x.org | 521: Web server is down"), C.GATEWAY_ERROR),
    (500, PAGE.format("500 Internal Server Error"), C.GATEWAY_ERROR),
    (403, PAGE.format("Attention Required! | Cloudflare"), C.GATEWAY_ERROR),
    (504, "<html><body><h1>504 Gateway Time-out</h1></body></html>", C.GATEWAY_TIMEOUT),
    (504, "", C.GATEWAY_TIMEOUT),
    (504, "upstream request timeout", C.GATEWAY_TIMEOUT),
    (503, "upstream request timeout", C.GATEWAY_TIMEOUT),
    (408, "stream timeout", C.GATEWAY_TIMEOUT),
    (524, PAGE.format("x.org | 524: A timeout occurred"), C.GATEWAY_TIMEOUT),
    (500, PAGE.format("504 Gateway Time-out"), C.GATEWAY_TIMEOUT),
    (408, error("litellm.Timeout: APITimeoutError - Request timed out.", code="408"), C.GATEWAY_TIMEOUT),
    (408, "upstream max stream duration reached", C.GATEWAY_TIMEOUT),
    (500, '{"message":"The upstream server is timing out"}', C.GATEWAY_TIMEOUT),
    (504, '{"message":"Endpoint request timed out"}', C.GATEWAY_TIMEOUT),
    (500, "context deadline exceeded", C.GATEWAY_TIMEOUT),
    (500, "dial tcp 10.0.0.1:8000: connect: connection refused", C.GATEWAY_ERROR),
    (500, error("do request failed", code="do_request_failed"), C.GATEWAY_ERROR),
    (502, '{"message":"An invalid response was received from the upstream server"}', C.GATEWAY_ERROR),
    # anything else
    (413, PAGE.format("413 Request Entity Too Large"), C.HTTP_ERROR),
    (400, error("'max_tokens' is too large: 5000. This model supports at most 4096 completion tokens."), C.HTTP_ERROR),
    (400, error("max_tokens 5000 exceeds the maximum of 4096", param="max_tokens"), C.HTTP_ERROR),
    (400, error("temperature is greater than maximum 2"), C.HTTP_ERROR),
    (400, error("The response was filtered. Please modify your prompt and retry.", code="content_filter"), C.HTTP_ERROR),
    (404, '{"message":"no Route matched with those values"}', C.HTTP_ERROR),
    (500, "fault filter abort", C.HTTP_ERROR),
    (500, "Internal Server Error", C.HTTP_ERROR),
    (500, error("CUDA out of memory", code=500), C.HTTP_ERROR),
    (404, '{"detail":"Not Found"}', C.HTTP_ERROR),
    (404, "404 page not found", C.HTTP_ERROR),
    (404, PAGE.format("404 Not Found"), C.HTTP_ERROR),
    (400, '{"detail":[{"loc":["body","messages"],"msg":"field required","type":"value_error.missing"}]}', C.HTTP_ERROR),
    (400, error("temperature must be between 0 and 2", param="temperature"), C.HTTP_ERROR),
    (402, error("Insufficient Balance"), C.HTTP_ERROR),
    (400, error("n must be 1 when using greedy sampling, got 2."), C.HTTP_ERROR),
    (301, "", C.HTTP_ERROR),
    (418, "{}", C.HTTP_ERROR),
    (400, '{"error":{"message":null}}', C.HTTP_ERROR),
    (405, '{"detail":"Method Not Allowed"}', C.HTTP_ERROR),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "error_class"), BODIES)
def test_error_bodies(status: int, body: str, error_class: ErrorClass) -> None:
    verdict = classify(End.COMPLETE, status, answer_of(body) if body else Answer(), None)
    assert (verdict.outcome, verdict.error_class) == (Outcome.FAILED, error_class), verdict.detail
    assert verdict.detail
    assert "\n" not in verdict.detail
    assert "<" not in verdict.detail or not body.startswith("<")
    for end in (End.RESET, End.TIMEOUT_TOTAL, End.TIMEOUT_STALL):  # the status came: a broken body changes nothing
        assert classify(end, status, answer_of(body) if body else None, "broken").error_class is error_class


IN_STREAM: list[tuple[str, ErrorClass, str]] = [
    ('{"error":{"message":"engine worker stopped","type":"server_error","code":500}}', C.STREAM_ERROR, "engine worker stopped"),
    ('{"error":{"message":"The engine is currently busy","type":"Service Unavailable","code":503}}', C.OVERLOADED, "busy"),
    ('{"error":{"message":"Please wait","code":503}}', C.OVERLOADED, "Please wait"),
    ('{"error":{"message":"slow down","code":"429"}}', C.RATE_LIMITED, "slow down"),
    ('{"error":"boom"}', C.STREAM_ERROR, "boom"),
    ('{"error":["boom"]}', C.STREAM_ERROR, "boom"),
    ('{"object":"error","message":"boom","type":"InternalServerError","param":null,"code":500}', C.STREAM_ERROR, "boom"),
    ('{"detail":"boom"}', C.STREAM_ERROR, "boom"),
    ('{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', C.OVERLOADED, "Overloaded"),
    ('{"code":50505,"message":"Model service overloaded.","data":null}', C.OVERLOADED, "Model service overloaded."),
    ('{"base_resp":{"status_code":1000,"status_msg":"unknown"}}', C.STREAM_ERROR, "unknown"),
    ('{"error":{"code":502,"message":"Network connection lost."},"choices":[{"index":0,"delta":{"content":""},'
     '"finish_reason":"error"}]}', C.STREAM_ERROR, "Network connection lost."),
    ('{"choices":[{"index":0,"delta":{"content":""},"error":{"code":502,"message":"lost"}}]}', C.STREAM_ERROR, "lost"),
    ('{"error":{"message":"maximum context length is 10 tokens","code":400}}', C.CONTEXT_LENGTH, "maximum context length"),
    ('{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"rate-limited upstream"}}}',
     C.RATE_LIMITED, "rate-limited upstream"),
    ('{"type":"server_error","message":"boom"}', C.STREAM_ERROR, "boom"),
    ('{"success":false,"message":"boom"}', C.STREAM_ERROR, "boom"),
    ('{"event":"error","message":"boom"}', C.STREAM_ERROR, "boom"),
    ('{"status":"FAILED","message":"boom"}', C.STREAM_ERROR, "boom"),
    ('{"code":"InternalError","message":"boom","request_id":"r"}', C.STREAM_ERROR, "boom"),
    ('{"error_code":336000,"error_msg":"boom"}', C.STREAM_ERROR, "boom"),
    ('{"error":{"code":500}}', C.STREAM_ERROR, "500"),
    ('{"error":{"message":"Please wait","http_status_code":429}}', C.RATE_LIMITED, "Please wait"),
    ('{"error":"{\\"message\\": \\"rate limit exceeded\\"}"}', C.RATE_LIMITED, "rate limit"),
    ('{"choices":[{"index":0,"delta":{}}],"x_groq":{"id":"r","error":"boom"}}', C.STREAM_ERROR, "boom"),
    ('{"choices":null,"base_resp":{"status_code":1002,"status_msg":"rate limit exceeded(RPM)"}}', C.RATE_LIMITED, "RPM"),
    ('{"error":{"message":"peer closed connection: APIConnectionError","code":"500"}}', C.STREAM_ERROR, "peer closed"),
]  # fmt: skip
PART = b'data: {"choices":[{"index":0,"delta":{"content":"Part"}}]}\n\n'


@pytest.mark.parametrize(("body", "error_class", "detail"), IN_STREAM)
@pytest.mark.parametrize("before", [b"", PART])
def test_errors_inside_a_good_stream(body: str, error_class: ErrorClass, detail: str, before: bytes) -> None:
    for stream in (b"data: %b\n\ndata: [DONE]\n\n", b"event: error\ndata: %b\n\n", b"data: %b"):
        answer = answer_of(before + stream % body.encode())
        for end in (End.COMPLETE, End.RESET, End.TIMEOUT_STALL):
            verdict = classify(end, 200, answer, "the transport's words")
            assert (verdict.outcome, verdict.error_class) == (Outcome.FAILED, error_class)
            assert detail in (verdict.detail or "")
        assert len(answer.chunk_marks) == bool(before)


@pytest.mark.parametrize(("body", "error_class", "detail"), IN_STREAM)
def test_a_bare_error_body_under_status_200(body: str, error_class: ErrorClass, detail: str) -> None:
    for content_type in ("text/event-stream", "application/json"):
        for text in (body, body + "\n\ndata: [DONE]\n\n", f"[{body}]"):
            verdict = classify(End.COMPLETE, 200, answer_of(text, content_type), None)
            assert (verdict.outcome, verdict.error_class) == (Outcome.FAILED, error_class)


def test_a_named_error_event_of_plain_words() -> None:
    verdict = classify(End.COMPLETE, 200, answer_of(PART + b"event: error\ndata: worker died\n\n"), None)
    assert (verdict.error_class, verdict.detail) == (C.STREAM_ERROR, "worker died")


@pytest.mark.parametrize(
    ("name", "data", "error_class"),
    [
        ("throttlingException", '{"message":"slower, please"}', C.RATE_LIMITED),
        ("modelStreamErrorException", '{"message":"boom"}', C.STREAM_ERROR),
        ("Error", '{"message":"boom"}', C.STREAM_ERROR),
        ("error", '{"message":"boom", "choices": []}', C.STREAM_ERROR),
        ("stream-error", "boom", C.STREAM_ERROR),
        ("error", "{boom", C.STREAM_ERROR),
    ],
)
def test_an_event_whose_name_says_error(name: str, data: str, error_class: ErrorClass) -> None:
    answer = answer_of(PART + f"event: {name}\ndata: {data}\n\n".encode() + b"data: [DONE]\n\n")
    assert classify(End.COMPLETE, 200, answer, None).error_class is error_class


@pytest.mark.parametrize(
    "event",
    [
        b'data: {"status":"processing","message":"Please wait"}\n\n',
        b'data: {"status":"completed","message":"done","choices":[]}\n\n',
        b'data: {"code":0,"message":"Success","choices":[]}\n\n',
        b'data: {"code":201,"message":"created"}\n\n',
        b'data: {"success":true,"message":"queued"}\n\n',
        b'data: {"type":"ping","message":"still here"}\n\n',
        b'event: terror\ndata: {"position":3}\n\n',
        b'data: {"choices":[],"error":{"message":"","type":"","param":"","code":null}}\n\n',
        b'data: {"choices":[{"index":0,"delta":{}}],"error":{"code":0,"message":""}}\n\n',
        b'data: {"choices":[{"index":0,"delta":{},"error":{"code":"0","message":"success"}}]}\n\n',
    ],
)
def test_what_is_said_beside_an_answer_is_no_error(event: bytes) -> None:
    for stream in (event + WHOLE + DONE, PART + event + WHOLE + DONE, WHOLE + event + DONE):
        assert classify(End.COMPLETE, 200, answer_of(stream), None).outcome is Outcome.OK


@pytest.mark.parametrize("before", [b"", b": ping\n\n", b"\n", b"unknown: field\n\n"])
@pytest.mark.parametrize("indent", [None, 1])
def test_an_error_body_in_mid_stream(before: bytes, indent: int | None) -> None:
    """What a gateway writes when its backend fails after the answer has begun: JSON, and no event."""
    body = json.dumps({"error": {"message": "boom", "code": 503}}, indent=indent).encode()
    assert classify(End.COMPLETE, 200, answer_of(PART + before + body + b"\n\n"), None).error_class is C.OVERLOADED


@pytest.mark.parametrize(
    "body",
    [
        '{"object":"text_completion","choices":[{"index":0,"text":"","finish_reason":"stop"}]}',
        '{"object":"chat.completion","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":0}}',
        '{"object":"chat.completion","choices":null}',
        '{"choices":[{"index":0,"message":null,"finish_reason":"stop"}]}',
        '{"choices":[{"index":0,"message":{"role":"assistant","content":null}}]}',
    ],
)
def test_a_whole_answer_without_output_is_empty(body: str) -> None:
    for text in (body, ": ping\n\n" + body):
        answer = answer_of(text)
        assert classify(End.COMPLETE, 200, answer, None).outcome is Outcome.EMPTY
        assert not answer.streamed


def test_lines_of_json_are_no_event_stream() -> None:
    for line in (
        '{"message":{"role":"assistant","content":"a"},"done":false}',
        '{"choices":[{"delta":{"content":"a"}}]}',
    ):
        assert classify(End.COMPLETE, 200, answer_of(f"{line}\n{line}\n"), None).error_class is C.MALFORMED_STREAM


@pytest.mark.parametrize("nothing", ["null", "false", '""', "{}", "[]", '{"message":"","code":null}', "[{}]", "0"])
def test_an_error_field_that_holds_nothing_is_none(nothing: str) -> None:
    stream = '{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}],"error":' + nothing + "}"
    assert classify(End.COMPLETE, 200, answer_of(f"data: {stream}\n\n"), None).outcome is Outcome.OK


WHOLE = PART + b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"
ENDS: list[tuple[End, int | None, bytes | None, Outcome, ErrorClass | None]] = [
    (End.COMPLETE, 200, WHOLE + DONE, Outcome.OK, None),
    (End.COMPLETE, 200, WHOLE, Outcome.OK, None),
    (End.COMPLETE, 200, PART + DONE, Outcome.OK, None),
    (End.COMPLETE, 200, PART, Outcome.FAILED, C.STREAM_TRUNCATED),
    (End.COMPLETE, 200, b"", Outcome.EMPTY, C.EMPTY_RESPONSE),
    (End.COMPLETE, 200, b": ping\n\n", Outcome.EMPTY, C.EMPTY_RESPONSE),
    (End.COMPLETE, 200, DONE, Outcome.EMPTY, C.EMPTY_RESPONSE),
    (End.COMPLETE, 204, b"", Outcome.EMPTY, C.EMPTY_RESPONSE),
    (End.COMPLETE, 200, WHOLE.replace(b"Part", b""), Outcome.EMPTY, C.EMPTY_RESPONSE),
    (End.COMPLETE, 200, PART.replace(b"Part", b""), Outcome.FAILED, C.STREAM_TRUNCATED),
    (End.COMPLETE, 200, b"data: hello\n\n", Outcome.FAILED, C.MALFORMED_STREAM),
    (End.COMPLETE, 200, b'data: {"type":"message_start"}\n\n', Outcome.FAILED, C.MALFORMED_STREAM),
    (End.COMPLETE, 200, b"<html><title>Log in</title></html>", Outcome.FAILED, C.MALFORMED_STREAM),
    (End.COMPLETE, 200, b"<html><title>502 Bad Gateway</title></html>", Outcome.FAILED, C.MALFORMED_STREAM),
    (End.COMPLETE, 200, b'{"status":"ok"}', Outcome.FAILED, C.MALFORMED_STREAM),
    (End.COMPLETE, 200, b"It works!", Outcome.FAILED, C.MALFORMED_STREAM),
    (End.COMPLETE, 200, b"upstream request timeout", Outcome.FAILED, C.GATEWAY_TIMEOUT),
    (End.RESET, 200, PART, Outcome.FAILED, C.CONNECTION_RESET),
    (End.RESET, 200, WHOLE, Outcome.FAILED, C.CONNECTION_RESET),
    (End.RESET, 200, WHOLE + DONE, Outcome.OK, None),  # after [DONE] nothing can be lost
    (End.RESET, 200, b"", Outcome.FAILED, C.CONNECTION_RESET),
    (End.RESET, 200, DONE, Outcome.FAILED, C.CONNECTION_RESET),
    (End.RESET, None, None, Outcome.FAILED, C.CONNECTION_RESET),
    (End.CONNECT_FAILED, None, None, Outcome.FAILED, C.CONNECT_FAILED),
    (End.TIMEOUT_FIRST_TOKEN, None, None, Outcome.FAILED, C.TIMEOUT_FIRST_TOKEN),
    (End.TIMEOUT_FIRST_TOKEN, 200, b": ping\n\n", Outcome.FAILED, C.TIMEOUT_FIRST_TOKEN),
    (End.TIMEOUT_STALL, 200, PART, Outcome.FAILED, C.TIMEOUT_STALL),
    (End.TIMEOUT_STALL, 200, WHOLE + DONE, Outcome.OK, None),
    (End.TIMEOUT_TOTAL, 200, PART, Outcome.FAILED, C.TIMEOUT_TOTAL),
    (End.NOT_HTTP, None, None, Outcome.FAILED, C.MALFORMED_STREAM),
    (End.NOT_HTTP, 200, PART, Outcome.FAILED, C.MALFORMED_STREAM),
    (End.TOO_LARGE, 200, b"{", Outcome.FAILED, C.MALFORMED_STREAM),
    (End.CANCELLED, None, None, Outcome.CANCELLED, None),
    (End.CANCELLED, 200, PART, Outcome.CANCELLED, None),
    (End.CANCELLED, 503, b"", Outcome.CANCELLED, None),
]


@pytest.mark.parametrize(("end", "status", "body", "outcome", "error_class"), ENDS)
def test_ends(
    end: End, status: int | None, body: bytes | None, outcome: Outcome, error_class: ErrorClass | None
) -> None:
    verdict = classify(end, status, None if body is None else answer_of(body), "the transport's words")
    assert (verdict.outcome, verdict.error_class) == (outcome, error_class)
    if status is None and outcome is Outcome.FAILED:
        assert verdict.detail == "the transport's words"


def test_every_end_without_an_answer_has_its_class() -> None:
    for end in set(End) - {End.COMPLETE, End.CANCELLED}:
        assert classify(end, None, None, "x").outcome is Outcome.FAILED


def test_what_no_rule_names_is_our_bug() -> None:
    with pytest.raises(ValueError, match="surprise"):
        classify("surprise", 200, Answer(), None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="status"):
        classify(End.COMPLETE, None, None, None)


def test_a_page_becomes_its_words() -> None:
    page = "<html><head><title>502 Bad\nGateway</title><style>x{}</style></head><body><!-- pad --><h1>A &amp; B</h1>"
    verdict = classify(End.COMPLETE, 502, answer_of(page + "<script>alert(1)</script>" + "<!-- pad -->" * 999), None)
    assert verdict.detail == "502 Bad Gateway A & B"


@given(st.text(alphabet="<>!-/abcscript \n&;", max_size=200))
def test_any_page_ends(page: str) -> None:
    assert "\n" not in page_words(page)


def test_a_hostile_page_is_read_in_linear_time() -> None:
    for piece in ("<", "<!--", "<script", "<title>", "</title", "&", "<a " * 3):
        page_words(piece * 20_000)


def test_hostile_words_are_matched_in_bounded_time() -> None:
    for piece in ("model ", "param ", "input ", "token ", "token exceed ", "no slot", "api key ", "upstream "):
        classify(End.COMPLETE, 400, answer_of(error(piece * 20_000)), None)


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ('{"detail":[{"loc":["body","stream_options"],"type":"extra_forbidden","msg":"field not allowed"}]}', "stream_options"),
        (error("no", param="max_tokens"), "max_tokens"),
        (error("Unsupported parameter: 'max_tokens' is not supported with this model."), "max_tokens"),
        (error("Unrecognized request argument supplied: ignore_eos"), "ignore_eos"),
        (error("[{'type': 'extra_forbidden', 'loc': ('body', 'foo'), 'msg': 'Extra inputs'}]"), "foo"),
        ('{"detail":"Unexpected fields in the request: {\'frobnicate\'}"}', "frobnicate"),
        (error("property 'logprobs' is unsupported"), "logprobs"),
        (error("x does not support parameters: ['seed'], for model=x"), "seed"),
        (error("unknown field `ignore_eos`, expected one of `model`"), "ignore_eos"),
        (error("Unknown name \"min_p\": Cannot find field."), "min_p"),
        (error("stream_options is not supported"), "stream_options"),
        (error("no idea"), None),
    ],
)  # fmt: skip
def test_the_parameter_that_was_refused(body: str, name: str | None) -> None:
    assert unsupported_param(answer_of(body).error) == name


def test_no_error_no_parameter() -> None:
    assert unsupported_param(None) is None
    assert api_error({"choices": []}) is None
    assert api_error({"id": "x", "message": "hello"}) is None


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"retry-after": "2", "retry-after-ms": "1500"}, 1.5),
        ({"Retry-After": "2"}, 2.0),
        ({"retry-after": " 0.5 "}, 0.5),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:10 GMT"}, 10.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:27:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf", "retry-after-ms": ""}, None),
        ({}, None),
    ],
)
def test_retry_after(headers: dict[str, str], wait_s: float | None) -> None:
    assert retry_after_s(headers, 1445412480.0) == wait_s  # 2015-10-21 07:28:00 UTC
