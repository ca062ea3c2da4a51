"""One port, several runtimes: onnxruntime (default), torch, a vLLM server."""
