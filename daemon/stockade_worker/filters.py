"""Loading the system-call filters, which the daemon compiled: nothing here knows what they say."""

from stockade_worker import kernel


def load(allow: bytes, arguments: bytes) -> None:
    """The allow list first, the argument program last: the other way round, calls that the allow list does not name
    would be answered ENOSYS where the argument program means EPERM."""
    kernel.load_filter(allow)
    kernel.load_filter(arguments)
