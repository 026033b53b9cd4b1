"""What a body has to tell the agent beside its result: texts, bounded in number and size, and nothing else."""

from stockade_daemon.pipeline.wishes import broken
from stockade_worker.frames import MAX_CONTEXT, MOST_CONTEXTS, Frame


class Told:
    """The texts of one call, in the order in which they came."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(self._texts)

    def add(self, frame: Frame) -> None:
        """Takes the text of a context frame, its blob. Raises ToolFailure INVALID_TOOL_OUTPUT, the end of the call, for
        what the body's own end would not have sent."""
        if len(self._texts) == MOST_CONTEXTS:
            raise broken(f"more than {MOST_CONTEXTS} texts for the agent")
        if not 1 <= len(frame.blob) <= MAX_CONTEXT:
            raise broken(f"a text for the agent of {len(frame.blob)} bytes")
        try:
            self._texts.append(frame.blob.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise broken(f"a text for the agent that is none: {error}") from error
