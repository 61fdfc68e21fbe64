"""Colours by role, light and dark. Charts are drawn in the light colours; on the page each colour becomes a CSS
variable, so that one drawing serves both modes. The contrast with the background is at least 4.5 for text and 3 for
marks."""
import collections
import zlib

GROUND = ("#ffffff", "#161b22")
ROLES = {
    "ink": ("#1f2328", "#e6edf3"),
    "muted": ("#57606a", "#9aa4af"),
    "axis": ("#8b949e", "#6e7781"),
    "grid": ("#e3e7eb", "#2a313a"),
    "ground": GROUND,
    "bad": ("#cf222e", "#ff7b72"),
    # Colours of series (lines of a chart). With their markers they are distinguishable for the colour-blind; the
    # baseline is grey.
    "s0": ("#656d76", "#a7b0ba"),
    "s1": ("#0a62c9", "#5aa9ff"),
    "s2": ("#c2410c", "#ff9d5c"),
    "s3": ("#0f7f5f", "#3fc9a0"),
    "s4": ("#8a3ffc", "#c49bff"),
    "s5": ("#a8324a", "#ff8fa6"),
    "s6": ("#7a6a00", "#d8c23f"),
    "s7": ("#0b7285", "#4fd0e4"),
    "s8": ("#dd5fa8", "#e02fb0"),
    "s9": ("#33471f", "#35a535"),
    "s10": ("#4f9400", "#86e02e"),
    "s11": ("#5a2f6e", "#947aa0"),
    "s12": ("#a8835f", "#a0803a"),
    "s13": ("#6b3410", "#d2602f"),
    "s14": ("#f5404f", "#f5384f"),
    "s15": ("#8080cc", "#7272f5"),
    "s16": ("#a8008c", "#eccbec"),
    "s17": ("#111fa6", "#bad98d"),
    "s18": ("#ff19e8", "#a319ff"),
    "s19": ("#bf7c90", "#f2c89d"),
    "s20": ("#b86cd9", "#4f734b"),
    "s21": ("#ff198c", "#18f285"),
    "s22": ("#1e96ff", "#ffff3c"),
    # Colours of the phases of a step.
    "data": ("#8a6d3b", "#c9a96a"),
    "scatter": ("#6b7f1e", "#aebf4f"),
    "forward": ("#2f7ed8", "#6db3ff"),
    "backward": ("#1d4f91", "#3f7fd1"),
    "communication": ("#d9480f", "#ff8a4c"),
    "optimizer": ("#2b8a5e", "#4fc08d"),
    "waiting": ("#868e96", "#8f99a3"),
    "graph": ("#5f3dc4", "#9775fa"),
}
LIGHT = {role: light for role, (light, _) in ROLES.items()}
SERIES = [f"s{index}" for index in range(1, 23)]
BASELINE = "s0"
STRATEGIES = {"cpu": BASELINE, "gpu": BASELINE, "ddp": "s1", "dp": "s2", "fsdp": "s3", "zero1": "s4",
              "dp-upstream": "s5", "local-sgd": "s6", "zero2": "s7", "tp": "s8", "pp": "s9", "cp": "s10", "ep": "s11",
              "layout": "s12", "py-ddp": "s17", "py-fsdp2": "s18", "py-zero1": "s19", "py-tp": "s20", "py-pp": "s21",
              "py-cp": "s22"}
OTHERS = [role for role in SERIES if role not in STRATEGIES.values()]
MARKERS = "osD^vPX<>"


def role_of(name, is_baseline=False):
    """Returns the role of a strategy's colour, the same in every chart. Plug-ins' strategies share the roles OTHERS."""
    return BASELINE if is_baseline else STRATEGIES.get(name) or OTHERS[zlib.crc32(name.encode()) % len(OTHERS)]


def assigned(wanted):
    """Returns {series: (role, earlier uses of the role)} for the series of one chart. `wanted`: {series: its role}. If
    several series want one role, the first by name gets it, and the others get the least used roles, OTHERS first."""
    owners = {}
    for series in sorted(wanted):
        owners.setdefault(wanted[series], series)
    found = {series: (role, 0) for role, series in owners.items()}
    uses = collections.Counter(dict.fromkeys(owners, 1))
    pool = OTHERS + [role for role in SERIES if role not in OTHERS]
    for series in sorted(set(wanted) - set(found)):
        role = min(pool, key=lambda role: uses[role])
        found[series] = (role, uses[role])
        uses[role] += 1
    return found


def style_sheet():
    """Returns CSS rules that define each role's colour as a variable, for light and dark mode. Print is light."""
    def declared(index):
        return "".join(f"--{role}:{both[index]};" for role, both in ROLES.items())
    dark = f"{declared(1)}color-scheme:dark"
    return (f":root{{{declared(0)}color-scheme:light}}"
            f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}"
            f"@media screen{{:root[data-theme=dark]{{{dark}}}}}")
