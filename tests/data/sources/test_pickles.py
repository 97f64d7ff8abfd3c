"""Pickles are read, and never run."""

from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from potluck.data.sources import pickles
from potluck.data.sources.pickles import unpickle
from potluck.errors import DataError


def read(content: bytes) -> Any:
    return unpickle(content, "the file data_batch_1", "Unpack it again")


def test_reads_what_python_2_wrote() -> None:
    # Opcode by opcode as in the published files: protocol 2, text as byte strings, NumPy under its old name.
    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value

    pixels = bytes(range(6))
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n(K\x00tU\x01b\x87R"
        b"(K\x01K\x02K\x03\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89T" + struct.pack("<i", len(pixels)) + pixels + b"tb"
    )
    content = b"\x80\x02}(" + text(b"labels") + b"](K\x06K\x09e" + text(b"data") + array + b"u."
    held = read(content)
    assert held[b"labels"] == [6, 9]
    assert held[b"data"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert held[b"data"].dtype == np.uint8


@pytest.mark.parametrize("protocol", [3, 4])
@pytest.mark.parametrize("order", ["C", "F"])
def test_reads_what_numpy_writes(protocol: int, order: Any) -> None:
    array = np.arange(12, dtype=np.uint8).reshape(3, 4)
    value = {b"data": np.asarray(array, order=order), "name": "x", b"labels": [1, 2, 3], b"n": 7}
    held = read(pickle.dumps(value, protocol))
    assert np.array_equal(held.pop(b"data"), array)
    assert held == {"name": "x", b"labels": [1, 2, 3], b"n": 7}


class Evil:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("protocol", range(6))
def test_no_code_is_run(protocol: int, tmp_path: Path) -> None:
    content = pickle.dumps({"data": Evil(tmp_path / "run")}, protocol)
    with pytest.raises(
        DataError, match=r"the file data_batch_1 is no pickle .*asks for posix\.system.* Unpack it again"
    ):
        read(content)
    assert not (tmp_path / "run").exists()
    pickle.loads(content)  # noqa: S301 (to see that it would have)
    assert (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("builtins", "eval"),
        ("builtins", "getattr"),
        ("numpy", "load"),
        ("numpy.core.multiarray", "scalar"),
        ("numpy", "ndarray.tofile"),
        ("potluck.errors", "DataError"),
    ],
)
@pytest.mark.parametrize("protocol", [2, 4])
def test_other_names_are_refused(module: str, name: str, protocol: int) -> None:
    def word(text: str) -> bytes:
        return b"\x8c" + bytes([len(text)]) + text.encode()

    contents = {
        2: b"\x80\x02c" + f"{module}\n{name}\n".encode() + b".",
        4: b"\x80\x04" + word(module) + word(name) + b"\x93.",
    }
    with pytest.raises(DataError, match=f"asks for {module}.{name}"):
        read(contents[protocol])


@pytest.mark.parametrize("name", sorted(pickles._STAND_INS))
def test_what_a_file_says_of_a_name_is_forgotten(name: tuple[str, str]) -> None:
    stand_in = pickles._STAND_INS[name]
    before = {key: getattr(stand_in, key, None) for key in (*vars(stand_in), "__defaults__", "state", "other")}
    for key in ("__defaults__", "state", "other"):
        state = b"}X" + struct.pack("<I", len(key)) + key.encode() + b"(K\x01K\x02ts"
        for opcodes in (state, b"N" + state + b"\x86"):  # as the content of its __dict__, and attribute by attribute
            with pytest.raises(DataError, match="is no pickle"):
                read(b"\x80\x02c%s\n%s\n" % (name[0].encode(), name[1].encode()) + opcodes + b"b.")
    assert {key: getattr(stand_in, key, None) for key in before} == before


@pytest.mark.parametrize(
    "value",
    [
        1.5,
        None,
        True,
        (1, 2),
        {1, 2},
        [[1]],
        {b"a": {b"b": 1}},
        {b"a": 2.5},
        {b"labels": [1, None]},
        {(1, 2): 3},
        np.zeros(3),
        np.zeros(3, dtype=np.int64),
        np.array([{}], dtype=object),
        np.zeros(2, dtype=[("a", "u1")]),
        np.uint8(3),
        np.dtype("u1"),
        bytearray(b"x"),
    ],
)
def test_other_kinds_are_refused(value: Any) -> None:
    with pytest.raises(DataError, match="the file data_batch_1 is no pickle"):
        read(pickle.dumps(value, 3))


ARRAY = pickle.dumps(np.zeros((2, 3), np.uint8), 3)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no pickle",
        ARRAY[:-10],
        ARRAY.replace(b"C\x06\0\0\0\0\0\0", b"C\x05\0\0\0\0\0"),  # fewer values than the shape says
        ARRAY.replace(b"K\x02K\x03\x86", b"K\x02K\x04\x86"),
        ARRAY.replace(b"K\x02K\x03\x86", b"K\x02N\x86"),
        b"\x80\x02cnumpy\nndarray\n)\x81.",  # an array about which nothing is said
        b"\x80\x02cnumpy\nndarray\n.",  # the class itself
        b"\x80\x02cnumpy\ndtype\n)R.",
        b"\x80\x02(lp0\n" + b"(l" * 1000 + b"a" * 1000 + b"a.",
    ],
)
def test_damaged_pickles(content: bytes) -> None:
    assert content != ARRAY
    with pytest.raises(DataError, match=r"the file data_batch_1 is no pickle .* Unpack it again\."):
        read(content)
