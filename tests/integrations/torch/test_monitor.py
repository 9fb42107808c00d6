"""ε while Hugging Face's Trainer and Lightning train by a plan: recorded, logged, and the end before a budget."""

import lightning
import pytest
import torch
import transformers
from torch import nn

import ferrodp as fd
from ferrodp.integrations.opacus import CertifiedAccountant
from ferrodp.integrations.torch import PlanLoader, PrivacyMonitor, start
from ferrodp.plan import ConstantNoise, FlatClipping, PoissonSampling, PrivacyPlan

PLAN = PrivacyPlan(
    population_size=40,
    sampling=PoissonSampling(0.25),
    num_steps=12,
    clipping=FlatClipping(1.0),
    noise=ConstantNoise(1.5),
)
DELTA = 1e-5
SAFE = PLAN.max_steps(epsilon=2.5, delta=DELTA)
DATA = [{"x": torch.randn(3), "y": torch.randn(1)} for _ in range(40)]


def squares(model, batch):
    return (model(batch["x"]) - batch["y"]).square().mean()


class HuggingFace(transformers.Trainer):
    """Hugging Face's trainer, whose gradients are those of a run."""

    def __init__(self, run, **options):
        super().__init__(**options)
        self.run = run

    def get_train_dataloader(self):
        return PlanLoader(self.run, DATA)

    def training_step(self, model, inputs, *_):
        self.run.current.add(inputs)
        self.run.current.release()
        with torch.no_grad():
            return squares(model, inputs) if len(inputs["x"]) else torch.zeros(())


class Lightning(lightning.LightningModule):
    """A module that Lightning trains by hand, with the gradients of a run."""

    automatic_optimization = False

    def __init__(self, model):
        super().__init__()
        self.model = model

    def training_step(self, batch, _):
        self.run.current.add(batch)
        self.run.current.release()
        self.optimizers().step()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def train_with_hugging_face(run, model, monitor, folder):
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        max_steps=PLAN.num_steps,
        logging_steps=1,
        max_grad_norm=0,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = HuggingFace(run, model=model, args=arguments, train_dataset=DATA, callbacks=[monitor])
    trainer.train()
    return trainer.state.global_step


def train_with_lightning(run, model, monitor, folder):
    module = Lightning(model)
    module.run = run
    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        callbacks=[monitor],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=str(folder),
    )
    trainer.fit(module, PlanLoader(run, DATA))
    assert trainer.callback_metrics["epsilon"].item() == pytest.approx(monitor.history[-1][1], rel=1e-6)
    return trainer.global_step


TRAININGS = [train_with_hugging_face, train_with_lightning]


@pytest.mark.parametrize("train", TRAININGS)
def test_the_training_ends_before_the_step_that_would_exceed_the_budget(train, tmp_path):
    model = nn.Linear(3, 1)
    before = model.weight.detach().clone()
    run = start(PLAN, model, squares)
    monitor = PrivacyMonitor(run, delta=DELTA, epsilon=2.5)

    steps = train(run, model, monitor, tmp_path)

    assert 0 < SAFE < PLAN.num_steps
    assert steps == SAFE == run.step_number
    assert monitor.history == [(t, PLAN.epsilon_after(t, DELTA)) for t in range(1, SAFE + 1)]
    assert monitor.history[-1][1] <= 2.5 < PLAN.epsilon_after(SAFE + 1, DELTA)
    assert not torch.equal(before, model.weight)


@pytest.mark.parametrize("train", TRAININGS)
def test_without_a_budget_all_steps_of_the_plan_are_made(train, tmp_path):
    reported = []
    model = nn.Linear(3, 1)
    run = start(PLAN, model, squares)
    monitor = PrivacyMonitor(run, delta=DELTA, every=5, report=lambda *each: reported.append(each))

    steps = train(run, model, monitor, tmp_path)

    assert steps == PLAN.num_steps == run.step_number
    assert reported == monitor.history
    assert [each for each, _ in reported] == [5, 10]


@pytest.mark.parametrize("train", TRAININGS)
def test_a_training_whose_first_step_is_too_much_does_not_begin(train, tmp_path):
    model = nn.Linear(3, 1)
    run = start(PLAN, model, squares)

    with pytest.raises(fd.errors.BudgetExceeded, match="next step"):
        train(run, model, PrivacyMonitor(run, delta=DELTA, epsilon=0.01), tmp_path)

    assert run.step_number == 0


def test_what_hugging_face_logs_has_epsilon(tmp_path):
    class Kept(transformers.TrainerCallback):
        logs = []  # noqa: RUF012  # filled by one trainer

        def on_log(self, args, state, control, logs=None, **_):
            self.logs.append(dict(logs))

    model = nn.Linear(3, 1)
    run = start(PLAN, model, squares)
    monitor = PrivacyMonitor(run, delta=DELTA)
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), max_steps=2, logging_steps=1, report_to=[], save_strategy="no", use_cpu=True
    )
    HuggingFace(run, model=model, args=arguments, train_dataset=DATA, callbacks=[monitor, Kept()]).train()

    assert [each["epsilon"] for each in Kept.logs if "loss" in each] == [epsilon for _, epsilon in monitor.history]


def test_an_accountant_of_opacus_is_watched_as_well():
    accountant = CertifiedAccountant()
    monitor = PrivacyMonitor(accountant, delta=DELTA, epsilon=2.5)
    assert monitor.epsilon() == 0.0
    while not monitor.must_stop():
        accountant.step(noise_multiplier=1.5, sample_rate=0.25)
        monitor.record()

    assert len(accountant) == SAFE
    assert monitor.history[-1] == (SAFE, PLAN.epsilon_after(SAFE, DELTA))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": object()}, "source"),
        ({"delta": 0.0}, "delta"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"every": 0}, "every"),
        ({"report": 1}, "report"),
    ],
)
def test_what_is_not_accepted_is_refused(change, message):
    options = {"source": CertifiedAccountant(), "delta": DELTA, **change}

    with pytest.raises(fd.errors.FerroError, match=message):
        PrivacyMonitor(options.pop("source"), **options)


def test_names_that_no_framework_calls_are_not_there():
    monitor = PrivacyMonitor(CertifiedAccountant(), delta=DELTA)

    assert monitor.on_epoch_begin(None, None, None) is None
    assert not hasattr(monitor, "epsilons")
