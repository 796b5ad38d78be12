"""A pretend accelerator for tests. `import torch` finds it through the entry point `torch.backends`, as other backends.

STANDIN_BUDGET limits the bytes of its memory, STANDIN_DEVICES sets the number of devices (8).
"""


def register() -> None:
    """Make `standin` a device of torch; called by `import torch`, and therefore importing torch only now."""
    from standin import backend

    backend.register()
