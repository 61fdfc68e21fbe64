"""Builds HTML. Every string that this module did not create is escaped, so text from a report is never markup."""
import html

VOID = {"meta", "input", "br", "link"}


class Html(str):
    """HTML that needs no escaping."""


def clean(words):
    """Returns text without control and text-direction characters, which could disguise a line."""
    return "".join(" " if c in "\t\n\r" else c for c in words if c in "\t\n\r" or not is_control(ord(c)))


def text(value):
    return Html(html.escape(clean(str(value)), quote=True))


def is_control(code):
    return (code < 0x20 or 0x7F <= code < 0xA0 or 0x200B <= code <= 0x200F or 0x2028 <= code <= 0x202E or
            0x2060 <= code <= 0x206F or code == 0xFEFF or 0xD800 <= code <= 0xDFFF)


def join(*parts):
    """Concatenates parts to HTML: Html objects unchanged, lists joined, everything else escaped."""
    return Html("".join(part if isinstance(part, Html) else join(*part) if isinstance(part, (list, tuple)) else text(part)
                        for part in parts if part is not None))


def el(name, *parts, **attributes):
    """Returns the HTML element <name attributes>parts</name>. The keyword class_ becomes class, data_x becomes data-x;
    True gives an attribute without value, None and False give none."""
    words = [name]
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is True:
            words.append(key)
        elif value is not None and value is not False:
            words.append(f'{key}="{text(value)}"')
    start = f"<{' '.join(words)}>"
    return Html(start) if name in VOID else Html(f"{start}{join(*parts)}</{name}>")
