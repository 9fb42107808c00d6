"""`ferrodp audit`."""

import numpy as np
import pytest


def test_a_mechanism_is_tested_and_reported_in_both_forms(ferrodp):
    found = ferrodp(
        "audit", "mechanism", "gaussian", "--epsilon", "1", "--delta", "1e-5", "--draws", "1e5", "--json"
    ).json

    assert found["command"] == "audit"
    assert found["event"]["type"] == "gaussian"
    assert (found["epsilon"], found["delta"], found["draws"]) == (1.0, 1e-5, 100_000)
    assert found["epsilon_lower_bound"] > 0.2
    assert found["epsilon_lower_bound_999"] < 1.1
    text = ferrodp("audit", "mechanism", "laplace", "--epsilon", "0.5", "--draws", "10000").out
    assert "e-value" in text
    assert "90 %" in text


def test_bad_claims_are_one_line(ferrodp):
    assert "epsilon" in ferrodp("audit", "mechanism", "laplace", "--epsilon", "0").error
    assert "draws" in ferrodp("audit", "mechanism", "gaussian", "--epsilon", "1", "--draws", "10").error


def test_a_training_is_tested_by_canaries_of_its_own_or_by_scores(ferrodp, tmp_path):
    found = ferrodp("audit", "training", "--epsilon", "4", "--canaries", "1000", "--json").json
    assert (found["what"], found["canaries"], found["method"]) == ("training", 1000, "gaussian")
    assert 1.5 < found["epsilon_lower_bound"] < 4.8
    assert found["epsilon"] <= 4.0

    included = np.arange(1000) % 2 == 0
    np.save(tmp_path / "s.npy", included + 0.0)
    np.save(tmp_path / "i.npy", included)
    given = ["audit", "training", "--epsilon", "1", "--scores", str(tmp_path / "s.npy")]
    assert "VIOLATED" in ferrodp(*given, "--included", str(tmp_path / "i.npy")).out
    assert "together" in ferrodp(*given).error


def test_the_confidence_of_a_test_is_chosen(ferrodp, tmp_path):
    """A nightly test asks for more: the same scores no longer contradict the claim."""
    included = np.arange(100) % 2 == 0
    np.save(tmp_path / "s.npy", np.where(np.arange(100) < 80, included, ~included) + 0.0)
    np.save(tmp_path / "i.npy", included)
    given = ["audit", "training", "--epsilon", "0.5", "--scores", str(tmp_path / "s.npy")]
    given += ["--included", str(tmp_path / "i.npy"), "--method", "guesses", "--json"]
    usual, nightly = (ferrodp(*given, *more).json for more in ((), ("--confidence", "0.999999999")))
    assert (usual["confidence"], nightly["confidence"]) == (0.999, 0.999999999)
    assert nightly["epsilon_lower_bound"] < usual["epsilon_lower_bound"]

    mechanism = ["audit", "mechanism", "laplace", "--epsilon", "1", "--draws", "2000"]
    assert ferrodp(*mechanism, "--confidence", "0.9999", "--json").json["confidence"] == 0.9999
    assert "confidence must be in [0.5, 1), got 1.0" in ferrodp(*mechanism, "--confidence", "1").error
    assert "--scores" in ferrodp("audit", "training", "--epsilon", "1", "--confidence", "0.9").error
    assert "not for code" in ferrodp("audit", "code", "a.py:b", "--dataset", "c.npy", "--confidence", "0.9").error


def test_code_of_a_file_is_replayed(ferrodp, tmp_path):
    (tmp_path / "pipeline.py").write_text(
        "import ferrodp as fd\n"
        "def right(rows):\n"
        "    total = fd.ClippedSum((2,), clip_norm=1.0)\n"
        "    total.add_many(rows)\n"
        "    return total.release(noise_multiplier=1.0)\n"
        "def wrong(rows):\n"
        "    return right(rows) / len(rows)\n"
    )
    np.save(tmp_path / "rows.npy", np.ones((5, 2)))
    given = ["--dataset", str(tmp_path / "rows.npy")]
    assert ferrodp("audit", "code", f"{tmp_path}/pipeline.py:right", *given, "--json").json["violation"] is False
    assert "result" in ferrodp("audit", "code", f"{tmp_path}/pipeline.py:wrong", *given).out
    assert "no function" in ferrodp("audit", "code", f"{tmp_path}/pipeline.py:none", *given).error
    assert "FILE.py" in ferrodp("audit", "code", "nothing", *given).error


def test_evidence_is_kept_and_a_picture_written(ferrodp, tmp_path):
    given = ["audit", "mechanism", "laplace", "--epsilon", "1", "--draws", "2000", "--evidence", str(tmp_path / "e")]
    for runs in (1, 2):
        assert ferrodp(*given, "--json").json["evidence"]["runs"] == runs
    pytest.importorskip("matplotlib")
    ferrodp(*given, "--plot", str(tmp_path / "roc.svg"))
    assert "<svg" in (tmp_path / "roc.svg").read_text()
