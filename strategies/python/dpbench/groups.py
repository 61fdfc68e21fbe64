"""Adds dpbench's process groups to torch.distributed, so that collectives called in Python run over dpbench's
backend."""
from torch.distributed import distributed_c10d as c10d


def adopt(name, rank, world, ranks=None):
    """Returns the process group that the library has registered under this name. The group of all ranks becomes the
    default group. ranks: the global ranks of the group's members; None for the group of all ranks."""
    group = c10d._resolve_process_group(name)
    group._set_group_name(name)
    known, tag = c10d._world, "ptd:" + name
    known.pg_map[group] = (group.name(), group.get_group_store())
    known.pg_names[group] = name
    known.pg_group_ranks[group] = {member: place for place, member in enumerate(ranks if ranks is not None else range(world))}
    known.pg_backend_config[group] = f"cpu:{group.name()}"
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


