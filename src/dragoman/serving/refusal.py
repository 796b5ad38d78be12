"""Why a request is not answered with a translation, and when it may come again."""


class RefusalError(Exception):
    """A status of HTTP, what is wrong in a few words, and how to mend it."""

    status = 400
    title = "The request cannot be answered"

    def __init__(self, detail: str, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.retry_after = retry_after
        """Seconds."""


class MistakenError(RefusalError):
    """What was asked for cannot be."""

    title = "The request is mistaken"


class UnknownKeyError(RefusalError):
    """No key, or one that is not in the file."""

    status = 401
    title = "A key is needed"


class UnknownModelError(RefusalError):
    """A model or a language that is not served."""

    status = 404
    title = "No such model"


class TooLargeError(RefusalError):
    """More than one request may bring."""

    status = 413
    title = "Too much for one request"


class LimitedError(RefusalError):
    """A key that has had its share."""

    status = 429
    title = "Too many requests"


class BrokenError(RefusalError):
    """Our fault, and not the text's as far as we know."""

    status = 500
    title = "It could not be translated"


class BusyError(RefusalError):
    """All engines have enough to do, or none is there."""

    status = 503
    title = "Too much to do"
