"""Adds dpbench's process groups to torch.distributed, so that collectives called in Python run over dpbench's
backend."""
import torch
from torch.distributed import distributed_c10d as c10d

strategy = 0     # number of the strategy that makes groups by torch.distributed.new_group()
new_groups = []  # groups that this strategy has made


def make(options, _):
    """Makes the group of torch.distributed.new_group() over the case's backend."""
    name = torch.ops.dpbench.new_group.default(strategy, list(options.global_ranks_in_group))
    new_groups.append(c10d._resolve_process_group(name))
    return new_groups[-1]


c10d.Backend.register_backend("dpbench", make, extended_api=True, devices=["cpu", "cuda"])


def adopt(name, rank, world, ranks=None):
    """Returns the process group that the library has registered under this name. The group of all ranks becomes the
    default group. ranks: the global ranks of the group's members; None for the group of all ranks."""
    group = c10d._resolve_process_group(name)
    group._set_group_name(name)
    known, tag = c10d._world, "ptd:" + name
    known.pg_map[group] = ("dpbench", group.get_group_store())  # new_group() makes groups of the default group's backend
    known.pg_names[group] = name
    known.pg_group_ranks[group] = {member: place for place, member in enumerate(ranks if ranks is not None else range(world))}
    known.pg_backend_config[group] = "cpu:dpbench"
    known.tags_to_pg.setdefault(tag, []).append(group)
    known.pg_to_tag[group] = tag
    if ranks is None:
        c10d._update_default_pg(group)
    return group


def forget(group):
    known = c10d._world
    if c10d.GroupMember.WORLD is group:
        c10d._update_default_pg(None)
    tag = known.pg_to_tag.pop(group, None)
    if tag is not None:
        known.tags_to_pg.pop(tag, None)
    for table in (known.pg_map, known.pg_names, known.pg_group_ranks, known.pg_backend_config):
        table.pop(group, None)


def forget_new_groups():
    """Forgets the groups that new_group() has made. The next strategy's groups get the same names, from 0 on, because
    DTensor caches meshes by their ranks and finds their groups by name."""
    known = c10d._world
    for group in new_groups:
        if group in known.pg_map:  # else destroy_process_group() has forgotten it
            c10d._unregister_process_group(known.pg_names[group])
            forget(group)
    known.tags_to_pg.pop("", None)  # the tag of all groups of new_group()
    known.group_count = 0
    new_groups.clear()


