"""Renders template cases with Python's Jinja2: the reference of jinja2.json.

    python3 jinja2_ref.py cases.json > jinja2.json

cases.json is {"inputs": {name: variables}, "cases": [[template, input name], …]}.
Each case gets what Jinja2 prints, or the class of its error. The environment
is the one that transformers makes for chat templates, with what we allow
beyond it: list.append, list.pop, the filter from_json, the statement do. A
filter or test that does not exist counts as found when it is reached.
"""

import json
import sys
from datetime import datetime

import jinja2
import jinja2.ext
from jinja2 import nodes
from jinja2.exceptions import (
    SecurityError,
    TemplateAssertionError,
    TemplateError,
    TemplateSyntaxError,
    UndefinedError,
)
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime(2026, 1, 2, 3, 4, 5)


class Raised(TemplateError):
    pass


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_body")
        return nodes.CallBlock(call, [], [], body).set_lineno(lineno)

    def _body(self, caller):
        return caller()


def raise_exception(message):
    raise Raised(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class Environment(ImmutableSandboxedEnvironment):
    def is_safe_attribute(self, obj, attr, value):
        if isinstance(obj, list) and attr in ("append", "pop"):
            return True
        return super().is_safe_attribute(obj, attr, value)


def environment():
    env = Environment(
        trim_blocks=True, lstrip_blocks=True,
        extensions=[Generation, jinja2.ext.loopcontrols, jinja2.ext.do],
    )
    env.filters["tojson"] = tojson
    env.filters["from_json"] = json.loads
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda fmt: NOW.strftime(fmt)
    return env


def render(env, source, variables):
    """Returns (text, None) or (None, kind of error)."""
    try:
        template = env.from_string(source)
    except TemplateAssertionError as e:
        return None, "runtime" if e.message.startswith("No ") else "syntax"
    except (TemplateSyntaxError, SyntaxError):
        return None, "syntax"
    try:
        text = template.render(**variables)
        text.encode()
        return text, None
    except Raised as e:
        return None, "raise:" + str(e)
    except SecurityError:
        return None, "security"
    except UndefinedError:
        return None, "undefined"
    except TypeError:
        return None, "type"
    except RecursionError:
        return None, "limit"
    except Exception:  # ValueError, KeyError, ZeroDivisionError, TemplateRuntimeError …
        return None, "runtime"


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        data = json.load(f)
    env = environment()
    out = []
    for source, name in data["cases"]:
        variables = json.loads(json.dumps(data["inputs"][name]))
        text, kind = render(env, source, variables)
        out.append([source, name, text] if kind is None else [source, name, None, kind])
    rows = ",\n".join(json.dumps(row, ensure_ascii=False) for row in out)
    inputs = json.dumps(data["inputs"], ensure_ascii=False)
    print('{"now": "%s",\n"inputs": %s,\n"cases": [\n%s\n]}' % (NOW.isoformat(), inputs, rows))


if __name__ == "__main__":
    main()
