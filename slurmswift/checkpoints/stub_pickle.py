"""Reads a pickle without importing, calling or building anything that it names.

Every global becomes an inert Stub, and what the pickle would make of it is another Stub with the
arguments and the state that it would have got. Work and memory are bounded by the number of
opcodes: none of them is worth more than one small object, and lengths are checked against what is
there before anything is allocated. Hashes are taken of plain keys alone, since the hash of nested
tuples takes time without bound.
"""

from __future__ import annotations

import struct
from typing import Callable, Dict, Iterator, List, Optional, Tuple

from slurmswift.checkpoints.contents import DamagedError

MAX_OPCODES = 4_000_000  # about four seconds, and a few hundred megabytes at worst
_MAX_DIGITS = 100
_MAX_LONG = 64  # bytes
_MAX_KEY = 1 << 60  # greater numbers can be made to hash alike

# What a mangled pickle runs into: a stack too short, a wrong kind of operand, bytes cut off.
_MANGLED = (IndexError, KeyError, TypeError, ValueError, AttributeError, OverflowError)


class TooLongError(DamagedError):
    """It takes more steps than any honest one: more of its bytes would not help."""


class Stub:
    """What a pickle names or would have made: nothing of it exists."""

    __slots__ = ("args", "items", "name", "pairs", "state")

    def __init__(self, name: str, args: Tuple[object, ...] = ()) -> None:
        self.name = name  # "module.qualname", "persistent" for a storage that lies elsewhere
        self.args = args
        self.state: object = None
        self.items: Optional[List[object]] = None  # appended to it, were it a list
        self.pairs: Optional[List[Tuple[object, object]]] = None  # set in it, were it a mapping

    def __repr__(self) -> str:
        return f"Stub({self.name!r})"

    def get(self, name: str) -> object:
        """Return an attribute by its state, None where it has none of that name."""
        state = self.state
        # Objects with __slots__ have a pair: their dict, and their slots.
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict) and name in part:
                return part[name]
        return None


class Opaque:
    """A key of a dict that is not hashed for what it is."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


def pairs_of(value: object) -> Iterator[Tuple[object, object]]:
    """Return the keys and values of a dict, or of a Stub that would have been a mapping."""
    if isinstance(value, dict):
        return iter(value.items())
    if isinstance(value, Stub) and value.pairs is not None:
        return iter(value.pairs)
    return iter(())


def item_of(value: object, key: str) -> object:
    """Return one value of a dict, or of a Stub that would have been a mapping; None without."""
    if isinstance(value, dict):
        found: object = value.get(key)
        return found
    return next((item for name, item in pairs_of(value) if name == key), None)


def load(data: bytes, *, most_opcodes: int = MAX_OPCODES) -> object:
    """Return what a pickle of protocol 0 to 5 holds, or raise DamagedError."""
    machine = _Machine(data)
    try:
        return machine.run(most_opcodes)
    except struct.error as error:
        raise DamagedError("cut: a pickle without its end") from error
    except _MANGLED as error:
        raise DamagedError(f"damaged: not a pickle at byte {machine.position}") from error


class _Machine:
    """The pickle machine, without the part that calls."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0
        self.stack: List[object] = []
        self.marks: List[List[object]] = []
        self.memo: Dict[int, object] = {}

    def run(self, most_opcodes: int) -> object:
        for _ in range(most_opcodes):
            code = self.data[self.position]
            self.position += 1
            if code == _STOP:
                return self.stack.pop()
            OPCODES[code](self)
        raise TooLongError(f"a pickle of more than {most_opcodes} opcodes")

    def take(self, length: int) -> bytes:
        end = self.position + length
        if length < 0 or end > len(self.data):
            raise DamagedError("cut: a pickle without its end")
        part = self.data[self.position : end]
        self.position = end
        return part

    def number(self, form: struct.Struct) -> int:
        (value,) = form.unpack_from(self.data, self.position)
        self.position += form.size
        return int(value)

    def line(self) -> str:
        end = self.data.index(b"\n", self.position)
        text = self.data[self.position : end]
        self.position = end + 1
        return text.decode("utf-8", "replace")

    def since_mark(self) -> List[object]:
        items = self.stack
        self.stack = self.marks.pop()
        return items

    def global_named(self, module: object, name: object) -> None:
        if not isinstance(module, str) or not isinstance(name, str):
            raise TypeError
        self.stack.append(Stub(f"{module}.{name}"))

    def make(self, callee: object, args: object) -> None:
        """Would call: notes what with."""
        if not isinstance(callee, Stub) or not isinstance(args, tuple):
            raise TypeError
        self.stack.append(Stub(callee.name, args))

    def append_all(self, items: List[object]) -> None:
        target = self.stack[-1]
        if isinstance(target, Stub):
            target.items = target.items or []
            target.items.extend(items)
        elif isinstance(target, list):
            target.extend(items)
        else:
            raise TypeError

    def set_all(self, items: List[object]) -> None:
        target = self.stack[-1]
        pairs = zip(items[0::2], items[1::2])
        if isinstance(target, Stub):
            target.pairs = target.pairs or []
            target.pairs.extend(pairs)
        elif isinstance(target, dict):
            for key, value in pairs:
                target[_as_key(key)] = value
        else:
            raise TypeError

    def build(self) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        if not isinstance(target, Stub):
            raise TypeError
        target.state = state


