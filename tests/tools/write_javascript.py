"""``python -m tests.tools.write_javascript`` bundles the modules of chatmemory/javascript/ into the scripts of pages.

It needs the extra ``dev``. Tests marked ``npm`` compare the bundles with the modules.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.ai_sdk import bundled, installed
from tests.support.paths import ROOT

__all__ = ["BUNDLES", "bundle_text"]

MODULES = ROOT / "chatmemory" / "javascript"
STATIC = ROOT / "chatmemory" / "static" / "chatmemory"
BUNDLES = {
    STATIC / "chat" / "chat.js": MODULES / "chat" / "index.js",
    STATIC / "admin" / "markdown.js": MODULES / "admin" / "markdown.js",
}
"""Each script of a page, with the module that it is made of."""


def bundle_text(module: Path) -> str:
    """What the script that is made of a module has to say."""
    name = module.relative_to(ROOT)
    banner = f"/* Made of {name} by python -m tests.tools.write_javascript. */"
    with TemporaryDirectory() as folder:
        options = ["--minify", "--target=es2022", "--charset=utf8", "--legal-comments=inline", f"--banner:js={banner}"]
        return bundled(installed(), module, Path(folder) / "bundle.js", *options).read_text("utf-8")


if __name__ == "__main__":
    for made, module in BUNDLES.items():
        made.write_text(bundle_text(module), "utf-8")
