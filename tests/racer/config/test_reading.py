"""What a configuration file can say, and what it cannot: file, line, key, reason, and the nearest key that can."""

from __future__ import annotations

import math
import pickle
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer import config
from racer.abc import Target
from racer.config._reading import MAX_ENTRANTS, examine
from racer.errors import ConfigError
from racer.testing import ScriptedTransport
from tests.racer import plugins
from tests.racer.plugins import install, point

if TYPE_CHECKING:
    from pathlib import Path

    from racer.abc import Guest, MakeContext

DIRECT = '[[entrant]]\ntransport = "direct"\n'
PICKY = '[[entrant]]\ntransport = "picky"\n'

VARIABLES = {
    "SECRET": "hunter2-and-more",
    "QUOTED": 'it\'s a "secret"\\n',
    "EMPTY": "",
    "RUINED": "a\udcff",
    "KIND": "direct",
}


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "direct", "soar", point("picky", f"{__name__}:make_picky"))
    for name in ("NOWHERE", *VARIABLES):
        monkeypatch.delenv(name, raising=False)
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)


class Picky(ScriptedTransport):
    """A guest that minds everything, one thing at a time."""

    def __init__(self, name: str, *, domain: str, port: int = 53, quiet: bool = False) -> None:
        if not domain.endswith(".example"):
            msg = f"domain must end in '.example', not {domain!r}"
            raise ConfigError(msg)
        if not isinstance(port, int):
            msg = f"{port!r:.10} is no number at all"  # which names no option
            raise ConfigError(msg)
        if quiet and port == 53:
            msg = "quiet=True: not together with port 53"
            raise ConfigError(msg)
        super().__init__(name)


def make_picky(context: MakeContext) -> Guest:
    context.refuse_unknown("domain", "port", "quiet")
    if "domain" not in context.options:
        msg = "domain: missing"
        raise ConfigError(msg)
    return Picky(context.name, **context.options)


def write(folder: Path, text: str | bytes) -> Path:
    file = folder / "racer.toml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def problems(folder: Path, text: str | bytes) -> list[str]:
    """Return everything that is wrong with a file, without its folder."""
    file = write(folder, text)
    with pytest.raises(ConfigError) as caught:
        config.read(file)
    told = caught.value.problems
    assert str(caught.value) == "\n".join(told)
    assert all(one.startswith(str(file)) and len(one) <= 1000 for one in told)
    return [one.removeprefix(f"{folder}/") for one in told]


# --- what a file can say ----------------------------------------------------------------------


def test_a_whole_configuration(tmp_path: Path) -> None:
    text = """
        timeout = 60
        redact = true

        [[entrant]]
        transport = "direct"

        [[entrant]]
        transport = "soar"
        name = "last-resort"
        start_delay = 8
        tier = 1
        [entrant.options]
        after = 0.25

        [memory]
        enabled = true
        ttl = 3600
        file = "memory.json"

        [proxy]
        listen = "[::]:0"
        [proxy.users]
        alice = "${SECRET}"
        """
    file = write(tmp_path, text)
    found = config.read(file)
    assert found == config.Configuration(
        entrants=(
            config.EntrantSettings(transport="direct"),
            config.EntrantSettings(
                transport="soar",
                name="last-resort",
                start_delay=8,
                tier=1,
                options={"after": 0.25},
            ),
        ),
        timeout=60,
        redact=True,
        memory=config.MemorySettings(enabled=True, ttl=3600, file="memory.json"),
        proxy=config.ProxySettings(listen="[::]:0", users={"alice": "hunter2-and-more"}),
    )
    assert (found.proxy.host, found.proxy.port) == ("::", 0)
    assert found.file == file
    dialer = config.load(str(file))
    assert repr(dialer) == "<Dialer of direct, last-resort>"
    assert [(e.name, e.start_delay, e.tier) for e in dialer.status().entrants] == [
        ("direct", 0.0, 0),
        ("last-resort", 8, 1),
    ]
    assert dialer._timeout == 60
    assert dialer._telemetry.redact is True


