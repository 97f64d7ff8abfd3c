"""The table as plain values: CSV and JSON, with all digits."""

from __future__ import annotations

import csv as format
import io
from typing import Any

from potluck.compare.comparing import Comparison, Row


def plain(comparison: Comparison) -> dict[str, Any]:
    """A comparison as plain values."""
    return {
        "version": 1,
        "protocol": comparison.protocol,
        "test": comparison.test,
        "baseline": comparison.baseline,
        "target": comparison.target,
        "target_reason": comparison.target_reason,
        "methods": [{"seeds": row.group.seeds, **_values(row)} for row in comparison.rows],
        "warnings": list(comparison.warnings),
    }


def csv(comparison: Comparison) -> str:
    """A line per method; what is not there is empty."""
    common = {
        "protocol": comparison.protocol,
        "test": comparison.test,
        "baseline": comparison.baseline,
        "target": comparison.target,
    }
    rows = [{"seeds": " ".join(map(str, row.group.seeds)), **_values(row), **common} for row in comparison.rows]
    text = io.StringIO()
    writer = format.DictWriter(text, fieldnames=["method", *(key for key in rows[0] if key != "method")])
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    """A spreadsheet takes a text that begins like this for a formula, and computes it."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def _values(row: Row) -> dict[str, Any]:
    accuracy, difference, spread = row.accuracy, row.difference, row.spread
    target, gains = row.to_target, row.gains
    return {
        "method": row.group.name,
        "algorithm": row.group.algorithm,
        "accuracy": accuracy.mean,
        "accuracy_deviation": accuracy.deviation,
        "accuracy_low": accuracy.low,
        "accuracy_high": accuracy.high,
        "difference": difference.mean if difference else None,
        "difference_low": spread.low if spread else None,
        "difference_high": spread.high if spread else None,
        "clients": difference.count if difference else None,
        "p": difference.p if difference else None,
        "p_holm": row.p,
        "paired_clients": gains.count if gains else None,
        "gain": gains.gain if gains else None,
        "lose": gains.lose if gains else None,
        "equal": gains.equal if gains else None,
        "mean_change": gains.mean if gains else None,
        "median_change": gains.median if gains else None,
        "worst_change": gains.worst if gains else None,
        "best_change": gains.best if gains else None,
        "fewest_samples": row.samples[0] if row.samples else None,
        "most_samples": row.samples[1] if row.samples else None,
        "rounds": row.total.rounds,
        "bytes": row.total.bytes,
        "flops": row.total.flops,
        "server_flops": row.total.server_flops,
        "seconds": row.total.seconds,
        "reached": row.reached,
        "rounds_to_target": target.rounds if target else None,
        "bytes_to_target": target.bytes if target else None,
        "flops_to_target": target.flops if target else None,
        "server_flops_to_target": target.server_flops if target else None,
    }
