"""The figures of the quality phase, in the form of all metrics: name, label, unit, better side, meaning."""

from tokenswarm.metrics import Better, Kind, Metric


def _share(name: str, label: str, better: Better, text: str) -> Metric:
    return Metric(name, label, "ratio", better, Kind.STEP, text)


EXACT = _share(
    "quality_exact_match", "Same answers", Better.HIGHER, "Answers that are word for word those of the baseline."
)
SIMILARITY = _share(
    "quality_similarity",
    "Similarity",
    Better.HIGHER,
    "Mean likeness of the answers to the baseline's, 0 to 1: twice the words in common runs over the words of both.",
)
VALID_JSON = _share(
    "quality_valid_json",
    "Valid JSON",
    Better.HIGHER,
    "Of the answers that were to be JSON: those that are, in the asked form.",
)
AS_EXPECTED = _share(
    "quality_as_expected",
    "As expected",
    Better.HIGHER,
    "Of the answers with an expectation (exact, regex, schema): those that meet it.",
)
LENGTH = _share(
    "quality_length_ratio", "Length", Better.HIGHER, "Characters of all answers / those of the baseline's answers."
)
TRUNCATED = _share(
    "quality_truncated", "Cut answers", Better.LOWER, "Answers that ended at their token limit / all prompts."
)
EMPTY = _share("quality_empty", "No answer", Better.LOWER, "Prompts that failed or brought no text / all prompts.")
REFUSED = _share("quality_refused", "Refusals", Better.LOWER, "Answers in which the model declines / all prompts.")

QUALITY: dict[str, Metric] = {
    metric.name: metric for metric in (EXACT, SIMILARITY, VALID_JSON, AS_EXPECTED, LENGTH, TRUNCATED, EMPTY, REFUSED)
}