def test_what_is_left_out_has_its_default(tmp_path: Path) -> None:
    found = config.read(write(tmp_path, DIRECT))
    assert (found.timeout, found.redact) == (None, False)
    assert found.memory == config.MemorySettings(enabled=None, ttl=None, file=None)
    assert (found.proxy.host, found.proxy.port, found.proxy.users) == ("127.0.0.1", 1080, {})


@pytest.mark.parametrize(
    "text",
    [
        b"\xef\xbb\xbf" + DIRECT.encode(),
        DIRECT.replace("\n", "\r\n"),
        DIRECT.rstrip("\n"),
        f"{DIRECT}# the end",
    ],
    ids=["byte order mark", "CRLF", "no last line break", "comment at the end"],
)
def test_how_editors_leave_files(tmp_path: Path, text: str | bytes) -> None:
    assert [one.name for one in config.read(write(tmp_path, text)).entrants] == ["direct"]


def test_the_guest_that_was_made_to_check_the_options_is_the_first_dialers(tmp_path: Path) -> None:
    found = config.read(write(tmp_path, DIRECT))
    (checked,) = plugins.made
    first, second = found.dialer(), found.dialer()
    target = Target.parse("192.0.2.1", 80)
    assert first.eligible(target)["direct"] is checked
    assert second.eligible(target)["direct"] is plugins.made[1]
    assert len(plugins.made) == 2


def test_dates_and_other_values_reach_the_guest_as_they_are(tmp_path: Path) -> None:
    values = "[1979-05-27, 0xff, 1_000, inf, {a = {b = true}}]"
    (entrant,) = config.read(write(tmp_path, f"{DIRECT}options.ports = {values}")).entrants
    assert [type(each).__name__ for each in entrant.options["ports"]] == [
        "date",
        "int",
        "int",
        "float",
        "dict",
    ]


