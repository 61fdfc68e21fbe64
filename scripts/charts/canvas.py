"""A chart of the report: a matplotlib figure in dpbench's style, with tooltips for its marks."""
import dataclasses
import io
import logging
import textwrap
import warnings

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from palette import BASELINE, LIGHT, MARKERS, SERIES, assigned, role_of
from words import short

WIDTH = 4.3  # inches: fits a column of a paper and a phone held upright
matplotlib.rcdefaults()  # the user's matplotlibrc must not change the charts
matplotlib.rcParams.update({
    "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"], "font.size": 9, "axes.titlesize": 9.5,
    "axes.titleweight": "bold", "axes.titlelocation": "left", "legend.fontsize": 8.5, "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5, "text.color": LIGHT["ink"], "axes.labelcolor": LIGHT["ink"], "axes.titlecolor": LIGHT["ink"],
    "xtick.color": LIGHT["axis"], "ytick.color": LIGHT["axis"], "xtick.labelcolor": LIGHT["muted"],
    "ytick.labelcolor": LIGHT["muted"], "axes.edgecolor": LIGHT["axis"], "grid.color": LIGHT["grid"], "grid.linewidth": 0.7,
    "axes.grid": True, "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.8,
    "figure.facecolor": LIGHT["ground"], "axes.facecolor": "none", "legend.frameon": False, "legend.handlelength": 1.5,
    "legend.handletextpad": 0.5, "legend.columnspacing": 1.1, "lines.linewidth": 1.6, "lines.markersize": 5, "errorbar.capsize": 2.5,
    "svg.fonttype": "none", "svg.hashsalt": "dpbench", "text.parse_math": False,  # draws a $ as it is
})
warnings.filterwarnings("ignore", message="Glyph .* missing")
logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)


