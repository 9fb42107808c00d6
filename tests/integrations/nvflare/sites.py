"""A site without a network: contexts, tasks and events as NVFlare's client runner makes them."""

import numpy as np
from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey, ReservedKey
from nvflare.apis.fl_context import FLContextManager
from nvflare.apis.signal import Signal
from nvflare.apis.workspace import Workspace
from nvflare.app_common.app_constant import AppConstants

from ferrodp.integrations.nvflare import GaussianUpdateFilter


class Engine:
    """What components ask of an engine: the site's workspace, and who hears of events."""

    def __init__(self, root):
        (root / "startup").mkdir(parents=True, exist_ok=True)
        (root / "local").mkdir(exist_ok=True)
        self.workspace = Workspace(str(root), "site-1")
        self.abort = Signal()
        self.panics = []

    def get_workspace(self):
        return self.workspace

    def fire_event(self, event_type, fl_ctx):
        if event_type == EventType.FATAL_SYSTEM_ERROR:
            self.panics.append(fl_ctx.get_prop(FLContextKey.EVENT_DATA))
            self.abort.trigger(True)


class Site:
    """A client with a filter, whose `task` does what `ClientRunner` does for a task."""

    def __init__(self, root, job="job-1", **options):
        self.engine = Engine(root)
        self.folder = root / job
        self.filter = GaussianUpdateFilter(**({"clip_norm": 1.0, "delta": 1e-5, "rounds": 3} | options))
        manager = FLContextManager(engine=self.engine, identity_name="site-1", job_id=job)
        self.context = manager.new_context()
        self.context.set_prop(FLContextKey.WORKSPACE_OBJECT, self.engine.workspace, private=True, sticky=False)
        self.context.set_prop(ReservedKey.IDENTITY_NAME, "site-1", private=True, sticky=False)
        self.executed = 0

    def task(self, model, execute, *, name="train", number=0):
        """Hand a model to `execute`, and return what leaves the site."""
        data = DXO(DataKind.WEIGHTS, {key: np.array(value) for key, value in model.items()}).to_shareable()
        data.set_header(AppConstants.CURRENT_ROUND, number)
        self.context.set_prop(FLContextKey.TASK_NAME, name, private=True, sticky=False)
        self.context.set_prop(FLContextKey.TASK_DATA, data, private=True, sticky=False)
        self.filter.handle_event(EventType.BEFORE_TASK_EXECUTION, self.context)
        if self.engine.abort.triggered:
            return None
        self.executed += 1
        result = execute(from_shareable(data).data)
        self.context.set_prop(FLContextKey.TASK_DATA, None, private=True, sticky=False)
        return self.filter.process(result, self.context)

    def end(self):
        self.filter.handle_event(EventType.END_RUN, self.context)


def result(kind, data, **meta):
    """Return what an executor answers."""
    return DXO(kind, data, meta=meta).to_shareable()


def difference(value):
    """Return an executor that answers with an update of equal coordinates."""
    return lambda model: result(
        DataKind.WEIGHT_DIFF, {name: np.full_like(array, value) for name, array in model.items()}
    )