# --- what it cannot ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", [": entrant: at least one [[entrant]] table is needed, with a transport"]),
        ("\nentrant = 5", [":2: entrant: at least one [[entrant]] table is needed, with a transport"]),
        ("entrant = []", [":1: entrant: at least one [[entrant]] table is needed, with a transport"]),
        (
            "[entrant]\ntransport = 'direct'",
            [
                ":1: entrant: at least one [[entrant]] table is needed, with a transport; it is written with two brackets"
            ],
        ),
        ("entrant = [\n1]", [":2: entrant 1: must be a table, not 1"]),
        (f"timout = 5\n{DIRECT}", [":1: unknown key 'timout'; did you mean 'timeout'?"]),
        (f"[[entrants]]\n{DIRECT}", [":1: unknown key 'entrants'; did you mean 'entrant'?"]),
        (f"{DIRECT}[prxy]", [":3: unknown key 'prxy'; did you mean 'proxy'?"]),
        (
            f"x = 5\n{DIRECT}",
            [":1: unknown key 'x'; known: entrant, memory, proxy, redact, timeout"],
        ),
        (f"timeout = '5'\n{DIRECT}", [":1: timeout: must be a number of seconds, not '5'"]),
        (f"timeout = true\n{DIRECT}", [":1: timeout: must be a number of seconds, not true"]),
        (f"timeout = [5]\n{DIRECT}", [":1: timeout: must be a number of seconds, not a list"]),
        *[
            (
                f"timeout = {value}\n{DIRECT}",
                [f":1: timeout: must be a finite, positive number of seconds, not {value}"],
            )
            for value in ("0", "nan", "inf", "-1.5")
        ],
        (f"redact = 1\n{DIRECT}", [":1: redact: must be true or false, not 1"]),
        (f"redact = 'yes'\n{DIRECT}", [":1: redact: must be true or false, not 'yes'"]),
        (
            "[[entrant]]",
            [
                ":1: entrant 1: transport: missing; it names an installed transport, such as 'direct'"
            ],
        ),
        (
            f"{DIRECT}[[entrant]]\ntransport = 5",
            [":4: entrant 2: transport: must be the name of a transport, not 5"],
        ),
        (
            f"{DIRECT}stat_delay = 5",
            [
                ":3: entrant 1 'direct': unknown key 'stat_delay'; did you mean 'start_delay'?; the transport's own options go under [entrant.options]"
            ],
        ),
        (f"{DIRECT}name = 5", [":3: entrant 1 'direct': name: must be a text, not 5"]),
        *[
            (
                f"{DIRECT}name = {name}",
                [
                    f":3: entrant 1 {shown}: name: must have 1 to 100 characters, all printable, and not only blanks"
                ],
            )
            for name, shown in [("''", "'direct'"), ("' '", "' '"), (r'"a\nb"', r"'a\nb'")]
        ],
        (f"{DIRECT}options = 5", [":3: entrant 1 'direct': options: must be a table, not 5"]),
        (
            f"{DIRECT}start_delay = '8'",
            [":3: entrant 1 'direct': start_delay: must be a number of seconds, not '8'"],
        ),
        (
            f"{DIRECT}start_delay = 0.005",
            [
                ":3: entrant 1 'direct': start_delay: 0.005: a delay is 0 or at least 0.01 s (RFC 8305 §5)"
            ],
        ),
        (
            f"{DIRECT}start_delay = -inf",
            [
                ":3: entrant 1 'direct': start_delay: must be a finite number of seconds, not -inf"
            ],
        ),
        (
            f"{DIRECT}tier = 1.0",
            [":3: entrant 1 'direct': tier: must be a whole number, not 1.0"],
        ),
        (
            f"{DIRECT}tier = -1",
            [":3: entrant 1 'direct': tier: must be a whole number of at least 0, not -1"],
        ),
        (
            f"{DIRECT}tier = 0x{'f' * 5000}",
            [],
        ),
        (
            f"{DIRECT}transport_ = 0x{'f' * 5000}\nname = 0x{'f' * 5000}",
            [
                ":3: entrant 1 'direct': unknown key 'transport_'; did you mean 'transport'?; the transport's own options go under [entrant.options]",
                ":4: entrant 1 'direct': name: must be a text, not so large a number",
            ],
        ),
        (
            f"{DIRECT}\n{DIRECT}",
            [
                ":4: entrant 2 'direct': name: entrant 1 in line 1 is called so already; give each a name of its own"
            ],
        ),
        (
            f"{DIRECT}{PICKY}name = 'direct'\noptions.domain = 'a.example'",
            [
                ":5: entrant 2 'direct': name: entrant 1 in line 1 is called so already; give each a name of its own"
            ],
        ),
        (
            "[[entrant]]\ntransport = 'sor'",
            [
                ":2: entrant 1 'sor': transport: no such transport is installed: 'sor'; did you mean 'soar'?"
            ],
        ),
        (
            f"{DIRECT}\n[memory]\nenable = 5\nttl = 0\nfile = '\\u0000'\nenabled = 'yes'",
            [
                ":5: memory: unknown key 'enable'; did you mean 'enabled'?",
                ":6: memory.ttl: must be a finite, positive number of seconds, not 0",
                ":8: memory.enabled: must be true or false, not 'yes'",
            ],
        ),
        (f'{DIRECT}[memory]\nfile = "a\\u0000"', [":4: memory.file: must be the path of a file: there is a NUL in it"]),
        (f"memory = 5\n{DIRECT}", [":1: memory: must be a table, [memory], not 5"]),
    ],
)  # fmt: skip
def test_each_problem_has_its_file_line_key_and_reason(
    tmp_path: Path, text: str, told: list[str]
) -> None:
    if not told:
        config.read(write(tmp_path, text))
        return
    assert problems(tmp_path, text) == [f"racer.toml{one}" for one in told]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("timeout = = 5", ":1: not TOML: .*"),
        ("a = 1\r\nb = text", ":2: not TOML: .*; a text stands in quotes"),
        ("a = [text]", ":1: not TOML: .*; a text stands in quotes"),
        ("a b", ":1: not TOML: .*[^s]"),
        ("a = 1 b", ":1: not TOML: .*[^s]"),
        (f"{DIRECT}transport = 'again'\n", ":3: not TOML: Cannot overwrite a value .*"),
        ("a = '''\n\n", ":3: not TOML: .*"),
        ("a = [1,\n", ":2: not TOML: .*"),
        ("\nx = 2024-02-30", ":2: not TOML: .*"),
        ("x = 'a\0b'", ":1: not TOML: .*"),
        ("x = " + "[" * 100_000, ": nested deeper than 32 levels"),
        (f"x = {'[' * 40}{']' * 40}", ":1: x: nested deeper than 32 levels"),
        (f"\n{'a.' * 5_000}a = 1", ": a: nested deeper than 32 levels"),
        (f"\n{'a.' * 40}a = 1", ":2: a: nested deeper than 32 levels"),
        ("x = " + "9" * 5_000, ": not TOML: .*digits.*"),
        (DIRECT.encode() + b"\n\n# \xff\xfe", ":5: not TOML: the byte 0xff is not UTF-8"),
        (b"a = '\xed\xa0\x80'", ":1: not TOML: the byte 0xed is not UTF-8"),
        (DIRECT + "#" * (1024 * 1024 - len(DIRECT) + 1), ": larger than 1048576 bytes"),
        (DIRECT * (MAX_ENTRANTS + 1), ":1: entrant: more than 1000"),
    ],
    ids=range(19),
)
def test_what_is_no_toml_and_what_is_too_much(tmp_path: Path, text: str | bytes, told: str) -> None:
    (found,) = problems(tmp_path, text)
    assert re.fullmatch(rf"racer\.toml{told}", found)