def decades(axis, text):
    """Labels a logarithmic axis at 1, 2 and 5 times each power of ten. `text`: returns the label of a value."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=6))
    axis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    axis.set_minor_formatter(NullFormatter())


def columns_for(labels):
    """Returns the number of legend columns that fit the width. A column takes 5.2 points per letter of its longest
    label and 31 points for the line sample."""
    for columns in range(len(labels), 1, -1):
        # matplotlib fills a legend column by column; with a remainder, the first columns get one label more.
        shared, more = divmod(len(labels), columns)
        ends = [shared * (column + 1) + min(more, column + 1) for column in range(columns)]
        longest = [max(map(len, labels[start:end])) for start, end in zip([0, *ends], ends)]
        if sum(5.2 * letters + 31 for letters in longest) < 72 * WIDTH - 10:
            return columns
    return 1


@dataclasses.dataclass
class Chart:
    """A chart with its file name, kind, subject, setting, caption and message. The message says what the chart shows,
    or why that cannot be told."""
    name: str
    kind: str
    subject: str
    setting: str
    caption: str = ""
    message: str = ""
    marks: dict = dataclasses.field(default_factory=dict)  # {SVG id: words of the tooltip}
    parts: dict = dataclasses.field(default_factory=dict)  # {SVG id: label of the series}
    keys: dict = dataclasses.field(default_factory=dict)  # {SVG id of a legend entry: label of the series}
    figure: Figure = None
    key: object = None  # the figure's legend, or None
    drawing: str = ""  # SVG text for the HTML page

    @property
    def title(self):
        return f"{self.message}: {self.subject}"

    def axes(self, height=2.9, **options):
        self.figure = Figure(figsize=(WIDTH, height), layout="constrained")
        return self.figure.add_subplot(**options)

    def mark(self, artist, words):
        """Gives a matplotlib artist (a drawn shape) a tooltip. The tooltip's words also appear in the list of values
        below the chart."""
        name = f"mark{len(self.marks)}"
        artist.set_gid(name)
        self.marks[name] = words

    def belongs(self, label, *artists):
        """Makes artists parts of a series. On the page, the legend's entry with this label switches the series off."""
        for artist in artists:
            artist.set_gid(artist.get_gid() or f"{type(artist).__name__}-{len(self.parts)}")
            self.parts[artist.get_gid()] = label

    def series(self, axes, label, look, xs, spans, sayings):
        """Draws a series as a line with an error bar, a marker and a tooltip at every point. The error bars are thin
        and transparent, so that those of several series at one x stay readable."""
        middles = [span.middle for span in spans]
        axes.plot([], [], **look, label=label)  # line without points: the legend shows its style
        (line,) = axes.plot(xs, middles, color=look["color"], linestyle=look["linestyle"], zorder=3)
        (_, caps, bars) = axes.errorbar(xs, middles, fmt="none", ecolor=look["color"], elinewidth=0.9, alpha=0.65,
                                        zorder=3,
                      yerr=[[span.middle - span.low for span in spans], [span.high - span.middle for span in spans]])
        edge = {"markeredgecolor": LIGHT["ground"], "markeredgewidth": 0.6} | {k: v for k, v in look.items() if k.startswith("marker")}
        for x, middle, saying in zip(xs, middles, sayings):
            (point,) = axes.plot([x], [middle], linestyle="none", color=look["color"], zorder=4, **edge)
            self.mark(point, saying)
            self.belongs(label, point)
        self.belongs(label, line, *caps, *bars)

    def legend(self, handles=None, labels=None, limit=24):
        axes = self.figure.axes[0]
        if handles is None:
            handles, labels = axes.get_legend_handles_labels()
        if not handles:
            return
        shown = [short(label, limit) for label in labels]
        columns = columns_for(shown)
        rows = -(-len(labels) // columns)
        self.figure.set_figheight(self.figure.get_figheight() + 0.17 * (rows - 1))
        self.key = self.figure.legend(handles, shown, loc="outside upper left", ncols=columns, borderaxespad=0.2)
        for label, *entry in zip(labels, self.key.legend_handles, self.key.get_texts()):
            for artist in entry if label in self.parts.values() else ():
                artist.set_gid(f"key{len(self.keys)}")
                self.keys[artist.get_gid()] = label

    def sign(self):
        """Adds title and caption to the picture for image files. On the HTML page they are text outside the picture."""
        rows = textwrap.wrap(short(self.title, 150), 50, break_on_hyphens=False)
        title = "\n".join(rows)
        self.figure.set_figheight(self.figure.get_figheight() + 0.16 * (len(rows) - 1))
        if self.key:
            self.key.set_title(title, prop={"weight": "bold", "size": 9.5})
            self.key.set_alignment("left")
        else:
            self.figure.suptitle(title, x=0.012, ha="left", weight="bold", size=9.5)
        lines = textwrap.wrap(" ".join(f"{self.setting}. {self.caption}".split() if self.setting else self.caption.split()), 88)
        foot = 0.06 + 0.125 * len(lines)
        height = self.figure.get_figheight() + foot + 0.2
        self.figure.set_figheight(height)
        self.figure.get_layout_engine().set(rect=(0, foot / height, 1, 1 - foot / height))
        self.figure.text(0.012, foot / height, "\n".join(lines), size=6.3, va="top", color=LIGHT["muted"], linespacing=1.25)

    def svg(self):
        out = io.StringIO()
        FigureCanvasSVG(self.figure).print_svg(out, metadata={"Date": None, "Title": self.title})
        return out.getvalue()

    def png(self):
        out = io.BytesIO()
        FigureCanvasAgg(self.figure)
        self.figure.savefig(out, format="png", dpi=200, metadata={"Software": None, "Title": self.title})
        return out.getvalue()

    @property
    def attributes(self):
        """Returns {SVG id: the attributes that the page's script reads}. A series has a number, which its parts and its
        entry in the legend share."""
        found = {gid: {"class": "tip", "data-tip": words} for gid, words in self.marks.items()}
        labels = list(dict.fromkeys(self.parts.values()))
        for name, members in (("data-series", self.parts), ("data-key", self.keys)):
            for gid, label in members.items():
                found.setdefault(gid, {})[name] = str(labels.index(label))
        return found

    @property
    def description(self):
        return f"{self.title}: {'; '.join(self.marks.values())}" if len(self.marks) <= 12 else f"{self.title}: values listed below"


class Looks:
    """The colour, marker and line style of each series (line of a chart) of one chart. `wanted`: {series: the role of
    its colour}. Series beyond the palette repeat colours, dashed, then dotted."""

    def __init__(self, wanted):
        self.roles = assigned(wanted)

    @classmethod
    def of(cls, cases):
        return cls({case.drawn_as: role_of(case.strategy, case.is_baseline) for case in cases})

    def colour(self, series):
        return LIGHT[self.roles[series][0]]

    def line(self, series):
        """Returns matplotlib keywords for a series' line."""
        role, uses = self.roles[series]
        marker = MARKERS[[BASELINE, *SERIES].index(role) % len(MARKERS)]
        return {"color": LIGHT[role], "marker": marker, "linestyle": ("-", "--", ":")[uses % 3]}
