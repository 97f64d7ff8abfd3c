"""The words and numbers that every form of the table shares."""

from __future__ import annotations

from dataclasses import dataclass

from potluck.compare.comparing import PAPERS, Comparison, Row
from potluck.metrics.protocol import MEANING
from potluck.report.evaluation import evaluation_note
from potluck.report.format import operations, percent, size
from potluck.significance import LEAST_SEEDS

DASH = "-"
TESTS = {"t": "paired t-test", "wilcoxon": "Wilcoxon's signed-rank test"}


@dataclass(frozen=True)
class Line:
    """A row in text; a dash where there is nothing to say.

    ``samples`` says how many training samples a client holds, if that is not the same in all rows.
    """

    method: str
    samples: str
    seeds: str
    accuracy: str
    interval: str
    difference: str
    p: str
    bytes: str
    flops: str
    server_flops: str
    target_bytes: str
    target_flops: str
    best: bool

    @property
    def labelled(self) -> str:
        """The method, with its clients' training samples where they differ."""
        return f"{self.method} ({self.samples})" if self.samples else self.method


def lines(comparison: Comparison) -> list[Line]:
    """The rows of a comparison in text; the best are those whose accuracy reads the same as the highest."""
    accuracies = [row.accuracy.mean for row in comparison.rows if row.accuracy.mean is not None]
    best = percent(max(accuracies, default=None))
    return [_line(row, best, comparison.baseline, comparison.unequal) for row in comparison.rows]


def _line(row: Row, best: str, baseline: str, unequal: bool) -> Line:
    accuracy, total, target, difference = row.accuracy, row.total, row.to_target, row.difference
    mean = percent(accuracy.mean)
    return Line(
        method=row.group.title,
        samples=_samples(row) if unequal else "",
        seeds=str(len(row.group.runs)),
        accuracy=mean if accuracy.deviation is None else f"{mean} ± {percent(accuracy.deviation)}",
        interval=DASH if accuracy.low is None else f"[{percent(accuracy.low)}, {percent(accuracy.high)}]",
        difference="baseline" if row.group.name == baseline else signed(difference.mean if difference else None),
        p=probability(row.p),
        bytes=size(round(total.bytes)),
        flops=operations(round(total.flops)),
        server_flops=operations(round(total.server_flops)),
        target_bytes=DASH if target is None else size(round(target.bytes)),
        target_flops=DASH if target is None else operations(round(target.flops)),
        best=mean == best != DASH,
    )


def _samples(row: Row) -> str:
    if row.samples is None:
        return "samples unknown"
    low, high = row.samples
    return f"{low} samples" if low == high else f"{low} to {high} samples"


def signed(value: float | None) -> str:
    """A difference in points, with its sign.

    >>> signed(0.0123), signed(-0.02), signed(0.0), signed(None)
    ('+1.23', '-2.00', '0.00', '-')
    """
    if value is None:
        return DASH
    text = f"{100 * value:+.2f}"
    return text[1:] if float(text) == 0 else text


def probability(p: float | None) -> str:
    """A p-value, to three decimals.

    >>> probability(0.0123), probability(1e-9), probability(None)
    ('0.012', '<0.001', '-')
    """
    return DASH if p is None else "<0.001" if p < 0.0005 else f"{p:.3f}"


def has_intervals(comparison: Comparison) -> bool:
    """Whether a method has enough seeds for an interval."""
    return any(row.accuracy.low is not None for row in comparison.rows)


def target_name(comparison: Comparison) -> str:
    """The target in percent."""
    return DASH if comparison.target is None else f"{100 * comparison.target:.4g} %"


def notes(comparison: Comparison) -> list[str]:
    """What the table shows, and over what each number is taken, in sentences."""
    target = comparison.target
    costs = (
        "Cost of a whole run: bytes up and down as encoded; floating-point operations of clients and server, and of "
        "the server alone"
        + (
            f", and up to {target_name(comparison)} ({comparison.target_reason}); a dash unless every seed reached it."
            if target is not None
            else "."
        )
    )
    chosen = (
        "The round is chosen by test accuracy, which flatters every method: compare it with numbers from papers only."
    )
    local = evaluation_note(run.config["algorithm"] for row in comparison.rows for run in row.group.runs[:1])
    accuracy = [_accuracy_note(comparison), _interval_note(comparison), local, _samples_note(comparison)]
    said = [*accuracy, _difference_note(comparison), costs]
    return [each for each in (*said, chosen if comparison.protocol == PAPERS else "") if each]


def _accuracy_note(comparison: Comparison) -> str:
    runs = [run for row in comparison.rows for run in row.group.runs]
    seeds = sorted({run.seed for run in runs})
    rounds = sorted({len([each for each in run.rounds if each.round > 0]) for run in runs})
    several = len(seeds) > 1
    return (
        f"Test accuracy in percent, {MEANING[comparison.protocol]}: mean over clients{' and seeds' if several else ''}"
        f"{' ± standard deviation over seeds' if several else ''}; {'seeds' if several else 'seed'} "
        f"{', '.join(map(str, seeds))}; {', '.join(map(str, rounds))} rounds."
    )


def _interval_note(comparison: Comparison) -> str:
    if not has_intervals(comparison):
        return f"No interval: it takes {LEAST_SEEDS} seeds."
    return (
        "95 % interval of that mean: bootstrap over seeds, and over the clients of each; a dash below "
        f"{LEAST_SEEDS} seeds."
    )


def _samples_note(comparison: Comparison) -> str:
    """What clients train on, where that is not what it would be without another method of the comparison."""
    if comparison.unequal:
        return "Samples: training samples of a client, from the fewest to the most. They differ between methods."
    needless = {
        run.config["public"]
        for row in comparison.rows
        for run in row.group.runs
        if run.config.get("set_aside") == "public" and "public" in run.config
    }
    if not needless or len(comparison.rows) == 1:
        return ""
    counts = " or ".join(f"{count:,}" for count in sorted(needless))
    return f"{counts} training samples are public, set aside under every method: all train on the same samples."


def _difference_note(comparison: Comparison) -> str:
    """The difference and its test; nothing where there is no other method."""
    if len(comparison.rows) == 1:
        return ""
    several = any(len(row.group.runs) > 1 for row in comparison.rows)
    averaged = ", each averaged over seeds" if several else ""
    many = f", corrected for {comparison.tests} comparisons (Holm)" if comparison.tests > 1 else ""
    p = f"; p by {TESTS[comparison.test]} over clients{many}" if comparison.tests else ""
    return f"Difference from {comparison.baseline_title} in points, paired over clients{averaged}{p}."