def test_a_file_of_just_a_mebibyte_is_read(tmp_path: Path) -> None:
    config.read(write(tmp_path, DIRECT + "#" * (1024 * 1024 - len(DIRECT))))


def test_everything_that_is_wrong_is_told_at_once_in_the_order_of_the_lines(tmp_path: Path) -> None:
    text = """\
[proxy]
listen = "1080"
[[entrant]]
transport = "direct"
tier = "low"
[[entrant]]
transport = "soar"
start_delay = -1
[entrant.options]
aftr = 1
"""
    told = [
        ":2: proxy.listen: must be an address and a port, such as '127.0.0.1:1080', not '1080'",
        ":5: entrant 1 'direct': tier: must be a whole number, not 'low'",
        ":8: entrant 2 'soar': start_delay: -1: a delay is 0 or at least 0.01 s (RFC 8305 §5)",
        ":10: entrant 2 'soar': options: unknown key 'aftr'; did you mean 'after'?",
    ]
    assert problems(tmp_path, text) == [f"racer.toml{one}" for one in told]


def test_of_very_many_problems_the_first_are_told(tmp_path: Path) -> None:
    found = problems(tmp_path, "".join(f"x{n} = 1\n" for n in range(200)))
    assert len(found) == 101
    assert found[-1] == "racer.toml: and more than these 100"


