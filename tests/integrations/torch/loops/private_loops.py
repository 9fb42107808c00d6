"""What tests of private loops share: a slow definition of a clipped sum, and a training of one step."""

import torch
from torch.utils.data import DataLoader, TensorDataset

import ferrodp as fd
from ferrodp.integrations.torch import make_private
from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch

LEAST_NOISE = 2.0**-25


def plan_of(size, clip_norm=1.0, **changes):
    fields = {
        "population_size": size,
        "sampling": FullBatch(),
        "num_steps": 2,
        "clipping": FlatClipping(clip_norm),
        "noise": ConstantNoise(LEAST_NOISE),
    }
    return fd.PrivacyPlan(**{**fields, **changes})


def gradients_one_by_one(model, loss, batch):
    """Return the gradient of each example by itself, by PyTorch's own backward pass, in float64."""
    named = [(name, each) for name, each in model.named_parameters() if each.requires_grad]
    found = []
    for i in range(len(batch[0])):
        model.zero_grad()
        loss(model, *(each[i : i + 1] for each in batch)).backward()
        found.append(
            {
                name: torch.zeros_like(each, dtype=torch.float64)
                if each.grad is None
                else each.grad.to_dense().double()
                for name, each in named
            }
        )
    model.zero_grad()
    return found


def norm(gradient):
    return torch.sqrt(sum(each.square().sum() for each in gradient.values())).item()


def clipped_sum(gradients, clip_norm):
    total = {name: torch.zeros_like(each) for name, each in gradients[0].items()}
    for gradient in gradients:
        factor = min(1.0, clip_norm / max(norm(gradient), 1e-300))
        for name, each in gradient.items():
            total[name] += factor * each
    return total


def median(values):
    return sorted(values)[len(values) // 2]


def loader_of(*batch, **options):
    return DataLoader(TensorDataset(*batch), batch_size=2, **options)


def largest_difference(model, loss, batch, **options):
    """Return the distance of a private step's sum from the definition, in clip norms, and the training."""
    gradients = gradients_one_by_one(model, loss, batch)
    clip_norm = median([norm(each) for each in gradients]) or 1.0
    expected = clipped_sum(gradients, clip_norm)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    size = len(batch[0])
    _, _, loader = make_private(model, optimizer, loader_of(*batch), plan=plan_of(size, clip_norm), **options)
    training = optimizer.private
    for part in loader:
        loss(model, *part).backward()
        optimizer.step()
    found = {name: each.grad.double() * size for name, each in model.named_parameters() if each.requires_grad}
    training.close()
    return norm({name: found[name] - expected[name] for name in expected}) / clip_norm, training
