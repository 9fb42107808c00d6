"""Hugging Face's Trainer, Lightning, and adapters of `peft`, on a loop that `make_private` made private."""

import lightning
import pytest
import torch
import transformers
from private_loops import clipped_sum, gradients_one_by_one, loader_of, norm, plan_of
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from ferrodp.errors import FerroError, InvalidParameter
from ferrodp.integrations.torch import PrivacyMonitor, make_private
from ferrodp.plan import ConstantNoise, FlatClipping, PoissonSampling, PrivacyPlan

transformers.logging.set_verbosity_error()
SIZE, STEPS = 60, 6
PLAN = PrivacyPlan(
    population_size=SIZE,
    sampling=PoissonSampling(0.5),
    num_steps=STEPS,
    clipping=FlatClipping(1.0),
    noise=ConstantNoise(2.0),
)
TINY = {
    "vocab_size": 20,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "max_position_embeddings": 12,
    "pad_token_id": 0,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, _):
        x, y = batch
        return functional.cross_entropy(self(x), y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def points():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(SIZE, 4, generator=generator), torch.randint(3, (SIZE,), generator=generator)


def fitted(plan=PLAN, trainer=None, callbacks=(), **options):
    torch.manual_seed(0)
    module = Classifier()
    optimizer = module.configure_optimizers()
    module, optimizer, loader = make_private(module, optimizer, loader_of(*points()), plan=plan, **options)
    module.configure_optimizers = lambda: optimizer
    quiet = {
        "accelerator": "cpu",
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    lightning.Trainer(callbacks=list(callbacks), **{"max_epochs": 100, **quiet, **(trainer or {})}).fit(module, loader)
    return module, optimizer


@pytest.mark.parametrize("part_size", [None, 7])
def test_lightning_takes_the_steps_of_the_plan_and_no_more(part_size):
    _, optimizer = fitted(part_size=part_size)

    assert optimizer.private.step_number == STEPS
    assert optimizer.private.stopped == "finished"
    assert optimizer.private.epsilon(1e-5) == PLAN.epsilon(1e-5)


def test_lightning_gives_the_optimizer_what_a_loop_gives_it():
    """Noise of 2⁻²⁵ is less than what the tolerance, a hundred roundings of float32, leaves."""
    plan = plan_of(SIZE, num_steps=4)
    module, _ = fitted(plan)

    torch.manual_seed(0)
    model = Classifier()
    optimizer = model.configure_optimizers()
    for _ in range(4):
        gradients = gradients_one_by_one(model, lambda model, x, y: functional.cross_entropy(model(x), y), points())
        total = clipped_sum(gradients, 1.0)
        for name, parameter in model.named_parameters():
            parameter.grad = (total[name] / SIZE).float()
        optimizer.step()

    for found, expected in zip(module.parameters(), model.parameters(), strict=True):
        assert torch.allclose(found, expected, atol=1e-5)


def test_lightning_ends_before_the_budget_is_exceeded():
    epsilon = PLAN.epsilon_after(3, 1e-5)
    module, optimizer = Classifier(), None
    optimizer = module.configure_optimizers()
    module, optimizer, loader = make_private(module, optimizer, loader_of(*points()), plan=PLAN)
    module.configure_optimizers = lambda: optimizer
    monitor = PrivacyMonitor(optimizer.private, delta=1e-5, epsilon=epsilon)
    lightning.Trainer(
        max_epochs=100,
        accelerator="cpu",
        callbacks=[monitor],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    ).fit(module, loader)

    assert optimizer.private.step_number == 3
    assert monitor.history[-1] == (3, epsilon)


def test_accumulation_in_lightning_is_refused_before_a_second_draw():
    with pytest.raises(FerroError, match="part_size"):
        fitted(trainer={"accumulate_grad_batches": 2})


def test_a_closure_is_called_once_with_gradients():
    calls = []
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = points()
    model, optimizer, loader = make_private(model, optimizer, loader_of(x, y), plan=plan_of(SIZE))
    x, y = next(iter(loader))

    def closure():
        calls.append(torch.is_grad_enabled())
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        return loss

    with torch.no_grad():
        loss = optimizer.step(closure)

    assert calls == [True]
    assert loss.item() > 0.0
    assert optimizer.private.step_number == 1


def test_a_closure_without_a_backward_pass_charges_nothing():
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, loader = make_private(model, optimizer, loader_of(*points()), plan=plan_of(SIZE))
    x, _ = next(iter(loader))

    with pytest.raises(FerroError, match=r"before loss.backward\(\)"):
        optimizer.step(lambda: model(x).sum())

    assert optimizer.private.step_number == 0


class NeedsClosure(torch.optim.SGD):
    def step(self, closure):
        closure()
        closure()


def test_an_optimizer_that_cannot_do_without_a_closure_is_refused():
    model = nn.Linear(4, 3)

    with pytest.raises(InvalidParameter, match="NeedsClosure"):
        make_private(model, NeedsClosure(model.parameters(), lr=0.1), loader_of(*points()), plan=plan_of(SIZE))


def texts():
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(3, 9, (SIZE,), generator=generator).tolist()
    words = [torch.randint(3, 20, (length,), generator=generator) for length in lengths]
    return [{"input_ids": each, "labels": int(each[0]) % 2} for each in words]


def collated(rows):
    ids = nn.utils.rnn.pad_sequence([each["input_ids"] for each in rows], batch_first=True)
    labels = torch.tensor([each["labels"] for each in rows])
    return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": labels}


def continued(rows):
    batch = collated(rows)
    return {**batch, "labels": batch["input_ids"].masked_fill(batch["input_ids"] == 0, -100)}


def bert():
    torch.manual_seed(0)
    return transformers.BertForSequenceClassification(transformers.BertConfig(**TINY))


def gpt():
    torch.manual_seed(0)
    names = {"vocab_size": 20, "n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 12}
    dropouts = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**names, **dropouts))


def trainer_of(tmp_path, model, collate, plan=PLAN, part_size=None, callbacks=(), **arguments):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(texts(), collate_fn=collate)
    model, optimizer, loader = make_private(model, optimizer, loader, plan=plan, part_size=part_size)
    settings = {"save_strategy": "no", "max_steps": 1000, "use_cpu": True, "disable_tqdm": True, "report_to": []}
    arguments = transformers.TrainingArguments(tmp_path, **{**settings, "logging_strategy": "no", **arguments})
    monitor = PrivacyMonitor(optimizer.private, delta=1e-5)
    trainer = transformers.Trainer(
        model=model, args=arguments, optimizers=(optimizer, None), callbacks=[monitor, *callbacks]
    )
    trainer.get_train_dataloader = lambda: loader
    return trainer, optimizer


@pytest.mark.parametrize(("model", "collate"), [(bert, collated), (gpt, continued)])
@pytest.mark.parametrize("part_size", [None, 8])
def test_the_trainer_of_transformers_takes_the_steps_of_the_plan(tmp_path, model, collate, part_size):
    trainer, optimizer = trainer_of(tmp_path, model(), collate, part_size=part_size)

    trainer.train()

    assert optimizer.private.step_number == STEPS
    assert optimizer.private.way == "together", optimizer.private.reason
    assert optimizer.private.epsilon(1e-5) == PLAN.epsilon(1e-5)


def test_the_trainer_of_transformers_gives_the_optimizer_what_a_loop_gives_it(tmp_path):
    """What `max_grad_norm` clips is not there yet: gradients are written by the step of the optimizer."""
    trainer, _ = trainer_of(tmp_path, bert(), collated, plan_of(SIZE, 0.1), lr_scheduler_type="constant")
    trainer.train()

    model = bert()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        gradients = gradients_one_by_one(model, lambda model, rows: model(**collated(rows)).loss, (texts(),))
        total = clipped_sum(gradients, 0.1)
        for name, parameter in model.named_parameters():
            parameter.grad = (total[name] / SIZE).float()
        optimizer.step()

    moved = norm(
        {name: each - other for (name, each), other in zip(model.named_parameters(), bert().parameters(), strict=True)}
    )
    apart = norm(
        {
            name: each - other
            for (name, each), other in zip(model.named_parameters(), trainer.model.parameters(), strict=True)
        }
    )
    assert apart < 1e-3 * moved


def test_accumulation_in_the_trainer_of_transformers_is_refused(tmp_path):
    trainer, optimizer = trainer_of(tmp_path, bert(), collated, gradient_accumulation_steps=2)

    with pytest.raises(FerroError, match="part_size"):
        trainer.train()

    assert optimizer.private.step_number == 0


def test_the_trainer_with_its_own_loader_is_refused(tmp_path):
    trainer, optimizer = trainer_of(tmp_path, bert(), collated)
    del trainer.get_train_dataloader
    trainer.train_dataset, trainer.data_collator = texts(), collated

    with pytest.raises(FerroError, match="the loader that make_private returned"):
        trainer.train()

    assert optimizer.private.step_number == 0


def test_a_training_goes_on_from_a_checkpoint_of_the_trainer(tmp_path):
    trainer, _ = trainer_of(tmp_path, bert(), collated, max_steps=3, save_strategy="steps", save_steps=3)
    trainer.train()

    trainer, optimizer = trainer_of(tmp_path, bert(), collated, ignore_data_skip=True)
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))

    assert optimizer.private.step_number == STEPS
    assert optimizer.private.epsilon(1e-5) == PLAN.epsilon(1e-5)


