"""What of the user's is kept in files, and what is not."""

from __future__ import annotations

import base64
import random
import string
import types
from pathlib import Path

import pytest

from replay import privacy
from replay.privacy import (
    HOST,
    REMOVED,
    USER,
    Paths,
    private,
    private_command,
    private_message,
    private_value,
    without_home,
    without_random_words,
    without_secrets,
)

SECRET = "hunter2secret"


@pytest.mark.parametrize(
    "words",
    [
        [f"--api-key={SECRET}"], ["--token", SECRET], ["-token", SECRET], [f"--hf_token={SECRET}"],
        ["--openai-api-key", SECRET], [f"AWS_SECRET_ACCESS_KEY={SECRET}"], [f"password={SECRET}"],
        [f"--db.password={SECRET}"], [f"https://user:{SECRET}@host/path"], [f"https://host/x?api_key={SECRET}&b=1"],
        ["-H", f"Authorization: Bearer {SECRET}"], [f"Authorization: Basic {SECRET}"],
        ["-c", f"login(token='{SECRET}')"],
        ["-c", f'login({{"api_key": "{SECRET} and more"}})'], [f"s3://AK:{SECRET}@bucket"], ["--wandb-api-key", SECRET],
        [f"https://host/x?X-Amz-Date=1&X-Amz-Signature={SECRET}"], [f"https://a.blob/c?sv=1&sig={SECRET}&se=2"],
        ["--secret-value", SECRET], [f"--key={SECRET}"], ["--encryption-key-id", SECRET], [f"--token-value={SECRET}"],
        ["--password", "1234"], [f"SERVICE_TOKEN_V2={SECRET}"], [f"DB_PASSWORD={SECRET}"],
        ["--passphrase", SECRET], [f"--client-secret={SECRET}"], [f"HF_TOKEN={SECRET}"],
    ],
)  # fmt: skip
def test_values_that_look_like_secrets_are_not_kept(words: list[str]) -> None:
    kept = private_command(["python", "train.py", *words, "--epochs", "3"])
    assert SECRET not in " ".join(kept)
    assert REMOVED in " ".join(kept)
    assert kept[:2] == ["python", "train.py"]
    assert kept[-2:] == ["--epochs", "3"]
    assert private_command(kept) == kept, "twice is once"


@pytest.mark.parametrize(
    "token",
    [
        "ghp_" + "a1" * 18,
        "hf_" + "aB" * 17,
        "sk-" + "x9" * 16,
        "AKIA" + "A1" * 8,
        "eyJhbGciOiJI.eyJzdWIiOiIx.c2ln",
    ],
)
def test_well_known_tokens_are_not_kept(token: str) -> None:
    assert token not in without_secrets(f"run --with {token}")


@pytest.mark.parametrize(
    "word",
    ["--max-tokens=512", "--tokenizer=gpt2", "--pad-token=x", "--kernel=attention.*", "key=3", "--author=me",
     "https://host/path", "std::token::value", "a=b", "--eos_token=</s>", "author: x", "tokens: 5",
     "--num-key-value-heads=8", "--token-budget=4096", "--monkey=3", "--author", "--keyboard=us", "https://host/x?a=1"],
)  # fmt: skip
def test_other_words_are_kept(word: str) -> None:
    assert private_command(["x", word, "--tokenizer", "gpt2"]) == ["x", word, "--tokenizer", "gpt2"]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("/home/ada/x.rsnap", "~/x.rsnap"), ("--data=/home/ada", "--data=~"), ("/home/ada2/x", "/home/ada2/x"),
        ("a:/home/ada/b:/home/ada/c", "a:~/b:~/c"), ("/mnt/home/ada/x", "/mnt/home/ada/x"),
        ("cannot read /home/ada/x (no such file)", "cannot read ~/x (no such file)"),
        ("/home/ada.old", "/home/ada.old"),
    ],
)  # fmt: skip
def test_the_home_folder_is_a_tilde(text: str, kept: str) -> None:
    assert without_home(text, "/home/ada") == kept