def _as_key(key: object) -> object:
    plain = key is None or isinstance(key, (str, bytes, Stub))
    return key if plain or (isinstance(key, int) and abs(key) < _MAX_KEY) else Opaque(key)


_U1, _U2, _U4, _U8 = (struct.Struct(form) for form in ("<B", "<H", "<I", "<Q"))
_I4, _BIG_FLOAT = struct.Struct("<i"), struct.Struct(">d")
_STOP = ord(".")

Operation = Callable[[_Machine], None]


def _push(value: Callable[[_Machine], object]) -> Operation:
    def push(m: _Machine) -> None:
        item = value(m)  # first: it may take the stack off down to a mark
        m.stack.append(item)

    return push


def _bytes(form: struct.Struct) -> Operation:
    return _push(lambda m: m.take(m.number(form)))


def _text(form: struct.Struct) -> Operation:
    return _push(lambda m: m.take(m.number(form)).decode("utf-8", "surrogatepass"))


def _long(form: struct.Struct) -> Operation:
    def value(m: _Machine) -> object:
        data = m.take(m.number(form))
        # A number of a megabyte means nothing to anybody who reads a checkpoint.
        return (
            Stub("builtins.int")
            if len(data) > _MAX_LONG
            else int.from_bytes(data, "little", signed=True)
        )

    return _push(value)


