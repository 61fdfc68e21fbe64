"""Converts matplotlib's SVG for the HTML page: unique ids, colours as CSS variables, attributes for the script."""
import re
import xml.etree.ElementTree as xml

import palette

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
ROLE_OF = {light: role for role, light in palette.LIGHT.items()}
xml.register_namespace("", SVG)


def variables(style):
    return re.sub("#[0-9a-f]{6}", lambda found: f"var(--{ROLE_OF[found[0]]})" if found[0] in ROLE_OF else found[0], style)


def for_page(source, prefix, attributes, description):
    """Returns the SVG element for the page. source: text of an SVG file; attributes: {id: {name: value}}."""
    root = xml.fromstring(source)
    for parent in list(root.iter()):
        for child in list(parent):
            # Removes metadata and title elements: the attribute aria-label describes the chart instead.
            if child.tag in (f"{{{SVG}}}metadata", f"{{{SVG}}}title"):
                parent.remove(child)
    for key in ("width", "height"):
        root.attrib.pop(key, None)
    root.set("role", "img")
    root.set("aria-label", description)
    referred = set(re.findall(r'(?:href="|url\()#([^")]+)', source))
    for node in root.iter():
        own = node.attrib.pop("id", None)
        node.attrib.update(attributes.get(own, {}))
        if own in referred:
            node.set("id", f"{prefix}-{own}")
        target = node.attrib.pop(f"{{{XLINK}}}href", None)
        if target:
            node.set("href", f"#{prefix}-{target[1:]}")
        for key in ("style", "clip-path"):
            if key in node.attrib:
                node.set(key, variables(re.sub(r"url\(#", f"url(#{prefix}-", node.attrib[key])))
    return re.sub(r">\s+<", "><", xml.tostring(root, encoding="unicode"))
