"""What travels: it arrives as it was sent, is measured as it is encoded, and nothing else is let in."""

from __future__ import annotations

import json
import pickle
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from potluck.contract import Networks
from potluck.errors import PayloadError
from potluck.models import same_size_extractor
from potluck.payload import MOST_META, MOST_TENSORS, Payload, check_tensor

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
]  # fmt: skip

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12).filter(lambda name: name != "__metadata__")
NUMBERS = (
    st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
    | st.text(max_size=8)
)


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    """Any shape of up to four dimensions, scalars and empty ones included, in any layout."""
    shape = draw(st.lists(st.integers(0, 4), max_size=4))
    dtype = draw(st.sampled_from(DTYPES))
    count = int(torch.tensor(shape).prod()) if shape else 1
    values = torch.arange(count).reshape(shape).to(dtype)
    return values.permute(draw(st.permutations(range(len(shape)))))


PAYLOADS = st.builds(
    Payload, st.dictionaries(NAMES, tensors(), max_size=4), st.dictionaries(NAMES, NUMBERS, max_size=3)
)


def sealed(content: bytes) -> bytes:
    """What comes before the safetensors file, with the right checksum: a stranger can compute it too."""
    return b"potluck\x02" + zlib.crc32(content).to_bytes(4, "little") + content