def _whole(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError
    # Protocol 0 writes truth values as 00 and 01.
    return {"00": False, "01": True}.get(text) or int(text.rstrip("L") or "0")


def _get(number: Callable[[_Machine], int]) -> Operation:
    return _push(lambda m: m.memo[number(m)])


def _put(number: Callable[[_Machine], int]) -> Operation:
    def put(m: _Machine) -> None:
        m.memo[number(m)] = m.stack[-1]

    return put


def _tuple(length: int) -> Operation:
    def make(m: _Machine) -> None:
        if len(m.stack) < length:
            raise IndexError
        m.stack[-length:] = [tuple(m.stack[-length:])]

    return make


def _mark(m: _Machine) -> None:
    m.marks.append(m.stack)
    m.stack = []


def _pop(m: _Machine) -> None:
    if m.stack:
        m.stack.pop()
    else:
        m.since_mark()


def _dict(m: _Machine) -> None:
    items = m.since_mark()
    m.stack.append({})
    m.set_all(items)


def _reduce(m: _Machine) -> None:
    args = m.stack.pop()
    m.make(m.stack.pop(), args)


def _object(m: _Machine) -> None:
    kind, *args = m.since_mark()
    m.make(kind, tuple(args))


def _instance(m: _Machine) -> None:
    name = f"{m.line()}.{m.line()}"
    m.make(Stub(name), tuple(m.since_mark()))


def _new_with_keywords(m: _Machine) -> None:
    m.stack.pop()
    _reduce(m)


def _stack_global(m: _Machine) -> None:
    name = m.stack.pop()
    m.global_named(m.stack.pop(), name)


def _append(m: _Machine) -> None:
    item = m.stack.pop()
    m.append_all([item])


def _set_item(m: _Machine) -> None:
    value, key = m.stack.pop(), m.stack.pop()
    m.set_all([key, value])


def _persistent(m: _Machine) -> None:
    m.stack.append(Stub("persistent", (m.stack.pop(),)))


def _skip(form: struct.Struct) -> Operation:
    return lambda m: (m.number(form), None)[1]


# By the letters of pickletools; what is not here is no pickle, or one that needs more than a file.
OPCODES: Dict[int, Operation] = {
    code[0]: operation
    for code, operation in (
        (b"(", _mark), (b"0", _pop), (b"1", lambda m: (m.since_mark(), None)[1]),
        (b"2", _push(lambda m: m.stack[-1])), (b"N", _push(lambda _m: None)),
        (b"\x88", _push(lambda _m: True)), (b"\x89", _push(lambda _m: False)),
        (b"I", _push(lambda m: _whole(m.line()))), (b"L", _push(lambda m: _whole(m.line()))),
        (b"J", _push(lambda m: m.number(_I4))), (b"K", _push(lambda m: m.number(_U1))),
        (b"M", _push(lambda m: m.number(_U2))), (b"\x8a", _long(_U1)), (b"\x8b", _long(_I4)),
        (b"F", _push(lambda m: float(m.line()[:_MAX_DIGITS]))),
        (b"G", _push(lambda m: _BIG_FLOAT.unpack(m.take(8))[0])),
        (b"S", _push(lambda m: m.line().strip("'\""))), (b"V", _push(lambda m: m.line())),
        (b"T", _bytes(_I4)), (b"U", _bytes(_U1)), (b"B", _bytes(_U4)), (b"C", _bytes(_U1)),
        (b"\x8e", _bytes(_U8)), (b"\x96", _bytes(_U8)),
        (b"X", _text(_U4)), (b"\x8c", _text(_U1)), (b"\x8d", _text(_U8)),
        (b"]", _push(lambda _m: [])), (b"l", _push(_Machine.since_mark)),
        (b"\x8f", _push(lambda _m: [])), (b"\x91", _push(_Machine.since_mark)),
        (b"}", _push(lambda _m: {})), (b"d", _dict),
        (b")", _push(lambda _m: ())), (b"t", _push(lambda m: tuple(m.since_mark()))),
        (b"\x85", _tuple(1)), (b"\x86", _tuple(2)), (b"\x87", _tuple(3)),
        (b"a", _append), (b"e", lambda m: m.append_all(m.since_mark())),
        (b"\x90", lambda m: m.append_all(m.since_mark())),
        (b"s", _set_item), (b"u", lambda m: m.set_all(m.since_mark())),
        (b"c", lambda m: m.global_named(m.line(), m.line())), (b"\x93", _stack_global),
        (b"R", _reduce), (b"\x81", _reduce), (b"\x92", _new_with_keywords),
        (b"o", _object), (b"i", _instance), (b"b", _Machine.build),
        (b"Q", _persistent), (b"P", _push(lambda m: Stub("persistent", (m.line(),)))),
        (b"g", _get(lambda m: _whole(m.line()))), (b"h", _get(lambda m: m.number(_U1))),
        (b"j", _get(lambda m: m.number(_U4))),
        (b"p", _put(lambda m: _whole(m.line()))), (b"q", _put(lambda m: m.number(_U1))),
        (b"r", _put(lambda m: m.number(_U4))), (b"\x94", _put(lambda m: len(m.memo))),
        (b"\x80", _skip(_U1)), (b"\x95", _skip(_U8)),
        (b"\x97", None), (b"\x98", None), (b"\x82", None), (b"\x83", None), (b"\x84", None),
    )
    if operation is not None
}  # fmt: skip
