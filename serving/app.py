"""The application factory: the one place where the proxy's parts are put together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from fastapi import FastAPI
from sqlalchemy import Engine

from guard.guard import Guard
from serving.api import Api, Route
from serving.auth import ClientAuth
from serving.authors import Attribution
from serving.chat import GuardedRoute
from serving.client import AsgiApp, Receive, Scope, Send
from serving.decision import Decider
from serving.dispatch import Dispatcher
from serving.forward import Forwarder
from serving.handoff_metrics import HandoffMetrics
from serving.handofflog import HandoffLog, LogCounters
from serving.handoffs import open_engine
from serving.ledger.build import open_ledger
from serving.logs import RequestLog
from serving.metrics import Metrics
from serving.model_list import ModelList
from serving.pages import add_operator_pages, health_pages
from serving.passthrough import PassThrough
from serving.record import Observer
from serving.responses import read_responses
from serving.risk import read_risk
from serving.routing import Router
from serving.settings import Settings
from serving.tracing import open_tracing
from serving.upstream import Upstream
from serving.urls import is_api
from serving.wire import read_chat


class App:
    """The proxy as an ASGI application.

    Attributes:
        metrics: its figures.
        admin: the operator's pages as an application of their own, where ``admin.port`` is set.
    """

    def __init__(self, settings: Settings, guard: Guard | None) -> None:
        self._router = Router.of(settings)
        self._risk = read_risk(settings.risk.file)
        names = self._router.model_names | (self._risk.susceptibility.keys() if self._risk else set())
        self.metrics = Metrics([backend.name for backend in settings.backends])
        self._handoff_metrics = HandoffMetrics(self.metrics.registry, names)
        self.admin: AsgiApp | None = None
        self._settings = settings
        self._guard = guard
        self._engine = open_engine(settings.log.url) if settings.log.url else None
        self._tracing = open_tracing(settings.otel.endpoint)
        self._pages = self._add_pages()
        self._api: AsgiApp = self._pages  # until the start is complete

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the application's own start and end."""
        if scope["type"] == "http" and is_api(scope["path"]):
            await self._api(scope, receive, send)
        else:
            await self._pages(scope, receive, send)

    def _add_pages(self) -> FastAPI:
        ready = self._guard is not None
        pages = health_pages(self._router.backends, self.metrics, gate_ready=ready, lifespan=self._lifespan)
        operator = pages
        if self._settings.admin.port is not None:
            operator = health_pages(self._router.backends, self.metrics, gate_ready=ready)
            self.admin = operator
        key = self._settings.auth.admin_key
        add_operator_pages(operator, self.metrics, self._engine, key.get_secret_value() if key else None)
        return pages

    @asynccontextmanager
    async def _lifespan(self, _pages: FastAPI) -> AsyncIterator[None]:
        gate = self._settings.gate
        decider = Decider(self._guard, budget_s=gate.budget_ms / 1000, workers=gate.workers, backlog=gate.backlog)
        upstream = Upstream(self._settings.timeouts.keepalive_s)
        log = _start_log(self._settings, self._engine, self.metrics)
        observers: list[Observer] = [
            self.metrics,
            self._handoff_metrics,
            RequestLog(),
            *([log] if log is not None else []),
            *([self._tracing] if self._tracing is not None else []),
        ]
        ledger = open_ledger(self._settings.ledger, self._handoff_metrics.ledger_errors.inc)
        attribution = Attribution(ledger, self._handoff_metrics.attributed)
        self._api = self._make_api(decider, upstream, attribution, observers)
        try:
            yield
        finally:
            await upstream.close()
            await attribution.close()
            decider.close()
            if self._tracing is not None:
                await asyncio.to_thread(self._tracing.close)  # the collector may be slow or gone
            if log is not None:
                log.close()

    def _make_api(
        self, decider: Decider, upstream: Upstream, attribution: Attribution, observers: Sequence[Observer]
    ) -> Api:
        settings = self._settings
        auth = ClientAuth([key.get_secret_value() for key in settings.auth.client_keys])
        forwarder = Forwarder(upstream, auth)
        guarded = partial(
            GuardedRoute,
            settings=settings,
            decider=decider,
            router=self._router,
            dispatcher=Dispatcher(upstream, auth, self._router, attribution),
            attribution=attribution,
            risk=self._risk,
        )
        routes: dict[tuple[str, bytes], Route] = {
            ("POST", b"/chat/completions"): guarded(name="chat", read=read_chat),
            ("POST", b"/responses"): guarded(name="responses", read=read_responses),
        }
        if len(self._router.backends) > 1:
            models = ModelList(self._router, upstream, auth, settings.limits.body_bytes)
            routes |= {("GET", b"/models"): models, ("HEAD", b"/models"): models}
        other = PassThrough(self._router, forwarder, settings.limits.body_bytes)
        return Api(auth, routes, other, observers)


def create_app(settings: Settings, guard: Guard | None) -> App:
    """Make a proxy; without a guard every request passes, marked as bypassed.

    Raises:
        SettingsError: a setting turns out to be unusable.
    """
    return App(settings, guard)


def _start_log(settings: Settings, engine: Engine | None, metrics: Metrics) -> HandoffLog | None:
    if engine is None:
        return None
    counters = LogCounters(metrics.log_dropped.inc, metrics.log_errors.inc)
    log = HandoffLog(engine, settings.log.queue, counters, content=settings.log.content == "full")
    metrics.watch_log_queue(log.waiting)
    log.start()
    return log
