"""What of the user's is kept in files, and what is not."""

from __future__ import annotations

import pytest

from replay.privacy import REMOVED, private_command, private_value, without_home, without_secrets

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
        [f"DB_PASSWORD={SECRET}"], ["--passphrase", SECRET], [f"--client-secret={SECRET}"], [f"HF_TOKEN={SECRET}"],
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
     "https://host/path", "std::token::value", "a=b", "--eos_token=</s>", "author: x", "tokens: 5"],
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
        "command": ["replay", "--token", REMOVED], "notes": ["in ~/x"], "times": [1, 2.5], "n": None,
        "variant": {"text": f"driver=~/d env=API_KEY={REMOVED}"},
    }  # fmt: skip
