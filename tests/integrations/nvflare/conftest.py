"""Sites for the tests of this folder."""

import pytest
from sites import Site


@pytest.fixture
def site(tmp_path):
    """Return a function that makes a site in the test's folder, the same one when it is called again."""
    return lambda job="job-1", **options: Site(tmp_path / "site-1", job, **options)
