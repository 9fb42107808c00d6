"""The application: routes translate requests for `model` and `lessons`, and nothing more."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from ferrodp.errors import FerroError, InvalidParameter, MissingPackage
from ferrodp.explorer.app import templates
from ferrodp.explorer.app.sections import SECTIONS, figure_named
from ferrodp.explorer.app.security import LOOPBACK, Guard, Refused, error_body
from ferrodp.explorer.app.trainings import Stream, Trainings
from ferrodp.explorer.figures import Answer, Figure
from ferrodp.explorer.model import datasets
from ferrodp.explorer.model.training import PLAYGROUND
from ferrodp.explorer.rates import interval

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

MAX_RUNNING = 2
"""Answers that are computed at the same time."""
MAX_WAITING = 64
WARM_AFTER = 1.0
"""Seconds from the start until what is needed later is prepared: the first page comes first."""
REMEDIES = {
    "InvalidParameter": "Choose a value in the range of the control.",
    "UnsupportedEventError": "Choose another accountant or another kind of sampling.",
    "CalibrationError": "Choose a larger ε or δ, or fewer steps.",
    "MissingPackage": 'Install what is missing with: pip install "ferrodp[explorer]"',
}


def _warm() -> None:
    """Import and load what takes long, while nobody waits for it."""
    with contextlib.suppress(FerroError):  # scikit-learn is missing: the figures that need it say so
        datasets.load("digits")
    interval(1, 2)


class Work:
    """Bounds what is computed at once: a few answers run, some wait, others are refused."""

    def __init__(self, running: int = MAX_RUNNING, waiting: int = MAX_WAITING) -> None:
        self._slots = asyncio.Semaphore(running)
        self._waiting, self._most = 0, waiting

    async def run(
        self, compute: Callable[[], Answer], is_gone: Callable[[], Awaitable[bool]] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Return status and JSON of an answer, or of the error that the library raised.

        What waited and is wanted by nobody any more, as `is_gone` tells, is not computed.
        """
        if self._waiting >= self._most:
            return 503, error_body("busy", "too many answers are being computed", "Try again in a moment.")
        self._waiting += 1
        try:
            async with self._slots:
                if is_gone is not None and await is_gone():
                    return 503, error_body("gone", "the page asks for something else by now")
                started = time.perf_counter()
                answer = await _in_a_thread(compute)
                return 200, answer.as_json() | {"seconds": time.perf_counter() - started}
        except FerroError as error:
            kind = type(error).__name__
            return 422, error_body(kind, str(error), REMEDIES.get(kind, ""))
        finally:
            self._waiting -= 1


