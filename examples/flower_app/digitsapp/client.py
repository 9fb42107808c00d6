"""A client: five steps of softmax regression on its own images. Nothing here needs to know of privacy."""

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from sklearn.datasets import load_digits

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Return the model after a few local steps."""
    images, labels = load_digits(return_X_y=True)
    part, parts = int(context.node_config["partition-id"]), int(context.node_config["num-partitions"])
    x = (images[part::parts] / 16).astype(np.float32)
    y = np.eye(10, dtype=np.float32)[labels[part::parts]]
    w, b = (message.content["arrays"][name].numpy().copy() for name in ("w", "b"))
    for _ in range(5):
        scores = x @ w + b
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        error = (powers / powers.sum(axis=1, keepdims=True) - y) / len(x)
        w -= 0.5 * x.T @ error
        b -= 0.5 * error.sum(axis=0)
    arrays = ArrayRecord({"w": Array(w), "b": Array(b)})
    return Message(RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": len(x)})}), reply_to=message)
