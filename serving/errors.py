"""Errors that the proxy itself answers with, in the shape that OpenAI clients parse."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

Header = tuple[bytes, bytes]


@dataclass(eq=False)  # not frozen: an exception is given its traceback on the way
class ApiError(Exception):
    """An answer in place of the backend's.

    Attributes:
        status: HTTP status.
        message: for people; holds no key and no message text.
        type: OpenAI's error type, ``invalid_request_error`` for what the client must change.
        code: bounded slug for programs.
        param: the request field or header at fault.
        headers: sent along.
    """

    status: int
    message: str
    type: str = "invalid_request_error"
    code: str | None = None
    param: str | None = None
    headers: tuple[Header, ...] = field(default=())

    def body(self) -> bytes:
        """The JSON document."""
        error = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return msgspec.json.encode({"error": error})


class ClientGone(Exception):  # noqa: N818 - an event, not a fault
    """The client closed its connection; nobody is left to answer."""


def bad_request(message: str, *, code: str | None = None, param: str | None = None) -> ApiError:
    """The client must change its request."""
    return ApiError(400, message, code=code, param=param)


def too_large(limit: int) -> ApiError:
    """The body is over ``limits.body_bytes``."""
    return ApiError(413, f"The request body is over the limit of {limit} bytes.", code="request_too_large")


def unauthorized() -> ApiError:
    """No key, or a wrong one, where client keys are set."""
    message = "A valid key is needed: send it as 'Authorization: Bearer KEY' or as 'x-guard-key: KEY'."
    return ApiError(
        401,
        message,
        type="authentication_error",
        code="invalid_api_key",
        headers=((b"www-authenticate", b"Bearer"),),
    )


def unreachable(backend: str) -> ApiError:
    """No connection came about: the backend has accepted nothing, so the client may try again."""
    return ApiError(502, f"Backend '{backend}' cannot be reached.", type="backend_error", code="backend_unreachable")


# The official clients repeat a 502 or 504 on their own. Where the backend may have accepted the request, that would be
# a second billed generation; this header tells them not to.
_DO_NOT_REPEAT = ((b"x-should-retry", b"false"),)


def broken(backend: str) -> ApiError:
    """The backend closed the connection after the request was sent and before an answer."""
    message = f"Backend '{backend}' closed the connection without an answer."
    return ApiError(502, message, type="backend_error", code="backend_disconnected", headers=_DO_NOT_REPEAT)


def silent(backend: str) -> ApiError:
    """The backend sent nothing for its ``read_s``."""
    message = f"Backend '{backend}' did not answer in time."
    return ApiError(504, message, type="backend_error", code="backend_timeout", headers=_DO_NOT_REPEAT)