async def _in_a_thread(compute: Callable[[], Answer]) -> Answer:
    """Return an answer without blocking others; a server that ends does not wait for it, as it would for a pool."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[Answer] = loop.create_future()

    def settle(answer: Answer | None, error: BaseException | None) -> None:
        if found.done():  # nobody waits any more
            return
        if error is not None:
            found.set_exception(error)
        elif answer is not None:
            found.set_result(answer)

    def work() -> None:
        answer, failure = None, None
        try:
            answer = compute()
        except BaseException as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: the server has ended
            loop.call_soon_threadsafe(settle, answer, failure)

    threading.Thread(target=work, daemon=True).start()
    return await found


def build(*, public: bool = False, hosts: frozenset[str] | None = None, token: str | None = None) -> Any:
    """Return the ASGI application; `hosts` are further names that the Host header may have."""
    try:
        from starlette.applications import Starlette
        from starlette.responses import JSONResponse, RedirectResponse
        from starlette.responses import Response as Plain
        from starlette.routing import Route
    except ImportError:
        raise MissingPackage('the explorer needs starlette: pip install "ferrodp[explorer]"') from None

    warm = threading.Thread(target=_warm, daemon=True)
    token = token or secrets.token_urlsafe(32)
    files, pages = templates.static_files(), templates.Pages(token)
    work, quick = Work(), Work()
    # mutant: trainings-without-limit
    trainings = Trainings(most=4, most_per_client=1 if public else 4, repeats=2 if public else 4)

    async def home(request: Request) -> Response:
        return RedirectResponse(f"/{SECTIONS[0].name}")

    def section_page(section: Any) -> Callable[[Request], Any]:
        async def page(request: Request) -> Response:
            name = request.path_params.get("name")
            entry = section.entry(name)
            if entry is None or entry.name != name:
                return RedirectResponse(f"/{section.name}/{section.entries[0].name}")
            return html(pages.entry(section, entry))

        return page

    def html(text: str) -> Response:
        return Plain(text, media_type="text/html", headers={"cache-control": "no-store"})

    async def static(request: Request) -> Response:
        found = files.get(request.path_params["name"])
        if found is None:
            return Plain("not found", 404, media_type="text/plain")
        if request.headers.get("if-none-match") == found.tag:
            return Plain(status_code=304, headers={"etag": found.tag})
        headers = {"etag": found.tag, "cache-control": "no-cache"}
        return Plain(found.body, media_type=found.kind, headers=headers)

    async def figure(request: Request) -> Response:
        found = figure_named(request.path_params["name"])
        if found is None:
            return not_found()
        return await answered(request, found, found.compute, work)

    async def first(request: Request) -> Response:
        found = figure_named(request.path_params["name"])
        if found is None or found.first is None:
            return not_found()
        return await answered(request, found, found.first, quick)  # does not wait for what takes long

    async def answered(request: Request, found: Figure, compute: Callable[..., Answer], by: Work) -> Response:
        pairs = request.query_params.multi_items()
        query = dict(pairs)
        if len(query) != len(pairs):
            return JSONResponse(error_body("InvalidParameter", "a parameter is given twice"), 422)
        status, body = await by.run(lambda: compute(found.read(query)), request.is_disconnected)
        return JSONResponse(body, status, headers={"cache-control": "no-store"})

    async def action(request: Request) -> Response:
        found = figure_named(request.path_params["name"])
        if found is None or found.action is None:
            return not_found()
        query = await body_of(request)
        if query is None:
            return malformed()
        run = found.action.run
        status, body = await work.run(lambda: run(found.read(query)))
        return JSONResponse(body, status, headers={"cache-control": "no-store"})

    async def playground(request: Request) -> Response:
        trainings.prepare()
        island = templates.island(PLAYGROUND.as_json())
        return html(pages.page("playground", "Playground", island=island))

    async def train(request: Request) -> Any:
        asked = await body_of(request)
        if asked is None:
            return malformed()
        mode = asked.pop("mode", "run")
        try:
            if mode not in ("run", "step"):
                raise InvalidParameter("mode must be run or step")
            PLAYGROUND.read(asked)
            name = trainings.begin(request.client.host if request.client else "")
        except InvalidParameter as error:
            return JSONResponse(error_body("InvalidParameter", str(error), REMEDIES["InvalidParameter"]), 422)
        except Refused as refused:
            return JSONResponse(error_body("busy", refused.message, refused.remedy), refused.status)
        return Stream(trainings, name, asked, mode)

    async def command(request: Request) -> Response:
        if not trainings.command(request.path_params["name"], request.path_params["command"]):
            return not_found()
        return JSONResponse({"schema": 1})

    @contextlib.asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        later = [loop.call_later(WARM_AFTER, act) for act in (warm.start, trainings.prepare)]
        yield
        for each in later:
            each.cancel()
        await trainings.close()

    async def body_of(request: Request) -> dict[str, str] | None:
        """Return a flat JSON object of texts, or None if the body is anything else."""
        try:
            found = json.loads(await request.body())
        except (ValueError, RecursionError):
            return None
        is_flat = isinstance(found, Mapping) and all(isinstance(value, str) for value in found.values())
        return dict(found) if is_flat else None

    def not_found() -> Response:
        return JSONResponse(error_body("not_found", "there is no such thing here"), 404)

    def malformed() -> Response:
        return JSONResponse(error_body("malformed", "the body must be a JSON object of texts"), 422)

    async def failed(request: Request, error: Exception) -> Response:
        return JSONResponse(error_body("internal", f"internal error ({type(error).__name__})"), 500)

    async def missing(request: Request, error: Exception) -> Response:
        if request.url.path.startswith("/api/"):
            return not_found()
        return Plain(pages.not_found(), 404, media_type="text/html")

    routes = [
        Route("/", home),
        Route("/static/{name}", static),
        Route("/api/figure/{name}", figure),
        Route("/api/first/{name}", first),
        Route("/api/action/{name}", action, methods=["POST"]),
        Route("/api/train", train, methods=["POST"]),
        Route("/api/train/{name}/{command}", command, methods=["POST"]),
        Route("/playground", playground),
    ]
    for section in SECTIONS:
        page = section_page(section)
        routes += [Route(f"/{section.name}", page), Route(f"/{section.name}/{{name}}", page)]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={404: missing, 500: failed})
    app.router.redirect_slashes = False
    names = None if public and hosts is None else LOOPBACK | (hosts or frozenset())
    return Guard(app, token=token, hosts=names, rate_limited=public)