def test_an_error_of_a_file_crosses_a_process_border(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        config.read(write(tmp_path, "a = 1\nb = 1"))
    assert pickle.loads(pickle.dumps(caught.value)).problems == caught.value.problems


@pytest.mark.parametrize(
    ("listen", "users", "reason"),
    [
        ("127.0.0.1", "", "must be an address and a port"),
        ("127.0.0.1:65536", "", "must be an address and a port"),
        ("127.0.0.1:-1", "", "must be an address and a port"),
        ("127.0.0.1:\u0661", "", "must be an address and a port"),
        ("::1:1080", "", "must be an address and a port"),
        ("[127.0.0.1]:1080", "", "must be an address and a port"),
        ("example.com:1080", "", "must be an address and a port"),
        ("0.0.0.0:1080", "", "others than this machine could use the proxy"),
        ("[::]:1080", "", "others than this machine could use the proxy"),
        ("192.0.2.1:1080", "", "others than this machine could use the proxy"),
        ("0.0.0.0:1080", "a = 'b'", ""),
        ("127.0.0.2:1080", "", ""),
        ("[::1]:1080", "", ""),
        ("localhost:0", "", ""),
    ],
)
def test_where_the_proxy_may_listen(tmp_path: Path, listen: str, users: str, reason: str) -> None:
    text = f"{DIRECT}[proxy]\nlisten = '{listen}'\n[proxy.users]\n{users}"
    if not reason:
        assert config.read(write(tmp_path, text)).proxy.listen == listen
        return
    (told,) = problems(tmp_path, text)
    assert told.startswith("racer.toml:4: proxy.listen: ")
    assert reason in told


def test_what_is_wrong_with_users_shows_no_password(tmp_path: Path) -> None:
    text = f"""{DIRECT}[proxy.users]
"al:ice" = "first-password"
bob = ["second-password"]
carl = ""
{"d" * 256} = "third-password"
eve = "{"p" * 256}"
"""
    assert problems(tmp_path, text) == [
        "racer.toml:4: proxy.users.'al:ice': a user's name has 1 to 255 octets and no ':' (RFC 1929, RFC 7617)",
        "racer.toml:5: proxy.users.bob: must be a password, not a list",
        "racer.toml:6: proxy.users.carl: a password has 1 to 255 octets (RFC 1929)",
        f"racer.toml:7: proxy.users.{'d' * 85}...: a user's name has 1 to 255 octets and no ':' (RFC 1929, RFC 7617)",
        "racer.toml:8: proxy.users.eve: a password has 1 to 255 octets (RFC 1929)",
    ]


# --- what guests object to --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("", [":1: entrant 1 'picky': options.domain: missing"]),
        ("[entrant.options]", [":3: entrant 1 'picky': options.domain: missing"]),
        (
            "options.domain = 'a.test'",
            [":3: entrant 1 'picky': options.domain: must end in '.example', not 'a.test'"],
        ),
        # The words name no option; without `port` there would be others.
        (
            "options.domain = 'a.example'\noptions.port = 'x'",
            [":4: entrant 1 'picky': options.port: 'x' is no number at all"],
        ),
        # What was meant is tried in the place of what was written, and what is wrong besides is told too.
        (
            "options.domian = 'a.test'\noptions.port = 'x'",
            [
                ":3: entrant 1 'picky': options.domian: must end in '.example', not 'a.test'",
                ":3: entrant 1 'picky': options: unknown key 'domian'; did you mean 'domain'?",
            ],
        ),
        (
            "options.domain = 'a.example'\noptions.prt = 53\noptions.x = 1",
            [
                ":4: entrant 1 'picky': options: unknown key 'prt'; did you mean 'port'?",
                ":5: entrant 1 'picky': options: unknown key 'x'; known: domain, port, quiet",
            ],
        ),
        # Without either of two there would be other words: so the line is the options'.
        (
            "\n[entrant.options]\ndomain = 'a.example'\nquiet = true\nport = 'x'",
            [":4: entrant 1 'picky': 'x' is no number at all"],
        ),
        # What only follows from something else is not told.
        (
            "options.domain = 'a.example'\noptions.quiet = true\noptions.prt = 60",
            [":5: entrant 1 'picky': options: unknown key 'prt'; did you mean 'port'?"],
        ),
        (
            "options.domain = '${NOWHERE}'\noptions.port = 'x'",
            [":3: entrant 1 'picky': options.domain: the environment variable NOWHERE is not set"],
        ),
    ],
)
def test_what_a_guest_objects_to_has_its_line(
    tmp_path: Path, options: str, told: list[str]
) -> None:
    assert sorted(problems(tmp_path, f"{PICKY}{options}")) == [f"racer.toml{one}" for one in told]


@pytest.mark.parametrize(
    ("factory", "words"),
    [
        ("make_bug", "transport 'x' (tests.racer.plugins:make_bug) could not be made: KeyError"),
        ("make_nothing", "transport 'x' (tests.racer.plugins:make_nothing) made NoneType, which is no transport"),
        ("nowhere:x", "transport 'x' (nowhere:x) could not be imported: ModuleNotFoundError: No module named 'nowhere'"),
    ],
)  # fmt: skip
def test_a_guest_that_cannot_be_made_is_told_at_its_transport(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factory: str, words: str
) -> None:
    install(monkeypatch, point("x", factory))
    found = problems(tmp_path, "\n[[entrant]]\ntransport = 'x'\noptions.a = 1")
    assert found == [f"racer.toml:3: entrant 1 'x': transport: {words}"]


