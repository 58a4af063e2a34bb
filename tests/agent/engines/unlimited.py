"""A provider without limits."""


class Unlimited:
    """Implements `ModelLimit`."""

    def begin(self, until: int, reason: str) -> None:
        """Nothing here reaches a limit."""
        raise AssertionError(reason)

    async def wait_until_over(self) -> None:
        """At once."""
