"""The one error of the sandbox."""


class SandboxError(RuntimeError):
    """Something that the sandbox needs is missing or does not start; the message says what."""
