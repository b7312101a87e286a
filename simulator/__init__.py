"""An OpenAI-compatible server that behaves like a continuous-batching engine, and logs the truth about itself.

Run it with `python -m simulator --port 8000`. Nothing is computed but time: texts come from a seed.
"""
