"""Two services that share quotas, as installed."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from redis_server import RedisServer, needs_redis, redis_server
from service_process import StartError, start_service

from dragoman.serving.keys import add_key

pytestmark = needs_redis
TEXT = "two dogs."


def test_two_services_share_one_quota_exactly_and_go_on_without_redis(tmp_path: Path) -> None:
    key = add_key("shop", tmp_path / "keys.yaml", characters_per_day=10 * len(TEXT))
    with redis_server() as redis:
        options = ["demo", "--engines", "1", "--keys", str(tmp_path / "keys.yaml"), "--quotas", redis.url]
        options += ["--limit", "wait=60", "--limit", "seconds=60"]
        with start_service(*options) as one, start_service(*options) as other, httpx.Client(timeout=120) as client:

            def status(url: str) -> int:
                body = {"q": TEXT, "source": "en", "target": "de", "api_key": key}
                return client.post(f"{url}/translate", json=body).status_code

            with ThreadPoolExecutor(4) as pool:
                statuses = list(pool.map(status, [one.url, other.url] * 10))
            assert sorted(statuses) == [200] * 10 + [429] * 10
            redis.stop()
            assert status(one.url) == 200
            assert one.wait_for_event("quotas lost")["redis"] == redis.url


def test_a_service_does_not_start_without_its_redis(tmp_path: Path) -> None:
    add_key("shop", tmp_path / "keys.yaml")
    options = ["demo", "--keys", str(tmp_path / "keys.yaml"), "--quotas", RedisServer().url]
    with pytest.raises(StartError, match="Redis cannot be used"), start_service(*options):
        pass
