"""`ferrodp audit`."""


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
