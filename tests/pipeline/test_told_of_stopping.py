"""What a daemon that stops says of the calls under way."""

import json
import logging
from pathlib import Path

import pytest

from tests.pipeline.engines import an_engine


async def test_a_job_is_not_counted_among_the_calls_that_have_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="stockade_daemon.pipeline.draining")
    async with an_engine(tmp_path, lambda services: None) as tried:
        for call_id, background in (("job", True), ("command", False)):
            arguments = {"command": "sleep 60", "background": background}
            await tried.engine.begin("s", call_id, "shell", json.dumps(arguments).encode())
            if background:
                assert await tried.code(call_id) == "ok"  # the call that started the job is over
        await tried.engine.drain(0)
    told = [each.getMessage() for each in caplog.records if each.getMessage().startswith("stopping: ")]
    assert told[0] == "stopping: 1 calls under way have 0 s to finish, 1 are ended at once"