def test_two_packages_with_one_name_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, "direct", point("direct", "make_class"))
    (told,) = problems(tmp_path, DIRECT)
    assert told.startswith("racer.toml: transport 'direct' is installed twice")


def test_causes_are_kept(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as one:
        config.read(write(tmp_path, f"{PICKY}options.domain = 'a.test'"))
    assert "must end in" in str(one.value.__cause__)
    two = f"{PICKY}options.domain = 'a.test'\n{PICKY}name = 'b'\noptions.domain = 'b.test'"
    with pytest.raises(ConfigError) as both:
        config.read(write(tmp_path, two))
    assert isinstance(both.value.__cause__, ExceptionGroup)
    assert len(both.value.__cause__.exceptions) == 2


# --- the environment --------------------------------------------------------------------------


def test_variables_stand_in_any_text(tmp_path: Path) -> None:
    text = """
[[entrant]]
transport = "${KIND}"
name = "$${KIND} of ${KIND}"
[entrant.options]
ports = ["${SECRET}", {"${KIND}" = "a${SECRET}b$$${KIND}"}, '$', "$KIND", 5]
"""
    (entrant,) = config.read(write(tmp_path, text)).entrants
    assert (entrant.transport, entrant.name) == ("direct", "${KIND} of direct")
    assert entrant.options["ports"] == [
        "hunter2-and-more",
        {"${KIND}": "ahunter2-and-moreb$${KIND}"},
        "$",
        "$KIND",
        5,
    ]
    assert entrant.secrets == {"SECRET": "hunter2-and-more", "KIND": "direct"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("${NOWHERE}", "the environment variable NOWHERE is not set"),
        ("${EMPTY}", "the environment variable EMPTY is empty"),
        ("${RUINED}", "the environment variable RUINED is not UTF-8"),
        ("a ${ b", "'${' begins the name of an environment variable, as in '${NAME}'; a literal one is written '$${'"),
        ("${9}", "'${' begins the name of an environment variable, as in '${NAME}'; a literal one is written '$${'"),
        ("${SECRET", "'${' begins the name of an environment variable, as in '${NAME}'; a literal one is written '$${'"),
    ],
)  # fmt: skip
def test_a_variable_that_is_not_there_is_named_and_no_other_shown(
    tmp_path: Path, text: str, reason: str
) -> None:
    found = problems(tmp_path, f"{DIRECT}options.after = 1\noptions.ports = ['${{SECRET}}{text}']")
    assert found == [f"racer.toml:4: entrant 1 'direct': options.ports[1]: {reason}"]
    assert problems(tmp_path, f"{DIRECT}name = '{text}'") == [
        f"racer.toml:3: entrant 1 {text!r}: name: {reason}"
    ]


@pytest.mark.parametrize("name", ["SECRET", "QUOTED"])
@pytest.mark.parametrize(
    "line",
    [
        "options.domain = '{}'",
        "options.domain = 'x{}x'",
        "options.domain = 'a.example'\noptions.port = '{}'",
        "name = '{}{}{}{}{}{}{}{}{}{}'",
        "options.domain = 'a.example'\noptions.domian = '{}'",
    ],
)
def test_what_came_from_the_environment_is_in_no_error(
    tmp_path: Path, line: str, name: str
) -> None:
    variable = f"${{{name}}}"
    file = write(tmp_path, f"{PICKY}{line.replace('{}', variable)}")
    with pytest.raises(ConfigError) as caught:
        config.read(file)
    secret = VARIABLES[name]
    seen: list[BaseException | None] = [caught.value]
    while seen:
        if (error := seen.pop()) is not None:
            told = f"{error!r} {error}"
            assert not [
                secret[at : at + 4] for at in range(len(secret) - 3) if secret[at : at + 4] in told
            ]
            seen += [error.__cause__, error.__context__]
            seen += getattr(error, "exceptions", ())


def test_what_came_from_the_environment_is_in_no_repr(tmp_path: Path) -> None:
    text = f"{DIRECT}options.ports = '${{SECRET}}'\n[proxy.users]\na = '${{SECRET}}'"
    found = config.read(write(tmp_path, text))
    assert found.entrants[0].options["ports"] == found.proxy.users["a"] == VARIABLES["SECRET"]
    assert "hunter2" not in f"{found!r}{found.dialer()!r}"


