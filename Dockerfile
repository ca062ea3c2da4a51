# syntax=docker/dockerfile:1
# Build:  docker build -t pivot-guard .
# Run:    docker run -p 8080:8080 -e GUARD_BACKEND=http://host.docker.internal:11434/v1 pivot-guard
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY guard guard
COPY models models
COPY eval eval
COPY serving serving
RUN python -m venv /opt/pivot-guard \
    && /opt/pivot-guard/bin/pip install --no-cache-dir ".[redis,postgres]"

FROM python:3.12-slim
RUN useradd --system --uid 10001 --home-dir /var/lib/pivot-guard --create-home guard
COPY --from=build /opt/pivot-guard /opt/pivot-guard
USER 10001
# The handoff log is written here: mount a volume to keep it.
WORKDIR /var/lib/pivot-guard
VOLUME /var/lib/pivot-guard
ENV PATH=/opt/pivot-guard/bin:$PATH GUARD_HOST=0.0.0.0 GUARD_PORT=8080
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(f'http://127.0.0.1:{os.environ[\"GUARD_PORT\"]}/healthz', timeout=2)"]
ENTRYPOINT ["guard-serve"]