def version_1(header: object, body: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def frame(header: object, body: bytes = b"") -> bytes:
    """What a stranger might send: any header, and any bytes after it."""
    return sealed(version_1(header, body))


def labelled(meta: object = "{}", **entries: object) -> dict[str, object]:
    return {"__metadata__": {"meta": meta}, **entries}


def entry(shape: list[int], offsets: list[int], dtype: str = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


# ---- it arrives as it was sent --------------------------------------------------------------------------------------


@given(PAYLOADS)
def test_a_payload_survives_the_wire(sent: Payload) -> None:
    arrived = Payload.decode(sent.encode())
    assert arrived.tensors.keys() == sent.tensors.keys()
    for name, tensor in sent.tensors.items():
        assert arrived.tensors[name].dtype == tensor.dtype
        assert arrived.tensors[name].shape == tensor.shape
        assert torch.equal(arrived.tensors[name], tensor)
    assert dict(arrived.meta) == dict(sent.meta)
    assert [type(arrived.meta[name]) for name in sent.meta] == [type(value) for value in sent.meta.values()]
    arrived.require(sent.tensors)


@given(PAYLOADS)
def test_bytes_are_measured_as_encoded(payload: Payload) -> None:
    assert payload.tensor_bytes == sum(t.numel() * t.element_size() for t in payload.tensors.values())
    if payload.tensors or payload.meta:
        assert payload.encoded_bytes == len(payload.encode())


def test_nothing_at_all_is_not_sent() -> None:
    assert Payload().encoded_bytes == Payload().tensor_bytes == 0
    assert Payload.decode(Payload().encode()) == Payload()
    assert Payload({}, {"samples": 3}).encoded_bytes == len(Payload({}, {"samples": 3}).encode()) > 0


def test_bytes_are_those_of_this_metadata_and_these_names() -> None:
    sizes = set()
    for name, samples in (("w", 1), ("w", 10**9), ("weights of a layer", 1)):
        payload = Payload({name: torch.zeros(3)}, {"samples": samples})
        assert payload.encoded_bytes == len(payload.encode())
        sizes.add(len(payload.encode()))
    assert len(sizes) > 1


def test_the_extractor_of_the_paper_is_1772_bytes_of_numbers() -> None:
    net = Networks({"extractor": same_size_extractor((3, 32, 32))})
    payload = Payload(net.travelling("extractor"), {"samples": 400})
    assert payload.tensor_bytes == 443 * 4 == 1772
    assert 1772 < payload.encoded_bytes == len(payload.encode()) < 2500


def test_what_is_sent_may_need_gradients_or_share_memory() -> None:
    weight = nn.Parameter(torch.arange(6.0).reshape(2, 3))
    views = {"row": weight[1], "turned": weight.T, "wide": weight[:1].expand(4, 3)}
    sent = Payload({"all": weight, "again": weight, **views})
    arrived = Payload.decode(sent.encode())
    for name, tensor in sent.tensors.items():
        assert torch.equal(arrived.tensors[name], tensor)
        assert not arrived.tensors[name].requires_grad
    assert sent.encoded_bytes == len(sent.encode())


def test_what_arrived_is_memory_of_its_own() -> None:
    weight = torch.zeros(3)
    arrived = Payload.decode(Payload({"w": weight}).encode())
    arrived.tensors["w"].add_(1)
    assert weight.tolist() == [0, 0, 0]


# ---- nothing else is let in -----------------------------------------------------------------------------------------


def test_every_truncation_is_refused() -> None:
    data = Payload({"a": torch.ones(2), "b": torch.zeros(1, dtype=torch.int64)}, {"samples": 7}).encode()
    for length in range(len(data)):
        with pytest.raises(PayloadError, match="damaged"):
            Payload.decode(data[:length])
    with pytest.raises(PayloadError, match="checksum"):
        Payload.decode(data + b"\0")


def test_every_flipped_bit_is_noticed() -> None:
    data = Payload({"a": torch.ones(2)}, {"samples": 7}).encode()
    for position in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            with pytest.raises(PayloadError):
                Payload.decode(bytes(damaged))


def mutated(content: bytes, chance: random.Random) -> bytes:
    """A file with some bytes replaced, put in, taken out, doubled or exchanged."""
    damaged = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        at, to = sorted(chance.randrange(len(damaged)) for _ in range(2))
        match chance.randrange(5):
            case 0:
                damaged[at] = chance.randrange(256)
            case 1:
                damaged[at:at] = chance.choice([b"[", b"{", b'"', b",", b"\xff", b"9" * 20, b"null", b"\\u0041"])
            case 2:
                del damaged[at : at + chance.randint(1, 4)]
            case 3:
                damaged[to:to] = damaged[at:to][:64]
            case _:
                damaged[at], damaged[to] = damaged[to], damaged[at]
        damaged = damaged or bytearray(b"{")
    return bytes(damaged)


def test_a_damaged_file_under_a_right_checksum_is_an_error_or_a_payload_but_never_a_crash() -> None:
    tensors = {"a": torch.ones(2), "b": torch.tensor([True]), "c": torch.zeros(1, 3, dtype=torch.int32)}
    content = Payload(tensors, {"samples": 7, "when": "now"}).encode()[12:]
    chance, refused = random.Random(5), 0  # noqa: S311
    for _ in range(1500):
        try:
            arrived = Payload.decode(sealed(mutated(content, chance)))
        except PayloadError:
            refused += 1
            continue
        Payload.decode(arrived.encode())  # whatever it is now, it is one
    assert 750 < refused < 1500


FOREIGN: dict[str, bytes] = {
    "text": b"Hello, this is no payload at all.",
    "zeros": bytes(100),
    "negative length": b"\xff" * 100,
    "header that is no JSON": frame(b"not json"),
    "header that is no UTF-8": frame(b'{"\xff": 1}'),
    "header that is a list": frame([1, 2]),
    "header of lists in lists": frame(b"[" * 100_000),
    "metadata of lists in lists": frame(labelled("[" * 100_000)),
    "metadata that is a list": frame(labelled("[1]")),
    "metadata that is a number": frame(labelled(3)),
    "labels that are a list": frame({"__metadata__": ["potluck"]}),
    "tensor beyond the end": frame(labelled(a=entry([2], [0, 8])), b"1234"),
    "tensors one over the other": frame(labelled(a=entry([1], [0, 4]), b=entry([1], [0, 4])), b"1234"),
    "bytes of no tensor": frame(labelled(a=entry([1], [0, 4])), b"12345678"),
    "shape below zero": frame(labelled(a=entry([-1], [0, 4])), b"1234"),
    "shape beyond all numbers": frame(labelled(a=entry([2**63, 2], [0, 0]))),
    "unknown type": frame(labelled(a=entry([1], [0, 4], "Q99")), b"1234"),
    "type that PyTorch has not": frame(labelled(a=entry([2], [0, 1], "F4")), b"1"),
    "entry that is a number": frame(labelled(a=3)),
    "type that no payload has": frame(labelled(a=entry([1], [0, 1], "F8_E4M3")), b"1"),
    "more dimensions than PyTorch computes with": frame(labelled(a=entry([1] * 65, [0, 4])), b"1234"),
    "a name twice": frame(
        b'{"__metadata__":{"meta":"{}"},"a":%b,"a":%b}' % ((json.dumps(entry([0], [0, 0])).encode(),) * 2)
    ),
    "a name twice, spelt otherwise": frame(
        b'{"__metadata__":{"meta":"{}"},"a":%b,"\\u0061":%b}' % ((json.dumps(entry([0], [0, 0])).encode(),) * 2)
    ),
    "a name twice in the metadata": frame(labelled('{"samples":1,"samples":2}')),
    "no metadata at all": frame({"a": entry([0], [0, 0])}),
    "labels without metadata": frame({"__metadata__": {}}),
    "labels beside the metadata": frame({"__metadata__": {"meta": "{}", "more": "1"}}),
    "metadata with half of a surrogate pair": frame(b'{"__metadata__":{"meta":"{\\"a\\":\\"\\ud800\\"}"}}'),
    "UTF-16": frame('{"__metadata__":{"meta":"{}"}}'.encode("utf-16")),
    "truth values of 2": frame(labelled(a=entry([2], [0, 2], "BOOL")), b"\x01\x02"),
    "a number of five thousand digits": frame(labelled('{"a":%s}' % ("9" * 5000))),
    "a number beyond 64 bits": frame(labelled('{"a":9223372036854775808}')),
}


@pytest.mark.parametrize("data", FOREIGN.values(), ids=FOREIGN.keys())
def test_what_is_no_payload_is_refused(data: bytes) -> None:
    with pytest.raises(PayloadError):
        Payload.decode(data)


def test_version_1_is_refused_by_name() -> None:
    for labels in ({"format": "potluck-payload-1", "meta": "{}"}, {"meta": "{}", "format": "potluck-payload-1"}):
        data = version_1({"__metadata__": labels, "a": entry([1], [0, 4])}, b"1234")
        with pytest.raises(PayloadError, match=r"a payload of version 1 .* this is version 2: run the same version"):
            Payload.decode(data)


def test_a_later_version_is_refused_by_name() -> None:
    data = Payload({"a": torch.ones(1)}).encode()
    with pytest.raises(PayloadError, match="version 3"):
        Payload.decode(data[:7] + b"\x03" + data[8:])


def test_a_safetensors_file_of_somebody_else_is_refused() -> None:
    for labels in (None, {"format": "pt"}):
        data = safetensors.torch.save({"w": torch.ones(2)}, labels)
        with pytest.raises(PayloadError, match="no payload at all"):
            Payload.decode(data)
        with pytest.raises(PayloadError, match="no metadata"):
            Payload.decode(sealed(data))


def test_what_follows_the_frame_is_a_safetensors_file() -> None:
    data = Payload({"w": torch.ones(2)}, {"samples": 3}).encode()
    assert torch.equal(safetensors.torch.load(data[12:])["w"], torch.ones(2))


# ---- bounds, which hold before anything is parsed -------------------------------------------------------------------


def empty_tensors(count: int) -> dict[str, object]:
    return labelled(**{f"{number:x}": entry([0], [0, 0]) for number in range(count)})


def test_a_header_of_many_megabytes_is_refused_unread() -> None:
    header = json.dumps(labelled()).encode()
    with pytest.raises(PayloadError, match="header is too long"):
        Payload.decode(frame(header + b" " * (1 << 22)))
    assert Payload.decode(frame(header + b" " * 64)) == Payload()


# With how many pieces of JSON are parsed until each is refused.
BOMBS: dict[str, tuple[Callable[[], object], str, int]] = {
    "tensors": (lambda: empty_tensors(MOST_TENSORS + 1), "nests tables and lists, or has more", 0),
    "entries that are no tensors": (lambda: labelled(**dict.fromkeys(map(str, range(20_000)), 1)), "16,384", 1),
    "lists": (lambda: b'{"a":[' + b"[]," * 400_000 + b"[]]}", "nests tables and lists, or has more", 0),
    "lists in the metadata": (lambda: labelled("[" + "[]," * 20_000 + "[]]"), "metadata nests", 1),
    "lists in lists": (lambda: b"[" * 4_000_000, "nests tables and lists", 0),
    "tables in tables": (lambda: {"__metadata__": {"meta": "{}", "a": {"b": {"c": 1}}}}, "nests tables and lists", 0),
    "a table in the metadata": (lambda: labelled('{"a":{"b":1}}'), "metadata nests", 1),
    "long metadata": (lambda: labelled(json.dumps(dict.fromkeys(map(str, range(20_000)), 1))), "65,536", 1),
    "text that never ends": (lambda: b"[{" * 4 + b'"' + b'a\\"' * 1_000_000, "nests tables and lists", 0),
    "quotes": (lambda: b"[{" * 4 + b'"' * 4_000_000, "nests tables and lists", 0),
}


@pytest.mark.parametrize(("header", "said", "parses"), BOMBS.values(), ids=BOMBS.keys())
def test_what_would_take_long_to_parse_is_not_parsed(
    header: Callable[[], object], said: str, parses: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = frame(header())
    loads = Mock(wraps=json.loads)
    monkeypatch.setattr(json, "loads", loads)
    with pytest.raises(PayloadError, match=said):
        Payload.decode(data)
    assert loads.call_count == parses


def test_as_many_tensors_as_are_allowed_arrive() -> None:
    assert len(Payload.decode(frame(empty_tensors(MOST_TENSORS))).tensors) == MOST_TENSORS


def test_too_much_is_not_sent_either() -> None:
    with pytest.raises(PayloadError, match="16,385 tensors are more"):
        Payload(dict.fromkeys(map(str, range(MOST_TENSORS + 1)), torch.zeros(0)))
    with pytest.raises(PayloadError, match="metadata take more than 65,536 bytes"):
        Payload({}, {"note": "x" * MOST_META})
    with pytest.raises(PayloadError, match="'n' is a number beyond 64 bits"):
        Payload({}, {"n": 10**400})
    with pytest.raises(PayloadError, match="give shorter ones"):
        Payload({"x" * (1 << 22): torch.zeros(0)}).encode()


class Trap:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.write_text, (self.path, "executed")


def test_a_pickle_is_refused_and_not_executed(tmp_path: Path) -> None:
    path = tmp_path / "trap"
    pickled = pickle.dumps(Trap(path))
    torch.save({"w": torch.ones(2)}, tmp_path / "saved")
    for data in (pickled, frame(pickled), (tmp_path / "saved").read_bytes()):
        with pytest.raises(PayloadError):
            Payload.decode(data)
    assert not path.exists()


NOT_PLAIN = ['{"a": NaN}', '{"a": Infinity}', '{"a": null}', '{"a": [1]}', '{"a": {"b": 1}}', "3", '"a"', "[]", ""]


@pytest.mark.parametrize("meta", NOT_PLAIN)
def test_metadata_that_arrives_must_be_plain(meta: str) -> None:
    with pytest.raises(PayloadError, match="metadata"):
        Payload.decode(frame(labelled(meta)))


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), None, [1], {"b": 1}, b"bytes", torch.ones(1)], ids=lambda v: type(v).__name__
)
def test_metadata_that_is_sent_must_be_plain(value: Any) -> None:
    with pytest.raises(PayloadError, match="'speed'"):
        Payload({}, {"speed": value})


