"""A grid in memory: real client apps answer a real strategy, one after the other, without a network."""

import os

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")

import logging

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.grid import Grid
from flwr.supercore.task_identity import TaskIdentity

logging.getLogger("flwr").setLevel(logging.ERROR)
TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 1  # what a real process is told by its parent


class MemoryGrid(Grid):
    """Hands each message to the app of its client."""

    def __init__(self, apps, config=None):
        self.apps, self.config = apps, config or {}
        self.asked = []
        self.failures = []
        self.states = {}  # what nodes remember from one message to the next

    def set_run(self, run):
        raise NotImplementedError

    @property
    def run(self):
        return None

    def create_message(self, *_, **__):
        raise NotImplementedError

    def get_node_ids(self):
        return list(self.apps)

    def push_messages(self, messages):
        raise NotImplementedError

    def pull_messages(self, message_ids):
        raise NotImplementedError

    def send_and_receive(self, messages, *, timeout=None):
        replies = []
        messages = list(messages)
        self.asked.append([message.metadata.dst_node_id for message in messages])
        for number, message in enumerate(messages):
            node = message.metadata.dst_node_id
            TaskIdentity.node_id = node
            message.metadata.__dict__["_message_id"] = f"m{number}"
            context = Context(
                1, node, {"partition-id": node - 1}, self.states.setdefault(node, RecordDict()), dict(self.config)
            )
            try:
                replies.append(self.apps[node](message, context))
            except Exception as error:  # as a real node does
                self.failures.append(error)
                replies.append(Message(Error(0, "failed"), reply_to=message))
        TaskIdentity.node_id = 1
        return replies


def client(update, metrics=None, mods=None):
    """Return an app that adds `update(arrays, context)` to the model that it is sent."""
    app = ClientApp(mods=mods)

    @app.train()
    def train(message, context):
        arrays = {name: array.numpy() for name, array in message.content["arrays"].items()}
        sent = update(arrays, context)
        record = ArrayRecord({name: Array(np.asarray(value)) for name, value in sent.items()})
        told = MetricRecord({"num-examples": 5, **(metrics or {})})
        return Message(RecordDict({"arrays": record, "metrics": told}), reply_to=message)

    return app


@pytest.fixture
def grid():
    """Return a function that makes a grid of so many equal clients, or of given apps."""

    def made(apps, update=None, **config):
        if isinstance(apps, int):
            apps = {node: client(update) for node in range(1, apps + 1)}
        return MemoryGrid(apps, config)

    return made


@pytest.fixture
def make_client():
    return client


@pytest.fixture
def model():
    """Return a function that makes a model's arrays as Flower has them."""
    return lambda **arrays: ArrayRecord({name: Array(np.asarray(value)) for name, value in arrays.items()})
