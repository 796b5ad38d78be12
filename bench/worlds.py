"""Compare `dragoman plan`'s memory and exchange with FSDP2 in simulated worlds of many ranks.

    python bench/worlds.py [--preset paper-big] [--worlds 8 64 512] [--tokens 4096] [--hsdp N]

One process makes training steps as rank 0 of a world that torch's fake process group pretends: its collectives return
at once. Tensors are fake: they have sizes and no values, so that a model of any size fits. FSDP2 shards the model as
`training/parallel.py` does, a tracker of FSDP2's memory finds the peak, and a dispatch mode adds up the bytes of
collectives. The loss is torch's own, because that of training needs values. DDP does not run on fake tensors. With
--hsdp, N ranks share the weights (HSDP), and `network_mib_WORLD` is what a rank sends to other nodes.
"""

import warnings
from collections import Counter
from typing import Any

import torch
import torch.nn.functional as F
from report import option_parser, print_values
from torch import Tensor, nn
from torch import distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from dragoman.models.build import build
from dragoman.models.cluster import device_memory, exchange_bytes, network_bytes
from dragoman.models.config import ModelConfig
from dragoman.models.presets import preset
from dragoman.models.seq2seq import Seq2Seq, shifted

LENGTH = 32
MIB = 2**20


class Objective(nn.Module):
    """The summed cross-entropy of a model, without values on the host."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        logits = self.model(source, shifted(target))
        return F.cross_entropy(
            logits.flatten(0, 1), target.flatten(), label_smoothing=0.1, ignore_index=0, reduction="sum"
        )


class Collectives(TorchDispatchMode):
    """Adds up the bytes of collectives by name: the gathered output, or the input that is reduced."""

    def __init__(self) -> None:
        super().__init__()
        self.num_bytes: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace in ("c10d", "_c10d_functional"):
            name = func._schema.name.split("::")[1]
            sizes = [leaf.numel() * leaf.element_size() for leaf in tree_leaves(args) if isinstance(leaf, Tensor)]
            self.calls[name] += 1
            self.num_bytes[name] += max(sizes, default=0)
        return func(*args, **(kwargs or {}))


def simulate(config: ModelConfig, world: int, per_node: int, tokens: int) -> tuple[int, float, float]:
    """Return the peak memory of a rank, and the bytes that it sends per update, in all and to other nodes."""
    dist.init_process_group("fake", rank=0, world_size=world, store=FakeStore())
    try:
        shape = (world // per_node, per_node) if per_node < world else (world,)
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=("machines", "processes")[-len(shape) :])
        with FakeTensorMode():
            return _train(config, mesh, tokens)
    finally:
        dist.destroy_process_group()


def _train(config: ModelConfig, mesh: DeviceMesh, tokens: int) -> tuple[int, float, float]:
    model = build(config)
    rows = (tokens // LENGTH, LENGTH)
    source = torch.randint(5, config.source_vocabulary, rows)
    target = torch.randint(5, config.target_vocabulary, rows)
    objective = Objective(model)
    for part in (*model.parts, objective):
        fully_shard(part, mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)

    def step() -> None:
        objective(source, target).backward()
        optimizer.step()
        optimizer.zero_grad()

    tracker = FSDPMemTracker(objective, optimizer)
    tracker.track_inputs((source, target))
    with tracker:
        step()
        tracker.reset_mod_stats()
        step()  # the second has Adam's means from its beginning
    peak = sum(sum(kinds.values()) for kinds in _without_totals(tracker.get_tracker_snapshot("peak")).values())
    with Collectives() as collectives:
        step()
    *nodes, sharing = mesh.shape
    between = 2 * collectives.num_bytes["allreduce_"] * (nodes[0] - 1) / nodes[0] if nodes else 0.0
    inside = sum(size for name, size in collectives.num_bytes.items() if "gather" in name or "scatter" in name)
    calls = ", ".join(f"{count} {name}" for name, count in collectives.calls.items())
    print(f"world {mesh.size()}: {calls}", flush=True)
    return peak, between + inside * (sharing - 1) / sharing, between


def _without_totals(snapshot: Any) -> dict[str, dict[str, int]]:
    return {
        str(device): {str(kind): size for kind, size in kinds.items() if "total" not in str(kind).lower()}
        for device, kinds in snapshot.items()
    }


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--preset", default="paper-big", help="the model")
    parser.add_argument("--vocabulary", type=int, default=37_000, help="token ids of each side")
    parser.add_argument("--worlds", type=int, nargs="+", default=[8, 64, 512], help="numbers of ranks")
    parser.add_argument(
        "--hsdp", type=int, metavar="N", help="HSDP: number of ranks of a node, which share the weights"
    )
    parser.add_argument("--tokens", type=int, default=4096, help="source and target tokens of a rank")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view")
    relu = F.relu
    F.relu = lambda x, **_: relu(x)  # the tracker's hooks forbid changing outputs in place
    config = preset(arguments.preset, arguments.vocabulary)
    values: dict[str, float] = {}
    for world in arguments.worlds:
        per_node = arguments.hsdp or world
        memory, exchange, between = simulate(config, world, per_node, arguments.tokens)
        planned = device_memory(config, arguments.tokens, per_node, "float32", LENGTH).peak
        sent = exchange_bytes(config, world, "hsdp", world // per_node)
        print(f"  memory: {memory / MIB:,.0f} MiB simulated, {planned / MIB:,.0f} MiB planned", flush=True)
        print(f"  sent per update: {exchange / MIB:,.0f} MiB simulated, {sent / MIB:,.0f} MiB planned", flush=True)
        values |= {f"memory_mib_{world}": memory / MIB, f"memory_planned_over_simulated_{world}": planned / memory}
        values |= {f"sent_mib_{world}": exchange / MIB, f"sent_planned_over_simulated_{world}": sent / exchange}
        if per_node < world:
            planned_between = network_bytes(config, per_node, world // per_node)
            print(
                f"  of it to other nodes: {between / MIB:,.0f} MiB, {planned_between / MIB:,.0f} MiB planned",
                flush=True,
            )
            values |= {f"network_mib_{world}": between / MIB}
            values |= {f"network_planned_over_simulated_{world}": planned_between / between}
    print_values("worlds", values, 3)


if __name__ == "__main__":
    main()
