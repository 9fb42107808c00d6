"""Lesson 11: a sum of masked messages, which shows nothing but the sum, and what a lost client leaves behind."""

from __future__ import annotations

import numpy as np

import ferrodp as fd
from ferrodp.explorer.cells import cell_of
from ferrodp.explorer.figures import (
    Answer,
    Control,
    Figure,
    Lesson,
    Parameters,
    Plot,
    Prediction,
    Series,
    Try,
    Value,
    upper,
)

_DELTA = 1e-5
_COORDINATES = 8
_WORDS = 2**32


def _secure(clients: int, spare: int, noise_multiplier: float) -> fd.federated.SecureSum:
    """Return the terms of a round: enough noise even if as many clients as planned for drop out."""
    return fd.federated.SecureSum(
        (_COORDINATES,),
        clip_norm=1.0,
        noise_multiplier=noise_multiplier,
        min_clients=clients - spare,
        max_clients=clients,
    )


def _updates(clients: int) -> np.ndarray:
    """Return invented updates: client i has a one in coordinate i mod 8, and a little elsewhere."""
    return np.asarray(0.02 + 0.9 * (np.arange(_COORDINATES) == np.arange(clients)[:, None] % _COORDINATES))


def _round(
    clients: int, spare: int, lost: int, noise_multiplier: float, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return what clients encode, the masks between them, and what they send."""
    secure = _secure(clients, spare, noise_multiplier)
    source = fd.testing.seeded(seed.to_bytes(32, "big"))
    encoded = np.array([secure.encode(update, source=source) for update in _updates(clients)])
    masks = np.zeros((clients, clients, secure.length), np.uint32)
    for one in range(clients):
        for other in range(one):  # the two agree on a mask; one adds it and the other subtracts it
            mask = np.frombuffer(source.bytes(4 * secure.length), np.uint32)
            masks[one, other], masks[other, one] = mask, np.uint32(0) - mask
    return encoded, masks, encoded + masks.sum(axis=1, dtype=np.uint32)


def secure_sum(clients: int, spare: int, lost: int, noise_multiplier: float, seed: int) -> dict[str, Value]:
    """Add masked messages of the clients that are left, take off the masks of the lost ones, and decode the sum."""
    secure = _secure(clients, spare, noise_multiplier)
    encoded, masks, sent = _round(clients, spare, lost, noise_multiplier, seed)
    left = range(clients - lost)
    total = secure.zero()
    for client in left:
        secure.add(total, sent[client])
    still_masked = int((total != encoded[: clients - lost].sum(axis=0, dtype=np.uint32)).sum())
    for client in left:  # shares of the others reveal the masks with the lost clients, and only those
        total -= masks[client, clients - lost :].sum(axis=0, dtype=np.uint32)
    finish: dict[str, Value] = {"Clients that finish": clients - lost}
    found: dict[str, Value] = finish | {
        "Coordinates still masked before the recovery": still_masked,
        "Coordinates still masked after it": int(
            (total != encoded[: clients - lost].sum(axis=0, dtype=np.uint32)).sum()
        ),
    }
    if lost > spare:
        return found | {"Sum": "refused: too little noise", "ε at δ = 10⁻⁵": "nothing is released"}
    result = secure.decode(total, num_clients=clients - lost)
    exact = _updates(clients)[: clients - lost].sum(axis=0)
    released: dict[str, Value] = {
        "True sum of the first coordinate": float(exact[0]),
        "Released sum of the first coordinate": float(result.value[0]),
        "ε at δ = 10⁻⁵, for a client": upper(secure.epsilon(_DELTA)),
        "Standard deviation of the noise": result.standard_deviation,
    }
    return released | found


def _compute(parameters: Parameters) -> Answer:
    clients, lost = parameters["clients"], parameters["lost"]
    numbers = secure_sum(**parameters)
    secure = _secure(clients, parameters["spare"], parameters["noise_multiplier"])
    encoded, _, sent = _round(**parameters)
    x = np.arange(1.0, clients + 1)

    def centered(words: np.ndarray) -> np.ndarray:
        return words.astype(np.uint32).view(np.int32) * secure.granularity

    left = x <= clients - lost
    before = Plot(
        "What each client knows: its first coordinate, with its share of noise",
        "Client",
        "Value",
        (
            Series("finishes", x=x[left], y=centered(encoded[left, 0]), kind="bars", role="private"),
            Series("drops out", x=x[~left], y=centered(encoded[~left, 0]), kind="bars", role="b"),
        ),
    )
    after = Plot(
        "What the server sees of it: a residue that looks uniform",
        "Client",
        "Message as a share of the modulus",
        (
            Series("message", x=x[left], y=sent[left, 0] / _WORDS, kind="bars", role="neutral"),
            Series("drops out, sends nothing", x=x[~left], y=np.zeros(lost), kind="points", role="b"),
        ),
    )
    outcome = (
        f"The released sum of the first coordinate is {numbers['Released sum of the first coordinate']:.3f}, the true "
        f"one {numbers['True sum of the first coordinate']:.3f}."
        if "Released sum of the first coordinate" in numbers
        else "More clients were lost than the noise was planned for, so the sum is thrown away."
    )
    one = "the client that was lost" if lost == 1 else f"the {lost} clients that were lost"
    once = f" once the masks with {one} are recovered" if lost else ""
    sentence = (
        f"{clients - lost} of {clients} clients finish. The server sees messages that look uniform, and only their "
        f"sum{once}. {outcome}"
    )
    return Answer(sentence, numbers, (before, after), cell_of(secure_sum, parameters))


LESSON = Lesson(
    name="parties",
    title="Nobody sees the sum",
    idea="Can a server add up what it cannot read?",
    person="Sixteen hospitals train one model. None of them may show its patients' data, or its update, to anybody.",
    question=Prediction(
        "Every message that the server gets looks like a random number. Can it still learn their sum?",
        ("No", "Yes, and nothing else"),
        1,
        "Each pair of clients agreed on a number that one adds and the other subtracts: in the sum all of them "
        "cancel. Noise "
        "that each adds a share of makes the sum private, too.",
    ),
    tries=(Try("Three drop out", {"lost": "3"}), Try("One more than planned", {"lost": "4"})),
    text="""
<p>So far somebody was trusted with the data. In <em>federated learning</em> the data stays on devices, or in
hospitals, and a server only needs the sum of their updates. But an update shows a lot about the data behind it. Two
ideas together help.</p>
<ul>
<li><em>Masks</em>. Every two clients agree on a random number; one adds it, the other subtracts it. Each message
looks uniform, and in the sum all masks cancel.</li>
<li><em>Shares of noise</em>. Each client adds a little discrete Gaussian noise. No share protects anybody alone;
their sum is the noise of lesson 2. It has to be enough even if some clients drop out, so it is planned for that.</li>
</ul>
<p>Let clients <em>drop out</em>. Their masks with the others do not cancel: the sum is garbage. So before the round
each client splits the secrets behind its masks into shares among all; the clients that are left give those of the
lost ones, and never those of the rest. Let more drop out than planned: there would be too little noise, and the sum
is refused.</p>
<h3>The unit of privacy</h3>
<p>Here the <em>unit</em> is a client: its whole update is clipped and hidden, however many records are behind it.
This is <em>user-level</em> privacy. An ε per record says little to somebody with a thousand records: for k records of
one person, ε grows about k times.</p>
""",
    figure=Figure(
        "parties",
        (
            Control("clients", "Clients", 16, 4, 40, integer=True),
            Control(
                "spare",
                "Drop-outs that the noise is planned for",
                3,
                0,
                3,
                integer=True,
            ),
            Control("lost", "Clients that drop out", 1, 0, 4, integer=True),
            Control(
                "noise_multiplier",
                "Noise multiplier σ",
                1.0,
                0.5,
                10.0,
                "log",
                low_label="little noise",
                high_label="much noise",
            ),
        ),
        _compute,
        main=("lost", "noise_multiplier"),
        seeded=True,
    ),
    why="""
<p><strong>Masks</strong> (Bonawitz, Ivanov, Kreuter, Marcedone, McMahan, Patel, Ramage, Segal, Seth, CCS 2017). A
message plus an independent uniform residue is uniform, whatever the message is. With fewer colluding parties than the
threshold of the secret sharing, the server's view is a function of the sum. The page shows the idea; the protocol
also has masks that each client draws alone, so that one who is only late stays hidden.</p>
<p><strong>Shares of noise</strong> (Kairouz, Liu, Steinke 2021). The sum of n discrete Gaussians is close to, and not
exactly, a discrete Gaussian; its divergences are bounded with that difference counted. Updates are rounded to a grid
so that sums are integers, and reduction modulo 2<sup>32</sup> is post-processing.</p>
<p><strong>Groups</strong> (Dwork and Roth 2014, Theorem 2.2). A pure ε for one record is kε for k records; for (ε, δ)
also δ grows, by the factor (e<sup>kε</sup> − 1)/(e<sup>ε</sup> − 1) (a sharper form of Vadhan 2017, Lemma 2.2).
User-level training: McMahan, Ramage, Talwar, Zhang 2018.</p>
""",
    terms=("federated learning", "secure aggregation", "user-level privacy", "unit of privacy"),
)