def test_names_must_be_able_to_travel() -> None:
    wrong_key: Any = {1: 2}
    with pytest.raises(PayloadError, match="1"):
        Payload({}, wrong_key)
    for name in ("__metadata__", "half a \ud800 pair"):
        with pytest.raises(PayloadError, match="cannot be called"):
            Payload({name: torch.ones(1)})


NOT_DENSE: dict[str, tuple[Callable[[], Tensor], str]] = {
    "sparse": (lambda: torch.eye(2).to_sparse(), "of the layout sparse_coo"),
    "sparse rows": (lambda: torch.eye(2).to_sparse_csr(), "of the layout sparse_csr"),
    "meta": (lambda: torch.ones(2, device="meta"), "on the meta device"),
    "float8": (lambda: torch.ones(2).to(torch.float8_e4m3fn), "of type torch.float8_e4m3fn"),
    "complex": (lambda: torch.ones(2, dtype=torch.complex64), "of type torch.complex64"),
    "quantised": (lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), "of type torch.qint8"),
    "nested": (lambda: torch.nested.nested_tensor([torch.ones(1), torch.ones(2)]), "nested"),
    "65 dimensions": (lambda: torch.ones([1] * 65), "of 65 dimensions"),
    "array": (lambda: cast(Tensor, np.ones(2)), "a ndarray"),
    "list": (lambda: cast(Tensor, [1.0]), "a list"),
    "lazy": (lambda: nn.LazyLinear(2).weight, "a UninitializedParameter"),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("make", "said"), NOT_DENSE.values(), ids=NOT_DENSE.keys())
