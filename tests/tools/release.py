"""``python -m tests.tools.release VERSION FOLDER --repository https://…`` makes a release.

It writes the version and the date into the changelog, commits and tags both, builds the tag into ``FOLDER``, checks the
files with twine, and installs the wheel into a new environment, where a conversation must work. It publishes nothing:
``git push --follow-tags`` and ``twine upload`` are yours. A release that failed is undone by ``git tag --delete`` and
``git reset``, as it says.
"""

from __future__ import annotations

import argparse
import datetime
import io
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

from tests.support.paths import ROOT
from tests.tools.build_site import relinked

__all__ = ["absolute_links", "main"]

TRIAL = """
import django
from django.conf import settings

settings.configure(
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "chatmemory"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
)
django.setup()

from django.core.management import call_command

from chatmemory import UserMessage, __version__
from chatmemory.models import Conversation

call_command("migrate", verbosity=0)
memory = Conversation.objects.create().memory
memory.add(UserMessage("Hello"))
assert memory.to_format("openai") == [{"role": "user", "content": "Hello"}]
print("django-chatmemory", __version__, "works")
"""


def absolute_links(readme: str, repository: str, tag: str) -> str:
    """Return the README with links and pictures that lead to ``tag`` in a repository, as the package's page needs."""
    return relinked(readme, lambda path, is_picture: f"{repository}/{'raw' if is_picture else 'blob'}/{tag}/{path}")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def _replaced(name: str, pattern: str, by: str) -> None:
    file = ROOT / name
    text, count = re.subn(pattern, by, file.read_text(encoding="utf-8"), count=1, flags=re.MULTILINE)
    if not count:
        raise SystemExit(f"{name} has no line for the release: {pattern}")
    file.write_text(text, encoding="utf-8")


def main(version: str, folder: Path, repository: str) -> None:
    """Make a release.

    Raises:
        SystemExit: the version is no version, the tree has changes, or the changelog has no section for it.
        CalledProcessError: a step failed.
    """
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise SystemExit(f"The version must have three numbers, as 0.1.0, but is: {version}")
    if changed := _git("status", "--porcelain"):
        raise SystemExit(f"Commit or discard these changes first:\n{changed}")
    tag, today = f"v{version}", datetime.datetime.now(tz=datetime.UTC).date()
    _replaced("CHANGELOG.md", rf"^## {re.escape(version)} \(unreleased\)$", f"## {version} ({today})")
    _replaced("chatmemory/__init__.py", r'^__version__ = ".*"$', f'__version__ = "{version}"')
    _git("commit", "--all", "--message", f"release: {version}")
    _git("tag", "--annotate", tag, "--message", tag)
    undo = f"To undo it: git tag --delete {tag} && git reset --hard HEAD~1"
    try:
        _build(tag, folder, repository)
    except subprocess.CalledProcessError:
        sys.stderr.write(f"The release failed. {undo}\n")
        raise
    sys.stdout.write(f"{tag} is in {folder}. Publish it: git push --follow-tags && twine upload {folder}/*. {undo}\n")


def _build(tag: str, folder: Path, repository: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        tree, environment = Path(place) / "tree", Path(place) / "venv"
        archive = subprocess.run(["git", "archive", tag], cwd=ROOT, check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
            packed.extractall(tree, filter="data")
        readme, project = tree / "README.md", tree / "pyproject.toml"
        readme.write_text(absolute_links(readme.read_text("utf-8"), repository, tag), "utf-8")
        urls = {
            "Repository": repository,
            "Documentation": f"{repository}/tree/{tag}/docs",
            "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
        }
        lines = "".join(f'{name} = "{address}"\n' for name, address in urls.items())
        with project.open("a", encoding="utf-8") as file:
            file.write(f"\n[project.urls]\n{lines}")
        subprocess.run([sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, tree], check=True)
        files = sorted(folder.glob(f"django_chatmemory-{tag.removeprefix('v')}*"))
        subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files], check=True)
        venv.create(environment, with_pip=True)
        [wheel] = (file for file in files if file.suffix == ".whl")
        subprocess.run([environment / "bin/python", "-m", "pip", "install", "--quiet", wheel], check=True)
        subprocess.run([environment / "bin/python", "-c", TRIAL], cwd=place, check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repository", required=True, help="its address, to which the package's page links")
    given = parser.parse_args()
    main(given.version, given.folder.resolve(), given.repository.rstrip("/"))