@pytest.mark.parametrize(
    ("model", "collate", "task", "targets"),
    [(bert, collated, "SEQ_CLS", ["query", "value"]), (gpt, continued, "CAUSAL_LM", ["c_attn"])],
)
def test_adapters_alone_are_trained_and_their_gradients_are_right(model, collate, task, targets):
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(task_type=task, r=2, target_modules=targets, lora_dropout=0.0, fan_in_fan_out=model is gpt)
    adapted = peft.get_peft_model(model(), config)
    with torch.no_grad():  # the second factor begins as zeros, and the first would have no gradient
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(generator=torch.Generator().manual_seed(1))
    frozen = {name: each.detach().clone() for name, each in adapted.named_parameters() if not each.requires_grad}
    longest = max(len(each["input_ids"]) for each in texts())

    def loss(model, rows):
        batch = collate(rows)
        own = model(**batch).loss
        # A mean over words is one over all places of a batch: what is padded counts as zeros, and so does the last.
        return own if collate is collated else own * ((batch["labels"] >= 0).sum() - len(rows)) / longest

    gradients = gradients_one_by_one(adapted, loss, (texts(),))
    clip_norm = sorted(map(norm, gradients))[SIZE // 2]
    expected = clipped_sum(gradients, clip_norm)
    trained = [each for each in adapted.parameters() if each.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.1)
    loader = DataLoader(texts(), collate_fn=collate)
    _, _, loader = make_private(adapted, optimizer, loader, plan=plan_of(SIZE, clip_norm))

    batch = next(iter(loader))
    adapted(**batch).loss.backward()
    optimizer.step()

    found = {name: each.grad.double() * SIZE for name, each in adapted.named_parameters() if each.requires_grad}
    assert all("lora" in name or "classifier" in name for name in found)
    assert optimizer.private.way == "together", optimizer.private.reason
    assert norm({name: found[name] - expected[name] for name in expected}) < 1e-4 * clip_norm
    assert all(torch.equal(each, frozen[name]) for name, each in adapted.named_parameters() if name in frozen)