def test_what_is_no_dense_array_of_numbers_is_refused_before_it_is_computed_with(
    make: Callable[[], Tensor], said: str
) -> None:
    payload = Payload({"w": make()})
    like = {"w": torch.ones(2)}
    for refuse in (payload.encode, payload.copied, payload.require_finite, lambda: payload.require(like)):
        with pytest.raises(PayloadError, match=f"tensor 'w' is {said}"):
            refuse()


# ---- require --------------------------------------------------------------------------------------------------------

LIKE = {"body.w": torch.zeros(2, 3), "body.n": torch.zeros((), dtype=torch.int64)}


def arrived(**changes: Tensor | None) -> Payload:
    held: dict[str, Tensor | None] = {"body.w": torch.ones(2, 3), "body.n": torch.tensor(5)}
    held |= {name.replace("_", "."): tensor for name, tensor in changes.items()}
    return Payload({name: tensor for name, tensor in held.items() if tensor is not None})


def test_what_is_as_expected_passes() -> None:
    arrived().require(LIKE)
    Payload().require({})


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (arrived(body_w=None), ["'body.w'", "missing"]),
        (arrived(body_x=torch.ones(1)), ["'body.x'", "not expected"]),
        (arrived(body_w=torch.ones(3, 2)), ["'body.w'", r"\(3, 2\)", r"\(2, 3\)"]),
        (arrived(body_w=torch.ones(6)), ["'body.w'", "shape"]),
        (arrived(body_n=torch.ones(1, dtype=torch.int64)), ["'body.n'", "shape"]),
        (arrived(body_w=torch.ones(2, 3).double()), ["'body.w'", "float64", "float32"]),
        (arrived(body_n=torch.tensor(5.0)), ["'body.n'", "type"]),
        (arrived(body_w=torch.full((2, 3), float("nan"))), ["'body.w'", "not finite"]),
        (arrived(body_w=torch.tensor([[0, 0, 0], [0, 0, float("inf")]])), ["'body.w'", "not finite"]),
        (arrived(body_w=torch.tensor([[0, 0, 0], [0, 0, -float("inf")]])), ["'body.w'", "not finite"]),
    ],
)
def test_anything_else_is_refused_by_name(payload: Payload, words: list[str]) -> None:
    for sent in (payload, Payload.decode(payload.encode())):
        for word in words:
            with pytest.raises(PayloadError, match=word):
                sent.require(LIKE)


def test_numbers_that_are_not_finite_are_refused_by_name() -> None:
    Payload({"n": torch.tensor(3), "w": torch.ones(2)}).require_finite()
    for value in (float("nan"), float("inf"), -float("inf")):
        with pytest.raises(PayloadError, match="'w' holds numbers that are not finite"):
            Payload({"a": torch.ones(2), "w": torch.tensor([0, value])}).require_finite()


def test_of_several_missing_tensors_the_first_by_name_is_told() -> None:
    like = {name: torch.zeros(1) for name in "zyxwvutsrqponm"}
    with pytest.raises(PayloadError, match="'m' is missing"):
        Payload().require(like)


def test_check_tensor_takes_what_fits() -> None:
    check_tensor("w", torch.ones(2), (2,), torch.float32)
    check_tensor("n", torch.ones(2, dtype=torch.bool), (2,), torch.bool)
    with pytest.raises(PayloadError, match="'w'"):
        check_tensor("w", torch.ones(2), (1, 2), torch.float32)