def test_values_of_our_own_keys_are_shown_as_written(tmp_path: Path) -> None:
    assert problems(tmp_path, f"{DIRECT}tier = '${{SECRET}}'\nname = ' '") == [
        "racer.toml:3: entrant 1 ' ': tier: must be a whole number, not '${SECRET}'",
        "racer.toml:4: entrant 1 ' ': name: must have 1 to 100 characters, all printable, and not only blanks",
    ]
    assert problems(tmp_path, "[[entrant]]\ntransport = '${SECRET}'") == [
        "racer.toml:2: entrant 1 '${SECRET}': transport: no such transport is installed: '${SECRET}'; known: direct, picky, soar"
    ]
    assert problems(tmp_path, f"{DIRECT}[proxy]\nlisten = '${{SECRET}}'") == [
        "racer.toml:4: proxy.listen: must be an address and a port, such as '127.0.0.1:1080', not '${SECRET}'"
    ]


# --- files that cannot be read ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("absent.toml", "No such file or directory"),
        (".", "Is a directory"),
        ("racer.toml/more", "Not a directory"),
        ("x" * 300, "File name too long"),
        ("a\0b", "embedded null byte"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str, reason: str) -> None:
    write(tmp_path, DIRECT)
    with pytest.raises(ConfigError, match=f"cannot be read: {reason}") as caught:
        config.read(tmp_path / name)
    assert len(caught.value.problems) == 1
    assert caught.value.__cause__ is not None


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, mode: str) -> Any:
        raise PermissionError(13, "Permission denied", str(self))

    file = write(tmp_path, DIRECT)
    monkeypatch.setattr("pathlib.Path.open", refuse)
    with pytest.raises(ConfigError, match=r"racer\.toml: cannot be read: Permission denied"):
        config.read(file)


# --- garbage ------------------------------------------------------------------------------------

# fmt: off
VALUES = st.recursive(
    st.one_of(
        st.text(max_size=5).map(lambda text: f'"{text.encode("unicode_escape").decode()}"'),
        st.sampled_from(
            ['"direct"', '"picky"', '"${SECRET}"', '"${"', "1", "-1", "0.5", "nan", "true",
             "1979-05-27", "0xffff", '"127.0.0.1:1"', "'''x\n'''", "07:32:00"]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda all_: f"[{', '.join(all_)}]"),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=2).map(
            lambda table: "{" + ", ".join(f"{key} = {value}" for key, value in table.items()) + "}"
        ),
    ),
    max_leaves=4,
)
KEYS = st.sampled_from(
    ["entrant", "timeout", "redact", "memory", "proxy", "transport", "name", "start_delay", "tier", "options", "options.after", "options.domain", "users", "users.a", "listen", "ttl", "'ß'", "timout"]
)
LINES = st.one_of(
    st.sampled_from(
        ["[[entrant]]", "[entrant.options]", "[memory]", "[proxy]", "[proxy.users]", "[x]", "#", ""]
    ),
    st.builds("{} = {}".format, KEYS, VALUES),
    st.sampled_from(['transport = "direct"', 'transport = "picky"', 'transport = "soar"']),
)
FILES = st.one_of(
    st.lists(LINES, max_size=12).map("\n".join).map(str.encode),
    st.binary(max_size=60),
    st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")),
)


@given(content=FILES)
def test_garbage_gives_a_configuration_or_a_config_error(
    content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "garbage.toml"
    file.write_bytes(content)
    try:
        found, _ = examine(file, VARIABLES)
    except ConfigError as exc:
        told = exc.problems
    else:
        assert found.entrants
        assert found.timeout is None or math.isfinite(found.timeout)
        return
    assert told
    for one in told:
        assert "hunter2" not in one
        assert one.startswith(str(file))
        line, colon, _ = one.removeprefix(f"{file}:").partition(":")
        assert not (colon and line.isdigit()) or 1 <= int(line) <= content.count(b"\n") + 1
