"""The small pages beside the API: health for orchestrators, metrics and handoffs for operators."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Annotated

from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from serving.auth import Keyring, bearer
from serving.errors import ApiError, unauthorized
from serving.handoffs import as_json, read_handoffs
from serving.health import reachable
from serving.metrics import CONTENT_TYPE, Metrics
from serving.upstream import Backend

_MOST_ID = 2**63 - 1
"""What the databases' integers hold."""
Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def health_pages(
    backends: Sequence[Backend], metrics: Metrics, *, gate_ready: bool, lifespan: Lifespan | None = None
) -> FastAPI:
    """``/healthz``: the process runs. ``/readyz``: the gate is loaded and a backend can be reached."""
    app = FastAPI(title="pivot-guard", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.add_exception_handler(404, _not_found)
    app.add_exception_handler(ApiError, _refused)

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/readyz")
    async def readyz() -> JSONResponse:
        found = await asyncio.gather(*(reachable(backend) for backend in backends))
        up = {backend.name: is_up for backend, is_up in zip(backends, found, strict=True)}
        for name, is_up in up.items():
            metrics.backend_up(name, up=is_up)
        ready = gate_ready and any(up.values())
        return JSONResponse({"ready": ready, "gate": gate_ready, "backends": up}, 200 if ready else 503)

    return app


def add_operator_pages(app: FastAPI, metrics: Metrics, engine: Engine | None, admin_key: str | None) -> None:
    """``/metrics`` and ``/handoffs``, behind the admin key if there is one."""
    keyring = Keyring([admin_key] if admin_key else [])

    async def admitted(request: Request) -> None:
        if keyring and not keyring.knows(bearer(request.headers.get("authorization", "").encode("latin-1"))):
            raise unauthorized()

    @app.get("/metrics", dependencies=[Depends(admitted)])
    async def metrics_page() -> Response:
        return Response(metrics.render(), media_type=CONTENT_TYPE)

    @app.get("/handoffs", dependencies=[Depends(admitted)])
    def handoffs_page(
        limit: Annotated[int, Query(ge=1, le=1000)] = 100, after: Annotated[int, Query(ge=0, le=_MOST_ID)] = 0
    ) -> Response:
        try:
            rows = [as_json(row) for row in read_handoffs(engine, limit=limit, after=after)] if engine else []
        except SQLAlchemyError:
            raise ApiError(
                503, "The handoff log cannot be read.", type="server_error", code="log_unavailable"
            ) from None
        return Response(f"[{','.join(rows)}]", media_type="application/json")


async def _not_found(request: Request, error: Exception) -> Response:
    del request, error
    return _answer(ApiError(404, "Nothing is here; the API is under /v1.", code="not_found"))


async def _refused(request: Request, error: Exception) -> Response:
    del request
    return _answer(error if isinstance(error, ApiError) else ApiError(500, "The proxy failed.", type="server_error"))


def _answer(error: ApiError) -> Response:
    headers = {name.decode(): value.decode() for name, value in error.headers}
    return Response(error.body(), error.status, headers, "application/json")