@pytest.mark.parametrize("home", ["", "/", "relative"])
def test_without_a_home_folder_nothing_is_changed(monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    monkeypatch.setenv("HOME", home)
    assert without_home("/usr/bin/x /") == "/usr/bin/x /"


def test_every_text_of_a_document_is_private(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    value = {"command": ["replay", "--token", SECRET], "notes": ["in /home/ada/x"], "times": [1, 2.5], "n": None,
             "variant": {"text": f"driver=/home/ada/d env=API_KEY={SECRET}"}}  # fmt: skip
    assert private_value(value) == {
        "command": ["replay", "--token", REMOVED], "notes": ["in x"], "times": [1, 2.5], "n": None,
        "variant": {"text": f"driver=d env=API_KEY={REMOVED}"},
    }  # fmt: skip


@pytest.mark.parametrize(
    "alphabet", [string.ascii_letters + string.digits, string.ascii_lowercase + string.digits]
)
@pytest.mark.parametrize("length", [24, 32, 48, 64])
def test_most_words_drawn_by_lot_are_not_kept(alphabet: str, length: int) -> None:
    words = ["".join(random.Random(seed).choices(alphabet, k=length)) for seed in range(400)]
    assert sum(REMOVED in without_random_words(word) for word in words) > 340


def test_most_keys_in_base64_are_not_kept() -> None:
    words = [base64.urlsafe_b64encode(random.Random(seed).randbytes(32)).decode() for seed in range(400)]
    assert sum(without_random_words(f"x={word}") == f"x={REMOVED}" for word in words) > 340


@pytest.mark.parametrize(
    "word",
    [
        "0123456789abcdef0123456789abcdef01234567", "8f14e45fceea167a5a36dedd4bea2543",
        "E3B0C44298FC1C149AFBF4C8996FB924",
        "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIN4cute5tupleIJiiiiEEENS1_10collective13CollectiveMma",
        "sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
        "triton_poi_fused__to_copy_add_mul_native_layer_norm_backward_0d1d2d3d4d5d6d7d",
        "4096x4096x4096x128x64x32x16x8x4",
        "Cijk_Alik_Bljk_HHS_BH_MT128x128x32_MI16x16x16x1_SN_1LDSB1_AFC1_AFEM1_ASEM1_CLR0_DTLA0",
        "GPU-5a1b2c3d-aaaa-bbbb",
        "HopperWgmmaGemmKernelF16F16F32Tile128x256x64", "CollectiveEpilogueSm100TmaWarpSpecialized2SmNoSmem",
        "fusedAttentionForward2023Version7HeadDim128BlockM64BlockN64NumStages3", "model-00001-of-00030.safetensors",
        "models/meta-llama/Llama-3.1-70B-Instruct/checkpoint-000123", "2026-11-23T19-08-56", "--gpus-per-node=8",
        "batch_size_1024_seqlen_8192_heads_32_kv8_d128_bf16_causal_varlen",
        "data/imagenet2012/train/n01440764/0001.jpeg",
    ],
)  # fmt: skip
def test_digests_names_of_kernels_shapes_and_paths_are_no_random_words(word: str) -> None:
    assert without_random_words(word) == word


@pytest.fixture
def ada(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A user and a host, and a working folder in the home folder."""
    home = tmp_path / "ada"
    (home / "project").mkdir(parents=True)
    monkeypatch.chdir(home / "project")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USER", "ada")
    named = types.SimpleNamespace(nodename="turing.example.org")
    monkeypatch.setattr(privacy.os, "uname", lambda: named)
    return home


def test_paths_are_relative_to_the_working_folder_or_names_of_files(ada: Path) -> None:
    words = [f"{ada}/project/data/x.bin", f"--model={ada}/other/my model.bin", "/srv/team/y.bin", "/usr/bin/python3",
             f"{ada}/project", "../z.bin", f"--search={ada}/a:/srv/b", "--x=1"]  # fmt: skip
    assert private_command(words) == [
        "data/x.bin", "--model=my model.bin", "y.bin", "/usr/bin/python3", ".", "../z.bin", "--search=a:b", "--x=1",
    ]  # fmt: skip


def test_two_paths_of_one_document_never_get_the_same_name(ada: Path) -> None:
    value = private_value({"a": "/srv/one/lib", "b": ["see /srv/two/lib and /srv/one/lib"]})
    assert value == {"a": "lib", "b": ["see lib#2 and lib"]}


def test_names_of_user_and_host_are_not_kept(ada: Path) -> None:
    words = [
        "--user=ada",
        "ssh://ada@turing/x",
        "out/ada/x",
        "--on",
        "turing.example.org",
        "adapter",
        "--ada-lovelace",
    ]
    assert private_command(words) == [
        f"--user={USER}", f"ssh://{REMOVED}@{HOST}/x", f"out/{USER}/x", "--on", HOST, "adapter", "--ada-lovelace",
    ]  # fmt: skip
    assert (
        private_message("open(/tmp/ada/k.ptx) for ada on turing: no")
        == f"open(k.ptx) for {USER} on {HOST}: no"
    )
    assert private("ada_fp8_gemm of ada") == "ada_fp8_gemm of ada", "may be the name of a kernel"


@pytest.mark.parametrize(
    "text", ["a / b", "and/or", "https://host/a/b", "#include <x/y.h>", "tokens/s", "</td></tr>"]
)
def test_what_is_no_path_is_kept(text: str) -> None:
    assert Paths().in_text(text) == text


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("see https://a.b/c?sig=x&y=z now", "see https://a.b/c?[removed] now"),
        ("https://a.b/c#d?sig=x", "https://a.b/c#d?sig=x"),
        ("https://a.b/c#d,https://e.f/g?x=1&X-Amz-Signature=q", "https://a.b/c#d,https://e.f/g?[removed]"),
        ("https://a.b/c?x=1&y=2", "https://a.b/c?x=1&y=2"),
        ("://?signature", "://?signature"),
    ],
)
def test_queries_that_sign_are_removed(text: str, kept: str) -> None:
    assert privacy.without_secrets(text) == kept


def test_a_text_of_many_addresses_is_gone_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a limit for each of them, 4 KB took a quarter of a second."""
    looked = 0

    class Counted:
        def search(self, text: str, begin: int) -> None:
            nonlocal looked
            looked += len(text) - begin

    text = "://" * 600 + "?" + "key" * 600 + "?" + "://a?" * 100
    monkeypatch.setattr(privacy, "_SIGNED", Counted())
    assert privacy.without_secrets(text) == text
    assert 0 < looked <= len(text)


def test_many_files_of_one_name_get_a_number_each_without_counting_again() -> None:
    class Counted(set[str]):
        asked = 0

        def __contains__(self, name: object) -> bool:
            Counted.asked += 1
            return super().__contains__(name)

    paths = privacy.Paths()
    paths._taken = Counted()
    names = [paths.short(f"/of/{number}/x") for number in range(100)]
    assert names == ["x", *(f"x#{number}" for number in range(2, 101))]
    assert Counted.asked < 300
